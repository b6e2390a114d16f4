"use strict";
// The table of methods: how near each is to the references, what it cost, what it predicted, its map.

function drawMethods(panel) {
  const rows = [...panel.scores.entries()].map(([name, own]) => methodRow(panel, name, own));
  panel.find(".methods tbody").replaceChildren(...rows);
  panel.find('[data-do="shapley"]').hidden = Boolean(stored) || panel.methods.includes(SHAPLEY);
}

function methodRow(panel, name, own) {
  const title = element("button", { type: "button", textContent: name === LOO ? "leave-one-out" : name, title: "colour by it" });
  title.addEventListener("click", () => { panel.shown = name; drawPanel(panel); });
  const cost = own.cost === null || own.cost === undefined ? "–" : own.cost.toFixed(0);
  const row = element("tr", { className: name === LOO || name === SHAPLEY ? "reference" : "" },
    element("td", { className: "name" }, title),
    correlationCell(panel, name, own, LOO, "r to LOO"),
    correlationCell(panel, name, own, SHAPLEY, "r to Shapley"),
    labelled(element("td", { className: "num", textContent: cost }), "passes"),
    labelled(predictedCell(panel, own), "predicted"),
    mapCell(panel, name, own));
  row.dataset.method = name;
  row.setAttribute("aria-selected", panel.shown === name);
  return row;
}

/** A cell that says on a narrow page what it is. */
function labelled(cell, label) {
  cell.dataset.label = label;
  return cell;
}

function correlationCell(panel, name, own, reference, label) {
  const truth = panel.scores.get(reference);
  const cell = labelled(element("td", { className: "num r" }), label);
  const known = truth && truth.scores ? truth.scores.filter(Number.isFinite).length : 0;
  const r = name === reference || !known || !own.scores ? null : pearson(own.scores, truth.scores, countedFeatures(panel));
  cell.textContent = name === reference ? "reference" : r2(r);
  if (r === null) { cell.classList.add("quiet"); return cell; }
  cell.dataset.r = r;
  cell.style.setProperty("--r", Math.max(0, r));
  if (known < panel.data.features.length) {
    cell.classList.add("partial");
    cell.title = `over ${known} of ${panel.data.features.length} so far`;
  }
  return cell;
}

/** What a method had said would happen, as a bar from zero, with a line where the truth lies. */
function predictedCell(panel, own) {
  const cell = element("td", { className: "num predicted" });
  const change = panel.outcome ? panel.outcome.change : null;
  const sum = (scores) => -[...panel.struck].reduce((total, i) => total + scores[i], 0);
  if (own.unsigned) { cell.textContent = "weights, no effects"; cell.classList.add("quiet"); return cell; }
  if (!own.scores || !panel.struck.size) { cell.textContent = "–"; cell.classList.add("quiet"); return cell; }
  const predicted = sum(own.scores);
  cell.dataset.predicted = predicted;
  const others = [...panel.scores.values()].filter((one) => one.scores && !one.unsigned).map((one) => Math.abs(sum(one.scores)));
  const most = Math.max(1e-12, Math.abs(change || 0), ...others.filter(Number.isFinite));
  const bar = element("i", { className: predicted > 0 ? "p" : "n" });
  const half = (50 * Math.abs(predicted)) / most || 0;
  bar.style.cssText = `left:${predicted > 0 ? 50 : 50 - half}%;width:${half}%`;
  const track = element("span", { className: "bars" }, bar);
  if (change !== null) {
    const mark = element("u", { title: `true: ${number(change)}` });
    mark.style.left = `${50 + (50 * change) / most}%`;
    track.append(mark);
  }
  cell.append(track, element("b", { textContent: number(predicted) }));
  return cell;
}

function mapCell(panel, name, own) {
  const cell = element("td", { className: "map" });
  if (!own.scores) { cell.textContent = own.error || "…"; cell.classList.add("quiet"); return cell; }
  const scale = scaleOf(panel, name);
  if (panel.data.picture) { cell.append(heatMap(panel, own.scores, scale)); return cell; }
  for (const i of shownFeatures(panel)) {
    const chip = element("span", { className: "chip", textContent: shortened(panel.data.features[i].replace(/\n/g, "↵"), 40) });
    paint(chip, own.scores[i], scale, panel.data.outside[i]);
    cell.append(chip, " ");
  }
  return cell;
}

/** A small picture with the colours of a method over it. */
function heatMap(panel, scores, scale) {
  const { picture } = panel.data;
  const heat = element("canvas", { width: picture.columns, height: picture.rows });
  heatOn(heat.getContext("2d"), panel, scores, scale);
  return element("div", { className: "thumb" }, element("img", { src: picture.data, alt: "" }), heat);
}

function heatOn(context, panel, scores, scale) {
  const { rows, columns } = panel.data.picture;
  const [forward, against] = [colour("--for"), colour("--against")];
  const data = context.createImageData(columns, rows);
  scores.forEach((score, i) => {
    data.data.set([...(score > 0 ? forward : against), Math.round(230 * strength(score, scale))], 4 * i);
  });
  context.putImageData(data, 0, 0);
}

function drawPicker(panel) {
  const shown = panel.methods || [];
  const choices = page.about.methods.filter((one) => one.name !== LOO).map((one) => {
    const box = element("input", { type: "checkbox", checked: shown.includes(one.name) });
    box.dataset.pick = one.name;
    box.addEventListener("change", () => panel.choosing(one.name, box.checked));
    const text = one.name === SHAPLEY ? "shapley (a reference)" : one.name;
    return element("label", { title: `${one.title}: ${one.summary}; passes: ${one.cost}` }, box, ` ${text}`);
  });
  panel.find(".picker .row").replaceChildren(...choices);
  panel.find(".picker").hidden = Boolean(stored);
}
