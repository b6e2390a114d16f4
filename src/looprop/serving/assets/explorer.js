"use strict";
// The explorer. Everything that comes from a text, a model or a name goes into the page as text, never as markup.

const stored = document.getElementById("stored");
const page = { about: null, panels: [], history: [] };
const REFERENCE = "loo";

const number = (x) => (x > 0 ? "+" : x < 0 ? "−" : "") + Math.abs(x).toPrecision(3).replace(/e.*/, (e) => e);
const percent = (p) => (p === null || p === undefined ? "–" : p > 0 && p < 0.001 ? "< 0.1 %" : (100 * p).toFixed(1) + " %");

function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

async function post(path, body, signal) {
  const response = await fetch(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), signal });
  if (!response.ok) {
    let said = `the server answered ${response.status}`;
    try { said = (await response.json()).error || said; } catch { /* no JSON: the status says it */ }
    throw new Error(said);
  }
  return response;
}

function pearson(a, b, kept) {
  const places = kept.filter((i) => Number.isFinite(a[i]) && Number.isFinite(b[i]));
  if (places.length < 3) return null;
  const mean = (v) => places.reduce((sum, i) => sum + v[i], 0) / places.length;
  const [ma, mb] = [mean(a), mean(b)];
  let [ab, aa, bb] = [0, 0, 0];
  for (const i of places) { ab += (a[i] - ma) * (b[i] - mb); aa += (a[i] - ma) ** 2; bb += (b[i] - mb) ** 2; }
  return aa > 0 && bb > 0 ? ab / Math.sqrt(aa * bb) : null;
}

class Panel {
  constructor() {
    const root = document.getElementById("panel").content.firstElementChild.cloneNode(true);
    this.root = root;
    this.find = (selector) => root.querySelector(selector);
    this.form = this.find("form");
    this.data = null;
    this.scores = new Map();
    this.struck = new Set();
    this.shown = REFERENCE;
    this.outcome = null;
    for (const model of page.about.models) this.form.model.append(new Option(model.name, model.name));
    for (const name of page.about.features) this.form.features.append(new Option(name, name));
    this.form.model.addEventListener("change", () => this.fit());
    this.form.addEventListener("submit", (event) => { event.preventDefault(); this.ask(); });
    this.find(".stop").addEventListener("click", () => this.stop());
    for (const button of root.querySelectorAll("[data-do]")) button.addEventListener("click", () => this[button.dataset.do]());
    document.getElementById("panels").append(root);
    if (stored) this.form.hidden = true;
    this.fit();
  }

  fit() {
    const model = page.about.models.find((one) => one.name === this.form.model.value);
    this.find(".generates").hidden = !(model && model.generates);
    if (model && !model.generates) this.form.answer.value = 0;
  }

  question() {
    const form = this.form;
    return { model: form.model.value, text: form.text.value, target: form.target.value, features: form.features.value, answer: Number(form.answer.value) || 0 };
  }

  fill(question) {
    for (const [name, value] of Object.entries(question)) if (this.form[name]) this.form[name].value = value;
    this.fit();
  }

  fail(error) {
    if (error.name === "AbortError") return;
    const place = this.find(".error");
    place.textContent = error.message || String(error);
    place.hidden = false;
  }

  async ask() {
    this.stop();
    this.find(".error").hidden = true;
    const question = this.question();
    try {
      this.busy(true, "asking the model");
      const data = await (await post("api/ask", question)).json();
      this.begin(data);
      remember(question);
      await this.explain();
    } catch (error) {
      this.fail(error);
    } finally {
      this.busy(false);
    }
  }

  begin(data) {
    this.data = data;
    this.scores = new Map([[REFERENCE, { scores: data.features.map(() => NaN), cost: null }]]);
    this.struck = new Set();
    this.outcome = null;
    this.shown = REFERENCE;
    this.find(".found").hidden = false;
    this.draw();
  }

