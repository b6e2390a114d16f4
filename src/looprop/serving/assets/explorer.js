"use strict";
// The page: its panels, what was asked before, light and dark.

function remember(question) {
  const same = (one) => JSON.stringify(one) === JSON.stringify(question);
  page.history = [question, ...page.history.filter((one) => !same(one))].slice(0, 20);
  document.getElementById("history").hidden = page.history.length < 2;
  document.querySelector("#history ol").replaceChildren(...page.history.map((one) => {
    const about = [shortened(one.text || one.image, 90), page.about.models.length > 1 ? one.model : "", one.image ? "" : one.features, one.target];
    const again = element("button", { type: "button", textContent: about.filter(Boolean).join(" · ") });
    again.addEventListener("click", () => { page.panels[0].fill(one); page.panels[0].asking(one); });
    return element("li", {}, again);
  }));
}

function openPanel() {
  const panel = new Panel();
  page.panels.push(panel);
  document.getElementById("second").hidden = page.panels.length > 1;
  return panel;
}

/** A second question beside the first: the same, of the next model where there is one. */
function compare() {
  const [first] = page.panels;
  const second = openPanel();
  second.fill({ ...first.question(), part: "" });
  const models = page.about.models.map((one) => one.name);
  const like = models.filter((name) => page.about.models.find((one) => one.name === name).reads === first.model.reads);
  second.form.model.value = like[(like.indexOf(first.form.model.value) + 1) % like.length];
  second.fit();
  second.find(".close").hidden = false;
  if (first.data && like.length > 1) second.ask();
}

function closePanel(panel) {
  panel.stop();
  panel.root.remove();
  page.panels = page.panels.filter((one) => one !== panel);
  document.getElementById("second").hidden = false;
}

/** What a link asks for. */
async function follow(asked) {
  await Promise.all(asked.slice(0, 2).map(async ({ question, struck }, n) => {
    const panel = page.panels[n] || openPanel();
    panel.find(".close").hidden = n === 0;
    panel.fill(question);
    await panel.asking(question);
    if (panel.data && struck.length) await panel.strike(...struck.map(Number));
  }));
}

/** Draws what had to wait while the mouse button was down; after the click that its release makes. */
function released() {
  page.pressed = false;
  setTimeout(() => {
    if (page.pressed) return;
    for (const panel of page.waiting) drawPanel(panel);
    page.waiting.clear();
  });
}

function redraw() { for (const panel of page.panels) if (panel.data) drawPanel(panel); }

function listen() {
  for (const name of ["shared", "special"]) document.getElementById(name).addEventListener("change", redraw);
  document.getElementById("theme").addEventListener("click", () => {
    const root = document.documentElement;
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    redraw();
  });
  document.getElementById("second").addEventListener("click", compare);
  window.addEventListener("pointerdown", (event) => { page.pressed = event.button === 0; }, true);
  for (const name of ["pointerup", "pointercancel", "contextmenu"]) window.addEventListener(name, released, true);
  window.addEventListener("blur", released);
}

function showStored() {
  const data = JSON.parse(stored.textContent);
  page.about = data.about;
  for (const saved of data.panels) {
    const panel = openPanel();
    restore(panel, saved);
    for (const name of ["page", "link"]) panel.find(`[data-do="${name}"]`).hidden = true;
  }
  document.getElementById("second").hidden = true;
}

async function start() {
  listen();
  if (stored) { showStored(); return; }
  page.about = await (await fetch("api/about")).json();
  const first = openPanel();
  first.form.text.value = first.model.generates ? "Why is the sky blue?" : "This is not a bad film at all.";
  if (first.model.generates) first.form.features.value = "word";
  if (location.search) history.replaceState(null, "", location.pathname + location.hash);
  if (location.hash.length > 1) {
    try { await follow(JSON.parse(decodeURIComponent(location.hash.slice(1)))); } catch (error) { first.fail(error); }
  }
}

start();
