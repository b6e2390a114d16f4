"use strict";
// How a panel looks: everything is drawn anew from what the panel knows.

/** Not while a mouse button is down: what was pressed would be gone when it is released, and the click with it. */
function drawPanel(panel) {
  if (page.pressed) { page.waiting.add(panel); return; }
  holding(panel, () => {
    drawHeadline(panel);
    drawSaid(panel);
    drawStage(panel);
    drawOutcome(panel);
    drawMethods(panel);
    drawBusy(panel);
  });
}

/** Draws anew and leaves the keyboard where it was: on a feature, or on the name of a method. */
function holding(panel, draw) {
  const active = document.activeElement;
  const part = active && panel.root.contains(active) ? active.closest(".stage [data-feature], .methods [data-method]") : null;
  const { feature, method } = part ? part.dataset : {};
  draw();
  if (feature !== undefined) refocus(panel.find(`.stage [data-feature="${Number(feature)}"]`));
  else if (method !== undefined) refocus([...panel.root.querySelectorAll(".methods [data-method]")].find((row) => row.dataset.method === method)?.querySelector("button"));
}

function refocus(found) { if (found && found !== document.activeElement) found.focus(); }

function drawBusy(panel) {
  const busy = panel.running.size > 0;
  panel.root.dataset.state = busy ? "busy" : "idle";
  panel.find(".stop").hidden = !busy;
  panel.find(".resume").hidden = busy || Boolean(stored) || !panel.missing().length;
  const said = [...panel.progress.values()];
  panel.find(".progress").textContent = said.length ? said.join(" · ") : panel.note || "";
}

/** Features that are shown, and those that enter r and the colour scale. */
const everyFeature = (panel) => panel.data.features.map((_, i) => i);
const shownFeatures = (panel) => everyFeature(panel).filter((i) => checked("special") || !panel.data.special[i]);
const countedFeatures = (panel) => everyFeature(panel).filter((i) => !panel.data.special[i]);

function scaleOf(panel, name) {
  const signed = [...panel.scores.values()].filter((own) => own.scores && !own.unsigned);
  const maps = checked("shared") ? signed : [panel.scores.get(name)];
  const places = countedFeatures(panel).filter((i) => !panel.data.outside[i]);
  const sizes = maps.filter((own) => own && own.scores).flatMap((own) => places.map((i) => Math.abs(own.scores[i])));
  return Math.max(0, ...sizes.filter(Number.isFinite));
}

const strength = (score, scale) => (Number.isFinite(score) && scale > 0 ? Math.min(1, Math.abs(score) / scale) : 0);

function paint(chip, score, scale, outside) {
  chip.classList.toggle("p", score > 0 && !outside);
  chip.classList.toggle("n", score < 0 && !outside);
  chip.style.setProperty("--m", `${(100 * strength(score, scale)).toFixed(1)}%`);
  chip.title = Number.isFinite(score) ? number(score) : "not computed yet";
}

function drawHeadline(panel) {
  const { data } = panel;
  const [from, to] = data.part || [0, 0];
  const name = data.answer === null ? data.label : data.said.slice(from, to).join("");
  const of = data.probability_of ? ` ${data.probability_of}` : "";
  const rest = `${of} · ${data.kind} ${number(data.value)}${strongest(panel)}`;
  panel.find(".headline").replaceChildren(
    element("b", { textContent: data.answer === null ? name : quoted(name) }), ` ${percent(data.probability)}`,
    element("span", { className: "quiet", textContent: rest }));
}

function strongest(panel) {
  const own = panel.scores.get(LOO).scores;
  if (panel.data.picture || !own.every(Number.isFinite)) return "";
  const best = countedFeatures(panel).filter((i) => own[i] > 0).sort((a, b) => own[b] - own[a]).slice(0, 2);
  const names = best.map((i) => quoted(panel.data.features[i]));
  return names.length ? `, mostly because of ${names.join(" and ")}` : "";
}

