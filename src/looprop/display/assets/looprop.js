"use strict";
// What pages and notebook output do beyond showing themselves, inside one root: tooltips, sorting, features linked with
// their rows, filters, the strength of heat maps. Everything can be read without it.
const looprop = (root) => {
  const all = (selector, inside = root) => [...inside.querySelectorAll(selector)];
  for (const element of all("[title]")) {
    element.dataset.tip = element.title;
    element.removeAttribute("title");
  }
  // A tip at the edge of the window stays inside it.
  root.addEventListener("mouseover", (event) => {
    const element = event.target.closest?.("[data-tip]");
    if (!element) return;
    const middle = element.getBoundingClientRect().left + element.getBoundingClientRect().width / 2;
    const half = Math.min(4 * element.dataset.tip.length, 150);
    const width = document.documentElement.clientWidth;
    const shift = middle < half ? half - middle : middle + half > width ? width - middle - half : 0;
    element.style.setProperty("--shift", `${Math.round(shift)}px`);
  });

  const cellValue = (row, column) => {
    const cell = row.cells[column];
    return "sort" in cell.dataset ? Number(cell.dataset.sort) : cell.textContent.trim();
  };
  // NaN goes to the end whichever way the column is sorted.
  const compare = (a, b, sign) => {
    if (typeof a === "string" || typeof b === "string") return sign * String(a).localeCompare(String(b));
    if (Number.isNaN(a) || Number.isNaN(b)) return Number.isNaN(a) - Number.isNaN(b);
    return sign * (a - b);
  };
  const sortBy = (header) => {
    const table = header.closest("table"), column = header.cellIndex;
    const ascending = header.getAttribute("aria-sort") === "none" ? "first" in header.dataset : header.getAttribute("aria-sort") === "descending";
    for (const other of all("th[aria-sort]", table)) other.setAttribute("aria-sort", "none");
    header.setAttribute("aria-sort", ascending ? "ascending" : "descending");
    const body = table.tBodies[0];
    body.append(...[...body.rows].sort((r, s) => compare(cellValue(r, column), cellValue(s, column), ascending ? 1 : -1)));
  };
  for (const header of all("th[aria-sort]")) {
    header.tabIndex = 0;
    header.addEventListener("click", () => sortBy(header));
    header.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") { event.preventDefault(); sortBy(header); }
    });
  }

  // The same feature, wherever it is marked: in the text, in the picture, in a row of a table.
  const scopeOf = (element) => element.closest(".linking") ?? root;
  const same = (element) => all(`[data-feature="${element.dataset.feature}"]`, scopeOf(element));
  for (const [kind, on] of [["mouseover", true], ["mouseout", false]])
    root.addEventListener(kind, (event) => {
      const element = event.target.closest?.("[data-feature]");
      if (element) for (const other of same(element)) other.classList.toggle("linked", on);
    });
  root.addEventListener("click", (event) => {
    const row = event.target.closest?.("tr[data-feature]");
    if (row) same(row).find((other) => other.matches(".f, .patch") && other.getClientRects().length)?.scrollIntoView({ block: "center", behavior: "smooth" });
  });

  // Lines of a chart by the row of their method.
  for (const [kind, on] of [["mouseover", true], ["mouseout", false]])
    root.addEventListener(kind, (event) => {
      const name = event.target.closest?.("[data-line]")?.dataset.line;
      if (name === undefined) return;
      for (const line of all("[data-line]")) line.classList.toggle("picked", on && line.dataset.line === name);
      for (const chart of all(".chart")) chart.classList.toggle("picking", on);
    });

  // The strength of a heat map over its picture.
  for (const slider of all("input.strength"))
    slider.addEventListener("input", () => {
      for (const picture of all(".picture", slider.closest(".linking") ?? root)) picture.style.setProperty("--strength", slider.value / 100);
    });

  // Examples: those that hold a text, in some order.
  for (const list of all(".examples")) {
    const examples = all(".example", list), search = list.querySelector("input.search"), order = list.querySelector("select.order"), kind = list.querySelector("select.kind"), count = list.querySelector(".count");
    const draw = () => {
      const wanted = search.value.trim().toLowerCase();
      let shown = 0;
      for (const example of examples) {
        const fits = example.dataset.text.toLowerCase().includes(wanted) && (!kind || !kind.value || example.dataset.kind === kind.value);
        example.hidden = !fits;
        shown += fits;
      }
      count.textContent = shown === examples.length ? `all ${shown}` : `${shown} of ${examples.length}`;
    };
    search.addEventListener("input", draw);
    kind?.addEventListener("change", draw);
    order.addEventListener("change", () => {
      const [name, sign] = [order.value.replace(/^-/, ""), order.value.startsWith("-") ? -1 : 1];
      const value = (example) => Number(example.dataset[name]);
      list.append(...examples.sort((a, b) => compare(value(a), value(b), sign)));
    });
  }

  // A table that is cut says so.
  const cut = (box) => box.toggleAttribute("data-more", box.scrollWidth - box.clientWidth - box.scrollLeft > 4);
  const watcher = new ResizeObserver((entries) => { for (const entry of entries) cut(entry.target); });
  for (const box of all(".scroll")) {
    watcher.observe(box);
    box.addEventListener("scroll", () => cut(box), { passive: true });
  }
};
