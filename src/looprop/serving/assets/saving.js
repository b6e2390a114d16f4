"use strict";
// What can be taken away: a link, a page, a picture, the numbers, the lines of Python.

function asData(panel) {
  const scores = {};
  for (const [name, own] of panel.scores) {
    const kept = own.scores ? own.scores.map((s) => (Number.isFinite(s) ? s : null)) : undefined;
    scores[name] = { ...own, scores: kept };
  }
  return { data: panel.data, scores, seen: Object.fromEntries(panel.seen), struck: [...panel.struck], program: panel.program };
}

/** The panel as it was saved. */
function restore(panel, saved) {
  panel.begin(saved.data);
  for (const [name, own] of Object.entries(saved.scores)) {
    panel.scores.set(name, { ...own, scores: own.scores ? numbers(own.scores) : undefined });
  }
  panel.seen = new Map(Object.entries(saved.seen));
  panel.program = saved.program;
  panel.methods = [...panel.scores.keys()];
  panel.struck = new Set(saved.struck);
  panel.show(saved.struck.length ? panel.known(saved.struck) || null : null);
}

function copyLink(panel) {
  const asked = page.panels.filter((one) => one.data).map((one) => ({ question: one.data.question, struck: [...one.struck] }));
  const address = `${location.origin}${location.pathname}#${encodeURIComponent(JSON.stringify(asked))}`;
  history.replaceState(null, "", address);
  if (navigator.clipboard) navigator.clipboard.writeText(address).catch(() => {});
  panel.note = "The link stands in the address bar; it needs this server and its token.";
  drawBusy(panel);
}

async function savePage(panel) {
  try {
    const panels = page.panels.filter((one) => one.data);
    await Promise.all(panels.map((one) => fetchPython(one)));
    const models = page.about.models.map((one) => ({ ...one, labels: [] }));
    const response = await post("api/page", { about: { ...page.about, models, images: [] }, panels: panels.map(asData) });
    save(await response.blob(), "looprop.html");
  } catch (error) { panel.fail(error); }
}

function saveJson(panel) {
  save(new Blob([JSON.stringify(asData(panel), null, 1)], { type: "application/json" }), "looprop.json");
}

/** The lines that give the numbers of this panel. */
async function fetchPython(panel) {
  const methods = [...panel.scores.keys()].filter((name) => panel.scores.get(name).scores);
  const struck = [...panel.struck].sort((a, b) => a - b);
  panel.program = (await (await post("api/python", { question: panel.data.question, methods, struck })).json()).python;
}

async function showPython(panel) {
  const place = panel.find(".python");
  try { if (!stored) await fetchPython(panel); } catch (error) { panel.fail(error); return; }
  place.textContent = panel.program;
  place.hidden = !place.hidden;
}

async function savePicture(panel) {
  const canvas = await pictureOf(panel);
  canvas.toBlob((blob) => save(blob, "looprop.png"));
}

/** The headline, and below it every method's map: text in colour, or pictures side by side. */
async function pictureOf(panel) {
  const names = [...panel.scores.keys()].filter((name) => panel.scores.get(name).scores);
  const width = 1200;
  const canvas = element("canvas");
  const context = canvas.getContext("2d");
  const paper = (height) => {
    Object.assign(canvas, { width: 2 * width, height: 2 * height });
    context.scale(2, 2);
    context.fillStyle = `rgb(${colour("--paper")})`;
    context.fillRect(0, 0, width, height);
    context.fillStyle = `rgb(${colour("--ink")})`;
    context.font = "600 18px system-ui, sans-serif";
    context.fillText(shortened(panel.find(".headline").textContent, 120), 16, 34);
  };
  if (panel.data.picture) await drawPictures(panel, names, context, paper, width);
  else drawStrips(panel, names, context, paper, width);
  return canvas;
}

async function drawPictures(panel, names, context, paper, width) {
  const { picture } = panel.data;
  const across = Math.min(names.length, 5);
  const side = (width - 16 * (across + 1)) / across;
  const tall = (side * picture.height) / picture.width;
  paper(70 + Math.ceil(names.length / across) * (tall + 44));
  const shown = new Image();
  shown.src = picture.data;
  await shown.decode();
  context.imageSmoothingEnabled = false;
  context.font = "15px system-ui, sans-serif";
  names.forEach((name, n) => {
    const [x, y] = [16 + (n % across) * (side + 16), 60 + Math.floor(n / across) * (tall + 44)];
    const heat = element("canvas", { width: picture.columns, height: picture.rows });
    heatOn(heat.getContext("2d"), panel, panel.scores.get(name).scores, scaleOf(panel, name));
    context.drawImage(shown, x, y, side, tall);
    const [wide, high] = [picture.columns * picture.patch[1] / picture.width, picture.rows * picture.patch[0] / picture.height];
    context.drawImage(heat, x, y, side * Math.min(1, wide), tall * Math.min(1, high));
    context.fillText(name === LOO ? "leave-one-out" : name, x, y + tall + 20);
  });
}

function drawStrips(panel, names, context, paper, width) {
  const [unit, left, top] = [26, 150, 62];
  context.font = "15px system-ui, sans-serif";
  const laid = names.map((name) => {
    let [x, row] = [left, 0];
    const places = shownFeatures(panel).map((i) => {
      const text = shortened(panel.data.features[i].replace(/\n/g, "↵"), 100);
      const wide = context.measureText(text).width + 8;
      if (x + wide > width - 16 && x > left) { x = left; row += 1; }
      x += wide + 3;
      return { i, text, x: x - wide - 3, row, wide };
    });
    return { name, places, rows: row + 1 };
  });
  paper(top + laid.reduce((sum, one) => sum + one.rows * unit + 10, 0) + 6);
  context.font = "15px system-ui, sans-serif";
  const [ink, forward, against] = ["--ink", "--for", "--against"].map((name) => `rgb(${colour(name)})`);
  let y = top;
  for (const { name, places, rows } of laid) {
    const own = panel.scores.get(name).scores;
    const scale = scaleOf(panel, name);
    context.fillStyle = ink;
    context.fillText(name === LOO ? "leave-one-out" : name, 16, y + 17);
    for (const { i, text, x, row, wide } of places) {
      context.globalAlpha = panel.data.outside[i] ? 0 : strength(own[i], scale);
      context.fillStyle = own[i] > 0 ? forward : against;
      context.fillRect(x, y + row * unit, wide, unit - 4);
      context.globalAlpha = 1;
      context.fillStyle = ink;
      context.fillText(text, x + 4, y + row * unit + 17);
    }
    y += rows * unit + 10;
  }
}