/** The answer of a language model, of which a part can be asked for, and what it says without what is struck. */
function drawSaid(panel) {
  const { said, part } = panel.data;
  panel.find(".said").hidden = !said;
  if (!said) return;
  const tokens = said.map((token, i) => {
    const inside = i >= part[0] && i < part[1];
    const one = element("button", { type: "button", className: inside ? "token in" : "token", textContent: token });
    one.disabled = Boolean(stored);
    one.addEventListener("click", (event) => {
      const start = event.shiftKey ? Math.min(part[0], i) : i;
      panel.askPart(`${start}:${(event.shiftKey ? Math.max(part[1] - 1, i) : i) + 1}`);
    });
    return one;
  });
  panel.find(".said .tokens").replaceChildren(...tokens);
  panel.find(".whole").hidden = Boolean(stored) || (part[0] === 0 && part[1] === said.length);
}

function drawStage(panel) {
  const { data } = panel;
  panel.find(".text").hidden = Boolean(data.picture);
  panel.find(".seen").hidden = !data.picture;
  panel.find(".stage").classList.toggle("wide", Boolean(data.picture));
  if (data.picture) drawPatches(panel); else drawText(panel);
  drawLegend(panel);
}

function drawLegend(panel) {
  const scale = scaleOf(panel, panel.shown);
  const name = panel.shown === LOO ? "leave-one-out, what really happens" : panel.shown;
  const removal = { "attention-mask": "nobody attends to it", zero: "its pixels are set to zero" }[panel.data.removal];
  const words = panel.data.picture ? "patch" : "part";
  panel.find(".legend").replaceChildren(
    element("span", { className: "key n", textContent: number(-scale) }), element("i", { className: "ramp" }),
    element("span", { className: "key p", textContent: number(scale) }), ` coloured by ${name}. `,
    removal ? `A ${words} is struck out: ${removal}.` : "");
}

function chipOf(panel, i, text) {
  const chip = element("button", { type: "button", className: "chip", textContent: text });
  chip.dataset.feature = i;
  chip.setAttribute("aria-pressed", panel.struck.has(i));
  if (panel.data.special[i]) chip.classList.add("special");
  chip.addEventListener("click", () => panel.strike(i));
  return chip;
}

function drawText(panel) {
  const { text, spans, features, special, outside } = panel.data;
  const own = panel.scores.get(panel.shown);
  const scale = scaleOf(panel, panel.shown);
  const pieces = [];
  let at = 0;
  for (const i of shownFeatures(panel)) {
    const span = spans[i];
    if (span && span[0] >= at) {
      if (span[0] > at) pieces.push(element("span", { className: "context", textContent: text.slice(at, span[0]) }));
      at = span[1];
    }
    const chip = chipOf(panel, i, span ? text.slice(span[0], span[1]) : features[i]);
    if (own && own.scores) paint(chip, own.scores[i], scale, outside[i]);
    pieces.push(chip);
    if (special[i]) pieces.push(" ");
  }
  pieces.push(element("span", { className: "context", textContent: text.slice(at) }));
  panel.find(".text").replaceChildren(...pieces);
}

function drawPatches(panel) {
  const { picture, features } = panel.data;
  const own = panel.scores.get(panel.shown);
  const scale = scaleOf(panel, panel.shown);
  const frame = panel.find(".frame");
  const image = panel.find(".frame img");
  if (image.src !== picture.data) image.src = picture.data;
  image.classList.toggle("small", picture.width < 160);
  const grid = panel.find(".patches");
  grid.style.gridTemplate = `repeat(${picture.rows}, 1fr) / repeat(${picture.columns}, 1fr)`;
  // What is left over beside the last whole patch belongs to none.
  grid.style.width = `${Math.min(100, (100 * picture.columns * picture.patch[1]) / picture.width)}%`;
  grid.style.height = `${Math.min(100, (100 * picture.rows * picture.patch[0]) / picture.height)}%`;
  frame.style.setProperty("--strength", panel.find(".strength input").value / 100);
  if (grid.children.length !== features.length) makePatches(panel, grid);
  features.forEach((name, i) => {
    const patch = grid.children[i];
    patch.setAttribute("aria-pressed", panel.struck.has(i));
    paint(patch, own && own.scores ? own.scores[i] : NaN, scale, false);
    patch.title = `row, column ${name}: ${patch.title}`;
  });
}

