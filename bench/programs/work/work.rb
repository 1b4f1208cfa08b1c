# SPDX-License-Identifier: MIT
# work.rb REPEATS: objects in hashes and arrays, strings, JSON written and read, text scanned and
# put together by ERB. Prints a sum of the results.
require 'erb'
require 'json'

Item = Struct.new(:name, :price, :tags)

class Numbers
  def initialize = @state = 12_345

  def below(limit)
    @state = (@state * 1_103_515_245 + 12_345) % 2_147_483_648
    @state / 65_536 % limit
  end
end

class Order
  attr_reader :customer, :items

  def initialize(customer, items)
    @customer = customer
    @items = items
  end

  def total = items.sum(&:price)

  def to_h = { 'customer' => customer, 'items' => items.map { |item| { 'name' => item.name, 'price' => item.price, 'tags' => item.tags } } }

  def self.from(hash)
    new(hash['customer'], hash['items'].map { |item| Item.new(item['name'], item['price'], item['tags']) })
  end
end

TEMPLATE = ERB.new(<<~TEXT, trim_mode: '-')
  <%- groups.each do |customer, orders| -%>
  <h1><%= customer %></h1>
  <%- orders.each do |order| -%>
  <p><%= order.items.map(&:name).join(', ') %>: <%= order.total %></p>
  <%- end -%>
  <%- end -%>
TEXT

numbers = Numbers.new
sum = 0
Integer(ARGV.fetch(0, '1')).times do
  orders = Array.new(4000) do
    items = Array.new(1 + numbers.below(5)) do
      Item.new("item #{numbers.below(500)}", numbers.below(10_000), Array.new(numbers.below(4)) { |i| "tag#{i}-#{numbers.below(9)}" })
    end
    Order.new("customer #{numbers.below(400)}", items)
  end
  text = JSON.generate(orders.map(&:to_h))
  again = JSON.parse(text).map { |hash| Order.from(hash) }
  abort 'the result is wrong' unless JSON.generate(again.map(&:to_h)) == text
  groups = again.group_by(&:customer).sort_by { |customer, of| [-of.sum(&:total), customer] }
  page = TEMPLATE.result_with_hash(groups: groups)
  words = page.scan(/[a-z]+ \d+/).tally.sort_by { |word, count| [-count, word] }
  lines = words.map { |word, count| "#{word.upcase.tr(' ', '_')} #{count}" }
  sum += text.size + page.gsub(/<[^>]*>/, '').size + lines.join("\n").sum
end
puts sum
