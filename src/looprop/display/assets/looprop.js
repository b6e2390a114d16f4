// Pages work without this script; it adds quick tooltips, sorting and the theme button.
"use strict";
for (const element of document.querySelectorAll("[title]")) {
  element.dataset.tip = element.title;
  element.removeAttribute("title");
}

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
  for (const other of table.querySelectorAll("th[aria-sort]")) other.setAttribute("aria-sort", "none");
  header.setAttribute("aria-sort", ascending ? "ascending" : "descending");
  const body = table.tBodies[0];
  body.append(...[...body.rows].sort((r, s) => compare(cellValue(r, column), cellValue(s, column), ascending ? 1 : -1)));
};
for (const header of document.querySelectorAll("th[aria-sort]")) {
  header.tabIndex = 0;
  header.addEventListener("click", () => sortBy(header));
  header.addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === " ") { event.preventDefault(); sortBy(header); }
  });
}

const theme = document.getElementById("theme");
const isDark = () => document.body.dataset.theme ? document.body.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
const label = () => { theme.textContent = isDark() ? "☀ Light" : "☾ Dark"; };
theme.addEventListener("click", () => { document.body.dataset.theme = isDark() ? "light" : "dark"; label(); });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", label);
label();
