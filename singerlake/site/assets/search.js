"use strict";
(function () {
  const form = document.querySelector("[data-search]");
  if (!form) return;
  const input = form.querySelector("input");
  const list = form.querySelector("ul");
  const status = form.querySelector("[role=status]");
  const root = form.getAttribute("data-search");
  const MOST = 20;
  let tables = null;
  let index = null;
  let active = -1;
  let asked = false;

  form.hidden = false;
  form.addEventListener("submit", function (event) { event.preventDefault(); });
  input.addEventListener("focus", load);
  input.addEventListener("input", function () { load(); show(); });
  input.addEventListener("keydown", onKey);
  document.addEventListener("click", function (event) {
    if (!form.contains(event.target)) close();
  });
  form.addEventListener("focusout", function (event) {
    if (event.relatedTarget && !form.contains(event.relatedTarget)) close();
  });

  function load() {
    if (asked) return;
    asked = true;
    const script = document.createElement("script");
    script.src = root + "assets/search-index.js";
    script.onload = function () { prepare(); show(); };
    script.onerror = function () { status.textContent = "The search index cannot be read."; };
    document.head.appendChild(script);
  }

  function prepare() {
    index = window.singerlakeIndex;
    const lower = index.columns.map(function (name) { return name.toLowerCase(); });
    tables = index.tables.map(function (row) {
      const tap = index.taps[row[0]];
      return {
        name: tap[0] + "." + row[1],
        lower: (tap[0] + "." + row[1]).toLowerCase(),
        stream: row[1].toLowerCase(),
        columns: row[2],
        words: row[3].toLowerCase(),
        path: tap[1] + "/tables/" + (row[4] || row[1] + "/index")
      };
    });
    tables.sort(function (a, b) { return a.name < b.name ? -1 : 1; });
    index.lower = lower;
  }

  // How well a table's own names have a word; 0 where only its columns or words may.
  function byName(table, word) {
    const at = table.lower.indexOf(word);
    if (at < 0) return 0;
    if (table.lower.length === word.length || table.stream === word) return 100;
    return table.stream.startsWith(word) ? 60 : 40;
  }

  // Of a word: how well each column's name has it, looked up once for all tables. None where no
  // column has it: then no table's columns are gone through.
  function columnsWith(word) {
    const scores = new Uint8Array(index.lower.length);
    let most = 0;
    for (let n = 0; n < scores.length; n++) {
      if (!index.lower[n].includes(word)) continue;
      scores[n] = index.lower[n].length === word.length ? 30 : 15;
      if (scores[n] > most) most = scores[n];
    }
    return most ? { scores: scores, most: most } : null;
  }

  // The first that no other can be better than ends the look at a table's columns.
  function bestColumn(columns, hits) {
    let best = -1;
    let score = 0;
    for (let n = 0; n < columns.length && score < hits.most; n++) {
      const found = hits.scores[columns[n]];
      if (found > score) { score = found; best = columns[n]; }
    }
    return best;
  }

  // The best few in their order, without sorting all: tables come by their names, so that of two
  // that are as good the first stays first.
  function keep(best, total, table, column) {
    let place = best.length;
    while (place > 0 && best[place - 1][0] < total) place--;
    if (place === MOST) return;
    best.splice(place, 0, [total, table, column]);
    if (best.length > MOST) best.pop();
  }

  function find(text) {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    const hits = words.map(columnsWith);
    const best = [];
    let count = 0;
    for (let t = 0; words.length && t < tables.length; t++) {
      const table = tables[t];
      let total = 0;
      let column = -1;
      for (let w = 0; w < words.length; w++) {
        let score = byName(table, words[w]);
        if (!score && hits[w]) {
          const found = bestColumn(table.columns, hits[w]);
          if (found >= 0) { column = found; score = hits[w].scores[found]; }
        }
        if (!score && table.words.includes(words[w])) score = 5;
        if (!score) { total = 0; break; }
        total += score;
      }
      if (!total) continue;
      count++;
      keep(best, total, table, column);
    }
    return { best: best, count: count };
  }

  function show() {
    if (!tables) return;
    const text = input.value.trim();
    const found = find(text);
    list.textContent = "";
    active = -1;
    input.removeAttribute("aria-activedescendant");
    found.best.forEach(function (hit, place) {
      const item = document.createElement("li");
      item.id = "search-" + place;
      item.setAttribute("role", "option");
      item.setAttribute("aria-selected", "false");
      item.dataset.path = hit[1].path;
      const name = document.createElement("bdi");
      name.textContent = safe(hit[1].name);
      item.appendChild(name);
      if (hit[2] >= 0) {
        const column = document.createElement("small");
        column.textContent = "column " + safe(index.columns[hit[2]]);
        item.appendChild(column);
      }
      item.addEventListener("click", function () { go(item); });
      list.appendChild(item);
    });
    const open = found.count > 0;
    list.hidden = !open;
    input.setAttribute("aria-expanded", String(open));
    status.textContent = !text ? "" :
      found.count === 0 ? "Nothing found" :
      found.count > MOST ? found.count + " tables found, the first " + MOST + " are shown" :
      found.count === 1 ? "1 table found" : found.count + " tables found";
    if (open) select(0);
  }

  // What could turn the line around, or cannot be seen, is written out, as on the pages.
  function safe(text) {
    return text.slice(0, 200).replace(
      /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufff9-\ufffb]/g,
      function (c) { return "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"); }
    );
  }

  function select(place) {
    const items = list.children;
    if (!items.length) return null;
    if (active >= 0) items[active].setAttribute("aria-selected", "false");
    active = (place + items.length) % items.length;
    items[active].setAttribute("aria-selected", "true");
    input.setAttribute("aria-activedescendant", items[active].id);
    return items[active];
  }

  function reveal(item) {
    if (item) item.scrollIntoView({ block: "nearest" });
  }

  function onKey(event) {
    if (event.key === "ArrowDown") { reveal(select(active + 1)); event.preventDefault(); }
    else if (event.key === "ArrowUp") { reveal(select(active - 1)); event.preventDefault(); }
    else if (event.key === "Escape") { close(); }
    else if (event.key === "Enter" && active >= 0 && !list.hidden) { go(list.children[active]); }
  }

  function close() {
    list.hidden = true;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
    active = -1;
  }

  function go(item) {
    const path = item.dataset.path.split("/").map(encodeURIComponent).join("/");
    location.href = root + path + ".html";
  }
})();