  async explain() {
    this.abort = new AbortController();
    const began = performance.now();
    const response = await post("api/explain", { question: this.data.question, methods: page.about.shown }, this.abort.signal);
    const reader = response.body.getReader();
    const decoder = new TextDecoder();
    let rest = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) break;
      rest += decoder.decode(value, { stream: true });
      const lines = rest.split("\n");
      rest = lines.pop();
      for (const line of lines) if (line) this.take(JSON.parse(line), began);
    }
    this.say("");
  }

  take(found, began) {
    if (!found.method) { this.fail(new Error(found.error)); return; }
    if (found.method === REFERENCE) {
      const own = this.scores.get(REFERENCE);
      found.scores.forEach((score, i) => { own.scores[found.from + i] = score; });
      const known = found.from + found.scores.length;
      this.first = this.first && this.first.began === began ? this.first : { began, at: performance.now(), known };
      const pace = (performance.now() - this.first.at) / Math.max(1, known - this.first.known);
      const left = pace * (found.of - known) / 1000;
      own.cost = known;
      this.say(known < found.of ? `leave-one-out: ${known} of ${found.of}${known > this.first.known ? `, about ${left.toFixed(left < 10 ? 1 : 0)} s left` : ""}` : "");
    } else {
      this.scores.set(found.method, found);
    }
    this.draw();
  }

  busy(on, text = "") {
    this.find(".stop").hidden = !on;
    if (text) this.say(text);
    if (!on) { this.say(""); this.root.dataset.state = "idle"; } else this.root.dataset.state = "busy";
  }

  say(text) { this.find(".progress").textContent = text; }

  stop() { if (this.abort) this.abort.abort(); this.abort = null; this.say("stopped"); }

  places() { return this.data.features.map((_, i) => i).filter((i) => document.getElementById("special").checked || !this.data.special[i]); }

  scale(scores) {
    const sizes = this.data.features.map((_, i) => i).filter((i) => !this.data.special[i]).map((i) => Math.abs(scores[i])).filter(Number.isFinite);
    return Math.max(...sizes, 0);
  }

  scaleOf(name) {
    const maps = document.getElementById("shared").checked ? [...this.scores.values()].filter((own) => own.scores && !own.unsigned) : [this.scores.get(name)];
    return Math.max(...maps.filter((own) => own && own.scores).map((own) => this.scale(own.scores)), 0);
  }

  paint(chip, score, scale) {
    chip.classList.toggle("p", score > 0);
    chip.classList.toggle("n", score < 0);
    chip.style.setProperty("--m", Number.isFinite(score) && scale > 0 ? `${Math.min(100, 100 * Math.abs(score) / scale).toFixed(1)}%` : "0%");
    chip.title = Number.isFinite(score) ? number(score) : "not computed yet";
  }

  draw() {
    const data = this.data;
    const headline = this.find(".headline");
    const strongest = this.strongest();
    headline.replaceChildren(element("b", { textContent: data.answer !== null ? `“${data.answer}”` : data.label }), document.createTextNode(`  ${percent(data.probability)} · ${data.answer !== null ? "log-probability" : "value"} ${number(data.value)}${strongest}`));
    this.drawText();
    this.drawOutcome();
    this.drawMethods();
  }

  strongest() {
    const own = this.scores.get(REFERENCE).scores;
    if (own.some((score) => !Number.isFinite(score))) return "";
    const order = this.data.features.map((_, i) => i).filter((i) => !this.data.special[i]).sort((a, b) => own[b] - own[a]).filter((i) => own[i] > 0).slice(0, 2);
    return order.length ? `, mostly because of ${order.map((i) => `“${this.data.features[i].trim()}”`).join(" and ")}` : "";
  }

  chip(i, text) {
    const chip = element("button", { type: "button", className: "chip", textContent: text });
    chip.dataset.feature = i;
    chip.setAttribute("aria-pressed", this.struck.has(i));
    if (this.data.special[i]) chip.classList.add("special");
    chip.addEventListener("click", () => this.strike(i));
    return chip;
  }

  drawText() {
    const { text, spans, features, special } = this.data;
    const own = this.scores.get(this.shown);
    const scale = this.scaleOf(this.shown);
    const held = document.activeElement && this.root.contains(document.activeElement) ? document.activeElement.dataset.feature : undefined;
    const pieces = [];
    let at = 0;
    for (const i of this.places()) {
      const span = spans[i];
      if (span && span[0] >= at) {
        if (span[0] > at) pieces.push(document.createTextNode(text.slice(at, span[0])));
        at = span[1];
      }
      const chip = this.chip(i, span ? text.slice(span[0], span[1]) : features[i]);
      if (own && own.scores) this.paint(chip, own.scores[i], scale);
      pieces.push(chip);
      if (special[i]) pieces.push(document.createTextNode(" "));
    }
    pieces.push(document.createTextNode(text.slice(at)));
    this.find(".text").replaceChildren(...pieces);
    if (held !== undefined) { const again = this.find(`.text [data-feature="${Number(held)}"]`); if (again) again.focus(); }
  }

  drawOutcome() {
    const box = this.find(".outcome");
    const said = this.outcome;
    const entry = (name, value) => element("div", {}, element("dt", { textContent: name }), element("dd", { textContent: value }));
    if (!this.struck.size) { box.replaceChildren(entry("nothing struck", number(this.data.value)), entry("probability", percent(this.data.probability))); return; }
    if (!said) { box.replaceChildren(entry("running the model without it", "…")); return; }
    const parts = [entry("true change", number(said.change)), entry("value now", number(said.value)), entry("probability now", `${percent(this.data.probability)} → ${percent(said.probability)}`)];
    if (said.interaction !== null && said.interaction !== undefined) {
      parts.push(entry("sum of single changes", number(-said.effects.reduce((a, b) => a + b, 0))));
      parts.push(entry(said.interaction < 0 ? "interaction: they need each other" : "interaction: one stands in for the other", number(-said.interaction)));
    }
    if (said.likeliest && said.likeliest.length) parts.push(entry("likeliest now", said.likeliest.map(([name, p]) => `${name} ${percent(p)}`).join(", ")));
    box.replaceChildren(...parts);
  }

  drawMethods() {
    const body = this.find(".methods tbody");
    const kept = this.data.features.map((_, i) => i).filter((i) => !this.data.special[i]);
    const truth = this.scores.get(REFERENCE).scores;
    const rows = [...this.scores.entries()].map(([name, own]) => {
      const r = name === REFERENCE ? 1 : own.scores ? pearson(own.scores, truth, kept) : null;
      const first = element("td", { textContent: name === REFERENCE ? "loo (the truth)" : name });
      first.addEventListener("click", () => { this.shown = name; this.draw(); });
      const map = element("td", { className: "map" });
      if (own.scores) {
        const scale = this.scaleOf(name);
        for (const i of this.places()) {
          const chip = element("span", { className: "chip", textContent: this.data.features[i].length > 40 ? this.data.features[i].slice(0, 39) + "…" : this.data.features[i] });
          this.paint(chip, own.scores[i], scale);
          map.append(chip, " ");
        }
      } else map.textContent = own.error;
      const predicted = own.scores && this.struck.size && !own.unsigned ? number(-[...this.struck].reduce((sum, i) => sum + own.scores[i], 0)) : own.unsigned ? "weights, not effects" : "–";
      const row = element("tr", { className: name === REFERENCE ? "reference" : "" }, first,
        element("td", { className: "num", textContent: r === null ? "–" : r.toFixed(2) }),
        element("td", { className: "num", textContent: own.cost === null || own.cost === undefined ? "–" : own.cost.toFixed(0) }),
        element("td", { className: "num", textContent: predicted }), map);
      row.dataset.method = name;
      row.setAttribute("aria-selected", this.shown === name);
      return row;
    });
    body.replaceChildren(...rows);
  }

  async strike(i) {
    if (stored && !this.struck.has(i)) this.struck.clear();
    this.struck.has(i) ? this.struck.delete(i) : this.struck.add(i);
    await this.removed();
  }

  clear() { this.struck.clear(); this.removed(); }

  async removed() {
    this.outcome = null;
    this.find(".answer").hidden = true;
    this.draw();
    const struck = [...this.struck].sort((a, b) => a - b);
    if (!struck.length) return;
    if (stored) { this.fromStored(struck[0]); return; }
    try {
      const said = await (await post("api/without", { question: this.data.question, struck })).json();
      if (String(struck) !== String([...this.struck].sort((a, b) => a - b))) return;
      this.outcome = said;
      this.draw();
      this.root.dataset.change = said.change;
      if (this.data.answer !== null) {
        const again = await (await post("api/answer", { question: this.data.question, struck })).json();
        if (String(struck) !== String([...this.struck].sort((a, b) => a - b))) return;
        const place = this.find(".answer");
        place.textContent = `without it: “${again.answer}”`;
        place.hidden = false;
      }
    } catch (error) { this.fail(error); }
  }

  fromStored(i) {
    const effect = this.scores.get(REFERENCE).scores[i];
    if (!Number.isFinite(effect)) { this.fail(new Error("this page does not know what happens without it")); return; }
    this.outcome = { change: -effect, value: this.data.value - effect, probability: null, effects: [effect], interaction: null, likeliest: [] };
    this.root.dataset.change = -effect;
    this.draw();
  }

  link() {
    const address = `${location.origin}${location.pathname}#${encodeURIComponent(JSON.stringify(this.data.question))}`;
    history.replaceState(null, "", address);
    if (navigator.clipboard) navigator.clipboard.writeText(address).catch(() => {});
    this.say("the link stands in the address bar; it needs this server and its token");
  }

  asData() {
    const scores = {};
    for (const [name, own] of this.scores) scores[name] = { ...own, scores: own.scores ? own.scores.map((s) => (Number.isFinite(s) ? s : null)) : undefined };
    return { data: this.data, scores };
  }

  async page() {
    try {
      const about = { ...page.about, models: page.about.models.map((one) => ({ ...one, labels: [] })) };
      const response = await post("api/page", { about, panels: page.panels.filter((one) => one.data).map((one) => one.asData()) });
      save(await response.blob(), "looprop.html");
    } catch (error) { this.fail(error); }
  }

  json() { save(new Blob([JSON.stringify(this.asData(), null, 1)], { type: "application/json" }), "looprop.json"); }

  picture() {
    const names = [...this.scores.keys()].filter((name) => this.scores.get(name).scores);
    const [unit, left, width] = [26, 130, 1200];
    const canvas = element("canvas", { width: width * 2, height: 2 * (70 + names.length * 3 * unit) });
    const context = canvas.getContext("2d");
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    context.scale(2, 2);
    context.fillStyle = colour("--paper");
    context.fillRect(0, 0, width, canvas.height);
    context.font = "600 17px system-ui, sans-serif";
    context.fillStyle = colour("--ink");
    context.fillText(this.find(".headline").textContent.slice(0, 130), 14, 30);
    context.font = "15px system-ui, sans-serif";
    names.forEach((name, row) => {
      const own = this.scores.get(name).scores;
      const scale = this.scaleOf(name);
      let [x, y] = [left, 66 + row * 3 * unit];
      context.globalAlpha = 1;
      context.fillStyle = colour("--quiet");
      context.fillText(name, 14, y + 17);
      for (const i of this.places()) {
        const text = this.data.features[i];
        const wide = context.measureText(text).width + 8;
        if (x + wide > width - 14) { x = left; y += unit; }
        if (y > 66 + row * 3 * unit + 2 * unit) break;
        context.globalAlpha = scale > 0 && Number.isFinite(own[i]) ? Math.min(1, Math.abs(own[i]) / scale) : 0;
        context.fillStyle = colour(own[i] > 0 ? "--for" : "--against");
        context.fillRect(x, y, wide, unit - 4);
        context.globalAlpha = 1;
        context.fillStyle = colour("--ink");
        context.fillText(text, x + 4, y + 17);
        x += wide + 3;
      }
    });
    canvas.toBlob((blob) => save(blob, "looprop.png"));
  }

  python() {
    const q = this.data.question;
    const quoted = (text) => JSON.stringify(text);
    const model = q.model === "embedded" ? "" : quoted(q.model);
    const lines = ["import looprop", "", `m = looprop.load(${model})`];
    const named = page.about.shown.map(quoted).join(", ");
    if (q.answer) lines.push(`a = m.answer(${quoted(q.text)}, max_new_tokens=${q.answer})`, `e = looprop.Explanations(m.explain(a, name, features=${quoted(q.features)}) for name in ["loo", ${named}])`);
    else {
      const target = q.target ? `, target=${q.target.includes(",") ? `(${q.target.split(",").map((part) => quoted(part.trim())).join(", ")})` : quoted(q.target)}` : "";
      lines.push(`e = looprop.Explanations(m.explain(${quoted(q.text)}, name, features=${quoted(q.features)}${target}) for name in ["loo", ${named}])`);
    }
    lines.push('e.save("page.html")');
    const place = this.find(".python");
    place.textContent = lines.join("\n");
    place.hidden = !place.hidden;
  }
}

