"use strict";
// What everything else is made of. Whatever comes from a text, a model or a name goes into the page as text.

const stored = document.getElementById("stored");
const page = { about: null, panels: [], history: [], pressed: false, waiting: new Set() };
const LOO = "loo";
const SHAPLEY = "shapley";

/** Three digits and a true minus sign. */
function number(x) {
  if (x === null || x === undefined || !Number.isFinite(x)) return "–";
  const size = Math.abs(x);
  const digits = size >= 999.5 ? size.toFixed(0) : size.toPrecision(3);
  return Number(digits) === 0 ? "0" : (x > 0 ? "+" : "−") + digits;
}

function percent(p) {
  if (p === null || p === undefined) return "–";
  if (p > 0 && p < 0.001) return "< 0.1 %";
  return p < 1 && p > 0.999 ? "> 99.9 %" : `${(100 * p).toFixed(1)} %`;
}

const r2 = (r) => (r === null ? "–" : r.toFixed(2).replace("-", "−"));

function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

async function post(path, body, signal) {
  const headers = { "Content-Type": "application/json" };
  const response = await fetch(path, { method: "POST", headers, body: JSON.stringify(body), signal });
  if (!response.ok) {
    let said = `the server answered ${response.status}`;
    try { said = (await response.json()).error || said; } catch { /* no JSON: the status says it */ }
    throw new Error(said);
  }
  return response;
}

/** Every line of an answer as soon as it is there. */
async function* lines(response) {
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (rest + decoder.decode(value, { stream: true })).split("\n");
    rest = parts.pop();
    for (const line of parts) if (line) yield JSON.parse(line);
  }
}

/** Pearson's r over some places, as far as both sides are known there; null where there is none. */
function pearson(a, b, places) {
  const known = places.filter((i) => Number.isFinite(a[i]) && Number.isFinite(b[i]));
  if (known.length < 3) return null;
  const mean = (v) => known.reduce((sum, i) => sum + v[i], 0) / known.length;
  const [ma, mb] = [mean(a), mean(b)];
  let [ab, aa, bb] = [0, 0, 0];
  for (const i of known) {
    ab += (a[i] - ma) * (b[i] - mb);
    aa += (a[i] - ma) ** 2;
    bb += (b[i] - mb) ** 2;
  }
  return aa > 0 && bb > 0 ? ab / Math.sqrt(aa * bb) : null;
}

function save(blob, name) {
  const address = URL.createObjectURL(blob);
  element("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}

const checked = (id) => document.getElementById(id).checked;
const shortened = (text, most) => (text.length > most ? text.slice(0, most - 1) + "…" : text);
/** What a token is called, also one of nothing but space. */
const named = (text) => (text.trim() ? text.trim() : text.replace(/\n/g, "↵").replace(/\s/g, "␣"));
const quoted = (text) => `“${shortened(text.trim() || text, 60)}”`;
const numbers = (scores) => scores.map((score) => (score === null ? NaN : score));

/** A colour of the style as [red, green, blue]. */
function colour(name) {
  const probe = element("span");
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color.match(/[\d.]+/g).slice(0, 3).map(Number);
  probe.remove();
  return found;
}
