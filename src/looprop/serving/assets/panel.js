"use strict";
// One question: what was asked, what is known of it, what is struck out.

class Panel {
  constructor() {
    const root = document.getElementById("panel").content.firstElementChild.cloneNode(true);
    this.root = root;
    this.find = (selector) => root.querySelector(selector);
    this.form = this.find("form");
    Object.assign(this, { data: null, scores: new Map(), struck: new Set(), seen: new Map(), shown: LOO });
    Object.assign(this, { outcome: null, running: new Set(), progress: new Map(), program: "", anew: null });
    const { models, features, images } = page.about;
    for (const model of models) this.form.model.append(new Option(model.name, model.name));
    for (const name of features) this.form.features.append(new Option(name, name));
    for (const name of images) this.form.image.append(new Option(name.split(/[\\/]/).pop(), name));
    this.find(".models").hidden = models.length < 2;
    this.find("datalist").id = `labels-${page.panels.length}`;
    for (const name of ["target", "against"]) this.form[name].setAttribute("list", this.find("datalist").id);
    this.listen();
    document.getElementById("panels").append(root);
    this.form.hidden = Boolean(stored);
    this.fit();
  }

  listen() {
    const form = this.form;
    form.model.addEventListener("change", () => this.fit());
    form.what.addEventListener("change", () => this.fit());
    form.file.addEventListener("change", () => this.upload());
    form.addEventListener("submit", (event) => { event.preventDefault(); this.ask(); });
    this.find(".stop").addEventListener("click", () => this.stop());
    this.find(".resume").addEventListener("click", () => this.resume());
    this.find(".close").addEventListener("click", () => closePanel(this));
    this.find(".whole").addEventListener("click", () => this.askPart(""));
    this.find(".strength input").addEventListener("input", () => drawStage(this));
    const run = (button) => button.addEventListener("click", () => this[button.dataset.do]());
    for (const button of this.root.querySelectorAll("[data-do]")) run(button);
  }

  get model() { return page.about.models.find((one) => one.name === this.form.model.value); }

  /** Shows the fields that a model has a use for. */
  fit() {
    const { model, form } = this;
    if (!model) return;
    const [images, generates, what] = [model.reads === "images", model.generates, form.what.value];
    form.text.hidden = images;
    this.find(".pictures").hidden = !images;
    this.find(".parts").hidden = images;
    this.find(".generates").hidden = !generates;
    this.find(".length").hidden = !generates || what !== "answer";
    this.find(".target").hidden = generates && what === "answer";
    this.find(".target span").textContent = generates && what === "continuation" ? "it might say" : "target";
    this.find(".against").hidden = generates && what !== "next";
    this.find("datalist").replaceChildren(...model.labels.map((label) => new Option(label, label)));
    this.methods = this.methods && this.fitted === model.name ? this.methods : [LOO, ...model.shown];
    this.fitted = model.name;
    drawPicker(this);
  }

  question() {
    const { form, model } = this;
    const asked = { model: form.model.value, text: "", image: "", target: "", features: form.features.value, answer: 0, part: "" };
    if (model.reads === "images") Object.assign(asked, { image: form.image.value, features: "token" });
    else asked.text = form.text.value;
    const what = model.generates ? form.what.value : "class";
    if (what === "answer") return { ...asked, answer: Number(form.answer.value) || 0 };
    const target = form.target.value;
    if (what === "continuation") return { ...asked, target: `continuation:${target}` };
    return { ...asked, target: form.against.value ? `${target},${form.against.value}` : target };
  }

  fill(asked) {
    const { form } = this;
    form.model.value = asked.model;
    const said = asked.target.startsWith("continuation:");
    form.what.value = asked.answer ? "answer" : said ? "continuation" : "next";
    for (const name of ["text", "features"]) form[name].value = asked[name];
    if (asked.answer) form.answer.value = asked.answer;
    this.choose(asked.image);
    form.target.value = said ? asked.target.slice("continuation:".length) : asked.target;
    form.against.value = "";
    this.fit();
  }

