-- SPDX-License-Identifier: MIT
-- work.lua REPEATS: trees of tables, objects with methods and closures, strings parsed and put
-- together, tables sorted. Prints a sum of the results.
local repeats = tonumber(arg[1] or 1)
local state = 12345

local function random(below)
  state = (state * 1103515245 + 12345) % 2147483648
  return state // 65536 % below
end

local Account = {}
Account.__index = Account

function Account.new(name)
  local history = {}
  local self = setmetatable({ name = name, total = 0, history = history }, Account)
  self.add = function(amount)
    self.total = self.total + amount
    history[#history + 1] = { amount = amount, text = name .. ":" .. amount }
  end
  return self
end

local function tree(depth)
  if depth == 0 then return { value = random(10) } end
  return { left = tree(depth - 1), right = tree(depth - 1), name = "node" .. depth .. random(1000) }
end

local function sum_of(node)
  return node.value or sum_of(node.left) + sum_of(node.right)
end

local function encode(value)
  if type(value) ~= "table" then return tostring(value) end
  local names, parts = {}, {}
  for name in pairs(value) do names[#names + 1] = name end
  table.sort(names)
  for i, name in ipairs(names) do parts[i] = name .. "=" .. encode(value[name]) end
  return "{" .. table.concat(parts, ";") .. "}"
end

local function decode(text, at)
  if text:byte(at) ~= 123 then
    local word, after = text:match("^([^;}]*)()", at)
    return word, after
  end
  local found = {}
  at = at + 1
  while text:byte(at) ~= 125 do
    local name, after = text:match("^([^=]*)=()", at)
    found[name], at = decode(text, after)
    if text:byte(at) == 59 then at = at + 1 end
  end
  return found, at + 1
end

local sum = 0
for _ = 1, repeats do
  local grown = tree(13)
  sum = sum + sum_of(grown)
  local text = encode(grown)
  assert(encode((decode(text, 1))) == text, "the result is wrong")
  local accounts = {}
  for i = 1, 30000 do
    local name = "account" .. random(3000)
    accounts[name] = accounts[name] or Account.new(name)
    accounts[name].add(random(1000) + i % 7)
  end
  local sorted = {}
  for _, account in pairs(accounts) do sorted[#sorted + 1] = account end
  table.sort(sorted, function(a, b) return a.total == b.total and a.name < b.name or a.total > b.total end)
  local lines = {}
  for i, account in ipairs(sorted) do
    lines[i] = string.format("%s %d %s", account.name, account.total, account.history[1].text)
  end
  local report = table.concat(lines, "\n"):gsub("(%a+)(%d+) ", "%2%1 "):upper()
  sum = sum + #report + #text + report:byte(#report // 2)
end
print(sum)
