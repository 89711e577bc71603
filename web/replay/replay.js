// Draws the replay: bias against variance on logarithmic axes with the Pareto front, and the table,
// for everything or for one slice. Data only from the page itself; text is set, never parsed.
(() => {
  const data = JSON.parse(document.getElementById("replay").textContent);
  const app = document.getElementById("app");
  const number = (x) => typeof x === "string" ? { inf: Infinity, "-inf": -Infinity, nan: NaN }[x] : x;
  const show = (x) => {
    const v = number(x);
    if (!Number.isFinite(v)) return Number.isNaN(v) ? "–" : "∞";
    return Math.abs(v) >= 1e5 || (v !== 0 && Math.abs(v) < 1e-3) ? v.toExponential(2) : String(+v.toPrecision(4));
  };
  const element = (name, attributes = {}, text) => {
    const svg = ["svg", "circle", "line", "path", "text", "title"].includes(name);
    const e = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
    for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
    if (text !== undefined) e.textContent = text;
    return e;
  };
  const answer = JSON.parse(document.getElementById("answer").textContent);
  const unneeded = answer.unneeded;
  const slices = data.corrections[0].figures.map((f) => f.slice);
  let slice = 0, key = null, rising = true;
  const kept = (f) => f.tokens > 0 ? f.tokens_kept / f.tokens : 0;

  function head() {
    const top = element("div", { class: "top" });
    top.append(element("h1", {}, document.title), themeToggle(element("button", { type: "button", class: "tool" })));
    app.append(top);
    app.append(element("p", { class: "quiet" }, `${data.corrections.length} corrections over ${data.corrections[0].figures[0].tokens.toLocaleString("en")} tokens. Bias is E|W − φ| against the whole sequence's ratio, variance E φ²; both in units of the advantage times the score.`));
    const best = data.corrections[data.recommended];
    const pick = element("div", { class: best || unneeded ? "pick" : "pick none" });
    if (unneeded) {
      pick.append(element("b", {}, "No correction is needed"), element("span", { class: "quiet" }, unneeded));
      if (best) pick.append(element("span", { class: "quiet" }, `If one is wanted all the same: ${best.text}. ${data.reason}.`));
    } else {
      pick.append(element("b", {}, best ? best.text : "No correction is recommended"), element("span", { class: "quiet" }, data.reason));
    }
    if (best && !best.pareto) pick.append(element("span", { class: "quiet" }, "It lies off the front: whatever is better in both bias and variance fell to one of these conditions, by keeping too little of a slice, by too few effective samples, or by a mean weight off 1."));
    if (answer.advised) pick.append(element("span", { class: "quiet" }, `A correction is advised: ${answer.advised}.`));
    if (answer.clip) pick.append(element("span", { class: "quiet clip" }, `${answer.clip}.`));
    if (answer.settings.length) {
      pick.append(element("span", { class: "quiet" }, `Settings for ${answer.framework}:`), element("pre", { class: "settings" }, answer.settings.join("\n")));
    }
    app.append(pick);
  }

  function scale(values, from, to) {
    const logs = values.filter((v) => v > 0 && Number.isFinite(v)).map(Math.log10);
    let low = Math.floor(Math.min(...logs, 0) * 2) / 2, high = Math.ceil(Math.max(...logs, 0) * 2) / 2;
    if (!(high > low)) { low -= 0.5; high += 0.5; }
    const at = (v) => from + (to - from) * (Math.min(high, Math.max(low, v > 0 ? Math.log10(v) : low)) - low) / (high - low);
    const ticks = [];
    for (let t = Math.ceil(low); t <= high; ++t) ticks.push(10 ** t);
    return { at, ticks: ticks.length > 1 ? ticks : [10 ** low, 10 ** high] };
  }

  function picture() {
    const figure = element("figure");
    // Drawn for the width there is: a picture scaled down to a phone has letters nobody can read.
    const width = Math.max(280, Math.min(1100, app.clientWidth - 26));
    const narrow = width < 600;
    const [left, right, floor] = [narrow ? 46 : 70, width - 20, narrow ? 290 : 410];
    const svg = element("svg", { viewBox: `0 0 ${width} ${floor + 50}`, role: "img", "aria-label": "Bias against variance of every correction" });
    const points = data.corrections.map((c, i) => ({ c, i, f: c.figures[slice] }));
    const y = scale(points.map((p) => number(p.f.bias_sequence)), floor, 20);
    const x = scale(points.map((p) => number(p.f.variance)), left, right);
    for (const t of x.ticks) {
      svg.append(element("line", { class: "grid", x1: x.at(t), x2: x.at(t), y1: 20, y2: floor }), element("text", { x: x.at(t), y: floor + 18, "text-anchor": "middle" }, show(t)));
    }
    for (const t of y.ticks) {
      svg.append(element("line", { class: "grid", x1: left, x2: right, y1: y.at(t), y2: y.at(t) }), element("text", { x: left - 8, y: y.at(t) + 4, "text-anchor": "end" }, show(t)));
    }
    svg.append(element("line", { class: "axis", x1: left, x2: right, y1: floor, y2: floor }), element("line", { class: "axis", x1: left, x2: left, y1: 20, y2: floor }));
    svg.append(element("text", { x: right, y: floor + 40, "text-anchor": "end" }, "variance E φ²"), element("text", { x: left + 6, y: 14 }, "bias"));
    const place = (p) => [x.at(number(p.f.variance)), y.at(number(p.f.bias_sequence))];
    if (slice === 0) {
      const front = points.filter((p) => p.c.pareto).map(place).sort((a, b) => a[0] - b[0]);
      if (front.length > 1) svg.append(element("path", { class: "front", d: "M" + front.map((p) => p.map((v) => v.toFixed(1)).join(",")).join("L") }));
    }
    for (const p of points) {
      const [cx, cy] = place(p);
      const danger = kept(p.f) < 0.5;
      const dot = element("circle", { class: "dot" + (p.i === data.recommended ? " best" : danger ? " danger" : p.c.pareto ? " pareto" : ""), cx, cy, r: (p.i === data.recommended ? 9 : 6) * (narrow ? 0.7 : 1) });
      dot.append(element("title", {}, `${p.c.text}\nkeeps ${(100 * kept(p.f)).toFixed(1)} %, ESS ${show(p.f.ess)}, bias ${show(p.f.bias_sequence)}, variance ${show(p.f.variance)}`));
      svg.append(dot);
    }
    figure.append(svg);
    const legend = element("div", { class: "legend" });
    for (const [colour, text] of [["var(--satisfied)", "recommended"], ["var(--bar)", "no other is better in both"], ["var(--violated)", "keeps less than half"], ["var(--bar-quiet)", "others"]]) {
      const item = element("span");
      const mark = element("i");
      mark.style.background = colour;
      item.append(mark, text);
      legend.append(item);
    }
    figure.append(legend);
    return figure;
  }

  const columns = [
    ["correction", (c) => c.text], ["kept", (c, f) => kept(f), (v) => (100 * v).toFixed(1) + " %"],
    ["worst slice keeps", (c) => c.kept_min, (v) => (100 * v).toFixed(1) + " %"], ["rows kept", (c, f) => f.rows_kept],
    ["ESS", (c, f) => number(f.ess)], ["bias, sequence", (c, f) => number(f.bias_sequence)],
    ["bias, token", (c, f) => number(f.bias_token)], ["variance", (c, f) => number(f.variance)],
  ];

  function table() {
    const box = element("div", { class: "scroll" });
    const t = element("table");
    const header = element("tr");
    columns.forEach(([name], k) => {
      const th = element("th", { scope: "col", "aria-sort": key === k ? rising ? "ascending" : "descending" : "none" });
      const button = element("button", { type: "button", "data-column": k }, name);
      button.addEventListener("click", () => { sortBy(k, key === k ? !rising : true); app.querySelector(`th [data-column="${k}"]`).focus(); });
      th.append(button);
      header.append(th);
    });
    const head = element("thead"), rowsOf = element("tbody");
    head.append(header);
    t.append(head, rowsOf);
    const rows = data.corrections.map((c, i) => ({ c, i, f: c.figures[slice] }));
    if (key !== null) {
      const value = columns[key][1];
      rows.sort((a, b) => {
        const u = value(a.c, a.f), v = value(b.c, b.f);
        if (Number.isNaN(u) || Number.isNaN(v)) return Number.isNaN(u) - Number.isNaN(v); // unknown last, either way
        return (u < v ? -1 : u > v ? 1 : 0) * (rising ? 1 : -1);
      });
    }
    for (const { c, i, f } of rows) {
      const tr = element("tr", i === data.recommended ? { class: "best" } : {});
      for (const [name, value, format] of columns) {
        const v = value(c, f);
        const danger = (name === "kept" || name === "worst slice keeps") && v < 0.5;
        tr.append(element("td", { "data-label": name, ...(danger ? { class: "danger" } : {}) }, typeof v === "string" ? v : (format || show)(v)));
      }
      rowsOf.append(tr);
    }
    box.append(t);
    return box;
  }

  // A phone has no header to click.
  function sorter() {
    const line = element("p", { class: "sorter" });
    const select = element("select", { "aria-label": "Sort by" });
    select.append(element("option", { value: "" }, "as tried"));
    columns.forEach(([name], k) => {
      for (const up of [true, false]) select.append(element("option", { value: `${k},${up}` }, name + (up ? " ↑" : " ↓")));
    });
    select.value = key === null ? "" : `${key},${rising}`;
    select.addEventListener("change", () => {
      const [k, up] = select.value.split(",");
      sortBy(k === "" ? null : Number(k), up === "true");
    });
    line.append("Sort by ", select);
    return line;
  }

  function sortBy(k, up) {
    [key, rising] = [k, up];
    draw();
  }

  const body = element("div");
  function draw() {
    body.replaceChildren(element("h2", {}, "Bias and variance"), picture(), element("h2", {}, "Every correction"), sorter(), table());
  }
  head();
  if (slices.length > 1) {
    const line = element("p", { style: "margin-top:16px" });
    const select = element("select", { "aria-label": "Slice" });
    slices.forEach((s, k) => select.append(element("option", { value: k }, s === "" ? "everything" : s)));
    select.addEventListener("change", () => { slice = Number(select.value); draw(); });
    line.append("Slice ", select);
    app.append(line);
  }
  app.append(body);
  draw();
  let drawn = app.clientWidth;
  new ResizeObserver(() => {
    if (Math.abs(app.clientWidth - drawn) < 2) return;
    drawn = app.clientWidth;
    draw();
  }).observe(app);
})();