function save(blob, name) {
  const address = URL.createObjectURL(blob);
  const link = element("a", { href: address, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}

function remember(question) {
  page.history = [question, ...page.history.filter((one) => JSON.stringify(one) !== JSON.stringify(question))].slice(0, 20);
  const list = document.querySelector("#history ol");
  document.getElementById("history").hidden = page.history.length < 2;
  list.replaceChildren(...page.history.map((one) => {
    const again = element("button", { type: "button", textContent: `${one.text.slice(0, 90)} · ${one.features}${one.target ? ` · ${one.target}` : ""}` });
    again.addEventListener("click", () => { page.panels[0].fill(one); page.panels[0].ask(); });
    return element("li", {}, again);
  }));
}

function redraw() { for (const panel of page.panels) if (panel.data) panel.draw(); }

async function start() {
  for (const name of ["shared", "special"]) document.getElementById(name).addEventListener("change", redraw);
  document.getElementById("theme").addEventListener("click", () => {
    const root = document.documentElement;
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  });
  const second = document.getElementById("second");
  if (stored) {
    const data = JSON.parse(stored.textContent);
    page.about = data.about;
    second.hidden = true;
    for (const own of data.panels) {
      const panel = new Panel();
      page.panels.push(panel);
      panel.begin(own.data);
      for (const [name, scores] of Object.entries(own.scores)) panel.scores.set(name, { ...scores, scores: scores.scores ? scores.scores.map((s) => (s === null ? NaN : s)) : undefined });
      panel.draw();
      for (const name of ["page", "link"]) panel.find(`[data-do="${name}"]`).hidden = true;
    }
    return;
  }
  page.about = await (await fetch("api/about")).json();
  page.panels.push(new Panel());
  second.addEventListener("click", () => { page.panels.push(new Panel()); second.hidden = true; });
  const first = page.panels[0];
  first.form.text.value = "This is not a bad film at all.";
  if (location.search) history.replaceState(null, "", location.pathname + location.hash);
  if (location.hash.length > 1) {
    try { first.fill(JSON.parse(decodeURIComponent(location.hash.slice(1)))); await first.ask(); } catch (error) { first.fail(error); }
  }
}

start();