/** Patches are struck out by a click, or all that the mouse is drawn across. */
function makePatches(panel, grid) {
  let drawn = null;
  const patches = panel.data.features.map((name, i) => {
    const patch = element("button", { type: "button", className: "patch" });
    patch.dataset.feature = i;
    patch.setAttribute("aria-label", `patch ${name}`);
    patch.addEventListener("pointerdown", (event) => {
      patch.releasePointerCapture(event.pointerId);
      drawn = new Set([i]);
      patch.classList.add("drawn");
    });
    patch.addEventListener("pointerenter", () => { if (drawn) { drawn.add(i); patch.classList.add("drawn"); } });
    patch.addEventListener("click", (event) => { if (event.detail === 0) panel.strike(i); });
    return patch;
  });
  window.addEventListener("pointerup", () => {
    if (!drawn) return;
    const which = [...drawn];
    drawn = null;
    for (const patch of patches) patch.classList.remove("drawn");
    panel.strike(...(which.length > 1 ? which.filter((i) => !panel.struck.has(i)) : which));
  });
  grid.replaceChildren(...patches);
}

function drawOutcome(panel) {
  const { data, outcome } = panel;
  const box = panel.find(".outcome");
  const entry = (name, value) => element("div", {}, element("dt", { textContent: name }), element("dd", {}, value));
  const wide = (name, value) => Object.assign(entry(name, value), { className: "wide" });
  const meter = (name, p, kind) => {
    const bar = element("i", { className: kind });
    bar.style.width = `${100 * (p || 0)}%`;
    return element("div", { className: "meter" }, element("span", { textContent: name }), element("span", { className: "track" }, bar), element("b", { textContent: percent(p) }));
  };
  if (!panel.struck.size) {
    const hint = data.picture ? "Click on a patch, or draw across several." : "Click on any part of the text to strike it out.";
    box.replaceChildren(element("p", { className: "hint", textContent: hint }));
    return;
  }
  const names = [...panel.struck].sort((a, b) => a - b).map((i) => (data.picture ? data.features[i] : quoted(data.features[i])));
  const what = names.length > 4 ? `${names.length} ${data.picture ? "patches" : "parts"}` : `${data.picture ? (names.length > 1 ? "patches " : "patch ") : ""}${names.join(data.picture ? " · " : " and ")}`;
  const title = element("h3", { textContent: `Without ${what}` });
  if (!outcome) { box.replaceChildren(title, element("p", { className: "hint", textContent: "running the model without it …" })); return; }
  if (data.probability_of) title.append(element("span", { className: "caption", textContent: `  probability ${data.probability_of}` }));
  const parts = [title];
  if (data.probability !== null) parts.push(meter("before", data.probability, "before"));
  if (outcome.probability !== null) parts.push(meter("now", outcome.probability, "now"));
  const facts = element("dl", {}, entry("true change", number(outcome.change)), entry(`${data.kind} now`, number(outcome.value)));
  if (outcome.interaction !== null && outcome.interaction !== undefined) {
    facts.append(entry("sum of the single changes", number(-outcome.effects.reduce((a, b) => a + b, 0))));
    facts.append(entry(`interaction: ${outcome.interaction < 0 ? "they need each other" : "one stands in for the other"}`, number(-outcome.interaction)));
  }
  if (outcome.likeliest && outcome.likeliest.length) facts.append(wide("likeliest now", outcome.likeliest.map(([name, p]) => `${named(name)} ${percent(p)}`).join(", ")));
  parts.push(facts);
  if (data.answer !== null) parts.push(element("p", { className: "answer" }, element("span", { className: "caption", textContent: "it now answers" }), ` ${panel.anew === null ? "…" : panel.anew}`));
  box.replaceChildren(...parts);
}
