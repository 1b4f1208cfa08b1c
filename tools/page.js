"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const element = id => document.getElementById(id);

function bytes(n) {
  const sign = n < 0 ? "−" : "";
  n = Math.abs(n);
  let unit = 0;
  for (; n >= 1024 && unit < 5; unit++) n /= 1024;
  return sign + (unit ? n.toFixed(n < 10 ? 2 : n < 100 ? 1 : 0) : n) + " " + ["B", "KiB", "MiB", "GiB", "TiB", "PiB"][unit];
}
const percent = (part, whole) => whole ? (100 * part / whole).toFixed(part === whole ? 0 : 1) + " %" : "–";

/* A tip beside the pointer, inside the window; no text: none. */
function showTip(text, event) {
  const tip = element("tip");
  tip.hidden = !text;
  if (!text) return;
  tip.textContent = text;
  const below = event.clientY + 18, fits = below + tip.offsetHeight <= innerHeight;
  tip.style.left = Math.max(Math.min(event.clientX + 16, innerWidth - tip.offsetWidth - 8), 4) + "px";
  tip.style.top = Math.max(fits ? below : event.clientY - tip.offsetHeight - 8, 4) + "px";
}

/* Cells are texts, elements or lists of both; isNumber(column): it is aligned to the right. */
function fillTable(table, caption, heads, rows, isNumber) {
  table.replaceChildren(table.createCaption());
  table.caption.textContent = caption;
  const add = (cells, tag) => {
    const row = table.insertRow();
    cells.forEach((content, i) => {
      const cell = document.createElement(tag);
      cell.append(...[content].flat());
      if (isNumber(i)) cell.className = "n";
      row.append(cell);
    });
  };
  add(heads, "th");
  rows.forEach(cells => add(cells, "td"));
}

function key(background) {
  const box = document.createElement("span");
  box.className = "key";
  box.style.background = background;
  return box;
}