  choose(image, title = image) {
    const select = this.form.image;
    if (image && ![...select.options].some((option) => option.value === image)) select.append(new Option(title, image));
    if (image) select.value = image;
  }

  async upload() {
    const file = this.form.file.files[0];
    if (!file) return;
    this.find(".error").hidden = true;
    try {
      if (file.size > page.about.largest) throw new Error(`a picture may have ${page.about.largest} bytes, this one has ${file.size}`);
      const read = new FileReader();
      await new Promise((done, fail) => { read.onload = done; read.onerror = fail; read.readAsDataURL(file); });
      const data = read.result.slice(read.result.indexOf(",") + 1);
      this.choose((await (await post("api/picture", { data })).json()).name, file.name);
      await this.ask();
    } catch (error) { this.fail(error); }
  }

  fail(error) {
    if (error.name === "AbortError") return;
    const place = this.find(".error");
    place.textContent = error.message || String(error);
    place.hidden = false;
  }

  /** Something that takes time and can be stopped; methods: those it is for, if it is for methods. */
  async during(work, methods = []) {
    const control = Object.assign(new AbortController(), { methods });
    this.running.add(control);
    drawBusy(this);
    try { await work(control.signal); } catch (error) { this.fail(error); }
    this.running.delete(control);
    drawBusy(this);
  }

  ask() { return this.asking(this.question()); }

  askPart(part) { return this.asking({ ...this.data.question, part }); }

  async asking(question) {
    this.stop();
    this.find(".error").hidden = true;
    let data = null;
    this.progress = new Map([["", "asking the model"]]);
    await this.during(async (signal) => { data = await (await post("api/ask", question, signal)).json(); });
    this.progress.delete("");
    if (data === null) { drawBusy(this); return; }
    this.begin(data);
    remember(question);
    await this.explain(this.methods);
  }

  begin(data) {
    const nothing = data.features.map(() => NaN);
    Object.assign(this, { data, scores: new Map([[LOO, { scores: nothing, cost: null }]]), struck: new Set() });
    Object.assign(this, { seen: new Map(), outcome: null, shown: LOO, progress: new Map(), program: "", anew: null });
    delete this.root.dataset.change;
    this.find(".python").hidden = true;
    this.find(".found").hidden = false;
    drawPanel(this);
  }

  /** Asks for methods, the Shapley value by itself: it takes long, and everything else goes before it. Their rows stand
   *  from the beginning, so that nothing moves under the mouse when scores come. */
  async explain(names) {
    for (const name of names) { if (!this.scores.has(name)) this.scores.set(name, {}); }
    drawPanel(this);
    const streams = [names.filter((name) => name !== SHAPLEY), names.filter((name) => name === SHAPLEY)];
    await Promise.all(streams.filter((one) => one.length).map((methods) => this.during(async (signal) => {
      const began = performance.now();
      const response = await post("api/explain", { question: this.data.question, methods }, signal);
      for await (const found of lines(response)) { if (!signal.aborted) this.take(found, began); }
    }, methods)));
    drawPanel(this);
  }

  take(found, began) {
    if (!found.method) { this.fail(new Error(found.error)); return; }
    if (!this.methods.includes(found.method)) return;
    if (found.computed !== undefined) {
      const left = (performance.now() - began) * (found.most - found.computed) / Math.max(1, found.computed) / 1000;
      this.progress.set(found.method, `${found.method}: ${found.computed} variants, at most ${Math.ceil(left)} s left`);
      drawBusy(this);
      return;
    }
    if (found.method === LOO) this.takeLoo(found);
    else {
      this.progress.delete(found.method);
      this.scores.set(found.method, found.scores ? { ...found, scores: numbers(found.scores) } : found);
    }
    this.later();
  }

  /** Draws once for all that has come in the meantime. */
  later() {
    if (this.planned) return;
    this.planned = setTimeout(() => { this.planned = null; drawPanel(this); }, 60);
  }

