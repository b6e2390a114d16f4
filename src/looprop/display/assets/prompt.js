// The matrix of features by answer tokens, and what is chosen of it: tokens of the answer, one part of the prompt.
{
  const { scores, logprobs, effects, shown, unlikely } = JSON.parse(document.getElementById("matrix").textContent);
  const tokens = [...document.querySelectorAll(".answer .t")];
  const marks = [...document.querySelectorAll(".prompt .f")];
  const list = document.querySelector(".ranking");
  const sources = [...document.querySelectorAll(".ranking .source")];
  const whole = document.querySelector(".whole"), more = document.querySelector(".more");
  const byToken = scores.every((row) => row.length === tokens.length) && tokens.length > 1;
  const chosen = new Set();
  let part = null, last = 0, all = false;

  const minus = (text) => text.replace(/-/g, "−");
  const signed = (value, decimals) => {
    const text = value.toFixed(decimals);
    return Number(text) === 0 ? text.replace("-", "") : minus((value > 0 ? "+" : "") + text);
  };
  const decimalsOf = (scale) => scale > 0 ? Math.min(6, Math.max(0, 2 - Math.floor(Math.log10(scale)))) : 2;
  const percent = (p) => {
    const share = 100 * p;
    if (share > 99.9 && share < 100) return "> 99.9 %";
    const text = share >= 10 ? share.toFixed(share >= 99.5 && share < 100 ? 1 : 0) : share >= 0.01 || share === 0 ? String(Number(share.toPrecision(2))) : share.toExponential(1);
    return minus(text) + " %";
  };
  const chance = (logprob) => Math.exp(Math.min(0, logprob));
  const likelihood = (logprob, count) => chance(logprob) >= unlikely || count < 2 ? percent(chance(logprob)) : percent(chance(logprob / count)) + " a token";
  const change = (before, after, count) => chance(before) >= unlikely || count < 2
    ? percent(chance(before)) + " → " + percent(chance(after))
    : percent(chance(before / count)) + " → " + percent(chance(after / count)) + " a token";
  const sum = (values) => values.some((value) => value === null) ? NaN : values.reduce((a, b) => a + b, 0);
  const columns = () => chosen.size && byToken ? [...chosen] : null;
  const over = (row) => { const at = columns(); return sum(at && row.length > 1 ? at.map((i) => row[i]) : row); };
  const paint = (element, fraction) => {
    element.classList.toggle("p", fraction >= 0);
    element.classList.toggle("n", fraction < 0);
    element.classList.toggle("outside", Number.isNaN(fraction));
    element.style.setProperty("--m", (100 * Math.min(1, Math.abs(fraction) || 0)).toFixed(1) + "%");
  };

  const draw = () => {
    const totals = scores.map(over);
    const scale = Math.max(0, ...totals.filter(Number.isFinite).map(Math.abs));
    const count = (columns() ?? logprobs).length, digits = decimalsOf(scale), logprob = sum(columns() ? columns().map((i) => logprobs[i]) : logprobs);
    for (const mark of marks) {
      const index = Number(mark.dataset.feature), total = totals[index];
      paint(mark, scale > 0 ? total / scale : 0);
      mark.dataset.tip = Number.isFinite(total) ? signed(total, digits) : "no score";
      mark.classList.toggle("chosen", index === part);
    }
    document.querySelector(".legend .low").textContent = signed(-scale, digits);
    document.querySelector(".legend .high").textContent = signed(scale, digits);
    if (Number.isFinite(logprob)) {
      document.querySelector(".likely .logprob").textContent = signed(logprob, 2);
      document.querySelector(".likely .probability").textContent = likelihood(logprob, count);
    }
    const rank = (source) => { const total = totals[Number(source.dataset.feature)]; return Number.isFinite(total) ? total : -Infinity; };
    sources.sort((a, b) => rank(b) - rank(a) || a.dataset.feature - b.dataset.feature);
    // Whoever has the focus keeps it while the list is put in order.
    const focused = document.activeElement;
    list.append(...sources.map((source) => source.parentElement));
    if (list.contains(focused)) focused.focus({ preventScroll: true });
    sources.forEach((source, place) => {
      const index = Number(source.dataset.feature), total = totals[index];
      source.parentElement.hidden = !all && place >= shown && index !== part;
      source.setAttribute("aria-pressed", String(index === part));
      source.querySelector(".score").textContent = Number.isFinite(total) ? signed(total, digits) : "–";
      const size = source.querySelector(".size");
      size.classList.toggle("n", total < 0);
      size.classList.toggle("p", !(total < 0));
      size.style.setProperty("--length", scale > 0 ? Math.abs(total) / scale : 0);
      if (effects && Number.isFinite(logprob) && Number.isFinite(total))
        source.querySelector(".change").textContent = change(logprob, logprob - total, count);
    });
    const row = part === null ? null : scores[part];
    const strongest = row && row.length > 1 ? Math.max(...row.map(Math.abs)) : 0;
    tokens.forEach((token, i) => {
      if (strongest > 0) paint(token, row[i] / strongest); else token.classList.remove("p", "n", "outside");
      if (byToken) token.setAttribute("aria-pressed", String(chosen.has(i)));
    });
    if (whole) whole.setAttribute("aria-pressed", String(!chosen.size));
  };

  const choose = (index, event) => {
    if (event.shiftKey) {
      for (let i = Math.min(last, index); i <= Math.max(last, index); i++) chosen.add(i);
    } else if (event.ctrlKey || event.metaKey) {
      chosen.has(index) ? chosen.delete(index) : chosen.add(index);
    } else {
      const only = chosen.size === 1 && chosen.has(index);
      chosen.clear();
      if (!only) chosen.add(index);
    }
    last = index;
    part = null;
    draw();
  };
  const open = (index, scroll) => {
    part = part === index ? null : index;
    draw();
    if (scroll && part !== null) marks.find((mark) => Number(mark.dataset.feature) === index)?.scrollIntoView({ block: "nearest", behavior: "smooth" });
  };
  const reset = () => { chosen.clear(); part = null; draw(); };

  if (byToken) {
    const move = (index) => {
      tokens.forEach((token, i) => { token.tabIndex = i === index ? 0 : -1; });
      tokens[index].focus();
    };
    const steps = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };
    tokens.forEach((token, i) => {
      token.addEventListener("click", (event) => choose(i, event));
      token.addEventListener("keydown", (event) => {
        const to = event.key === "Home" ? 0 : event.key === "End" ? tokens.length - 1 : i + (steps[event.key] ?? 0);
        if (to !== i && to >= 0 && to < tokens.length) {
          event.preventDefault();
          move(to);
          if (event.shiftKey) { chosen.add(i); chosen.add(to); last = to; draw(); }
        }
      });
    });
    whole.addEventListener("click", reset);
  }
  for (const source of sources) source.addEventListener("click", () => open(Number(source.dataset.feature), true));
  for (const mark of marks) mark.addEventListener("click", () => open(Number(mark.dataset.feature), false));
  if (more) more.addEventListener("click", () => {
    all = !all;
    more.setAttribute("aria-expanded", String(all));
    more.textContent = all ? "Fewer" : `All ${sources.length}`;
    draw();
  });
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") reset(); });
  draw();

  // In the frame of a notebook: it says how high it is, and takes the theme it is told.
  if (parent !== window) {
    const measure = () => parent.postMessage({ loopropHeight: document.querySelector("main").getBoundingClientRect().height }, "*");
    addEventListener("message", ({ source, data }) => {
      if (source === parent && ["light", "dark"].includes(data?.loopropTheme)) { document.body.dataset.theme = data.loopropTheme; label(); }
    });
    new ResizeObserver(measure).observe(document.querySelector("main"));
    measure();
  }
}