  /** A few more features of leave-one-out; the time left is by the pace of those before. */
  takeLoo(found) {
    const own = this.scores.get(LOO);
    found.scores.forEach((score, i) => { own.scores[found.from + i] = score; });
    const known = found.from + found.scores.length;
    if (found.from === 0) this.first = { at: performance.now(), known };
    const pace = (performance.now() - this.first.at) / Math.max(1, known - this.first.known);
    const left = pace * (found.of - known) / 1000;
    own.cost = known;
    const time = known > this.first.known ? `, about ${left.toFixed(left < 10 ? 1 : 0)} s left` : "";
    if (known < found.of) this.progress.set(LOO, `leave-one-out: ${known} of ${found.of}${time}`);
    else this.progress.delete(LOO);
  }

  /** Methods that were asked for and have not answered to the end. */
  missing() {
    const whole = (own) => own && (own.error || (own.scores && (own.seconds !== undefined || own.scores.every(Number.isFinite))));
    return this.data ? this.methods.filter((name) => !whole(this.scores.get(name))) : [];
  }

  stop() {
    for (const control of this.running) control.abort();
    this.progress.clear();
  }

  resume() { return this.explain(this.missing()); }

  choosing(name, on) {
    this.methods = on ? [...this.methods, name] : this.methods.filter((one) => one !== name);
    if (!this.data) return;
    if (on) { this.explain([name]); return; }
    for (const control of this.running) {
      if (control.methods.length && control.methods.every((one) => !this.methods.includes(one))) control.abort();
    }
    this.scores.delete(name);
    this.progress.delete(name);
    if (this.shown === name) this.shown = LOO;
    drawPanel(this);
  }

  /** The other reference. */
  shapley() { this.choosing(SHAPLEY, true); drawPicker(this); }

  strike(...which) {
    if (stored && which.length === 1 && !this.struck.has(which[0]) && !this.known([...this.struck, which[0]])) this.struck.clear();
    for (const i of which) { if (!this.struck.delete(i)) this.struck.add(i); }
    return this.removed();
  }

  clear() { this.struck.clear(); return this.removed(); }

  get key() { return [...this.struck].sort((a, b) => a - b).join(","); }

  /** What is known of a set of features without asking: what was seen before, and in a saved page leave-one-out. */
  known(which) {
    const seen = this.seen.get([...which].sort((a, b) => a - b).join(","));
    if (seen || which.length !== 1 || !stored) return seen;
    const effect = this.scores.get(LOO).scores[which[0]];
    const value = this.data.value - effect;
    return Number.isFinite(effect) ? { change: -effect, value, probability: null, effects: [effect], interaction: null, likeliest: [] } : undefined;
  }

  async removed() {
    const { key } = this;
    this.outcome = null;
    this.anew = null;
    delete this.root.dataset.change;
    const known = this.known([...this.struck]);
    if (known || !key) { this.show(known || null); if (!key || stored) return; } else drawPanel(this);
    if (stored) { this.fail(new Error("this page does not know what happens without it")); return; }
    const asked = { question: this.data.question, struck: key.split(",").map(Number) };
    try {
      if (!known) {
        const said = await (await post("api/without", asked)).json();
        this.seen.set(said.struck.join(","), said);
        if (key !== this.key) return;
        this.show(said);
      }
      if (this.data.answer === null || (known && known.answer !== undefined)) return;
      await this.during(async (signal) => {
        const again = await (await post("api/answer", asked, signal)).json();
        if (this.seen.has(key)) this.seen.get(key).answer = again.answer;
        if (key === this.key) this.show(this.seen.get(key));
      });
    } catch (error) { this.fail(error); }
  }

  show(outcome) {
    this.outcome = outcome;
    if (outcome) this.root.dataset.change = outcome.change;
    if (outcome && outcome.answer !== undefined) this.anew = outcome.answer;
    drawPanel(this);
  }

  link() { return copyLink(this); }
  page() { return savePage(this); }
  json() { return saveJson(this); }
  picture() { return savePicture(this); }
  python() { return showPython(this); }
}
