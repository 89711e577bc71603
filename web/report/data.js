'use strict';
// The report's data, numbers as people read them, and the few functions that make elements.
// Text from the report only ever becomes text nodes and attributes, never markup.

const report = JSON.parse(document.getElementById('report').textContent);

const VERDICTS = ['violated', 'error', 'inconclusive', 'satisfied'];
const FAMILIES = ['numerical', 'statistical', 'runtime', 'observability'];
const ACTIONS = ['log', 'guard', 'freeze', 'fallback', 'rollback'];

// Objects keyed by names from the report become maps: a slice may be called "constructor".
const mapOf = (object) => new Map(Object.entries(object || {}));
const quantities = new Map([...mapOf(report.quantities)].map(([name, slices]) => [name, mapOf(slices)]));
const histograms = new Map([...mapOf(report.histograms)].map(([name, slices]) => [name, mapOf(slices)]));
const labels = mapOf(report.labels);
const curves = new Map(report.curves.map((curve) => [curve.slice, curve]));

// JSON has no infinities; null is what was not measured.
function num(value) {
  if (value === null || value === undefined || value === 'nan') return NaN;
  if (value === 'inf') return Infinity;
  if (value === '-inf') return -Infinity;
  return value;
}

// Every digit the report has.
function full(value) {
  const x = num(value);
  if (Number.isNaN(x)) return 'not measured';
  return x === Infinity ? '∞' : x === -Infinity ? '−∞' : String(x).replace('-', '−').replace('e−', 'e-');
}

const grouped = (count) => String(count).replace(/\B(?=(\d{3})+$)/g, ',');

// At most four significant digits, but every digit before the point.
function short(value, digits = 4) {
  const x = num(value);
  if (Number.isNaN(x)) return '–';
  if (!Number.isFinite(x)) return full(value);
  const large = Math.abs(x) >= 1000 && Math.abs(x) < 1e15;
  const text = large ? grouped(Math.round(Math.abs(x))) : String(Number(Math.abs(x).toPrecision(digits)));
  return x < 0 ? '−' + text : text;
}

// A threshold that passes, rounded to four digits so that it still does.
function passing(clause, value) {
  const x = num(value);
  if (!Number.isFinite(x) || x === 0) return full(value);
  const unit = 10 ** (Math.floor(Math.log10(Math.abs(x))) - 3);
  const outward = clause.bound === 'atMost' ? Math.ceil : Math.floor;
  return short(Number((outward(Number((x / unit).toPrecision(12))) * unit).toPrecision(4)));
}

const percent = (share) => short(share * 100, 3) + '%';
const plural = (count, word) => grouped(count) + ' ' + word + (count === 1 ? '' : 's');
const boundText = (clause, slice, format = full) => (clause.bound === 'atMost' ? '≤ ' : '≥ ') + format(slice.threshold);

function intervalText(interval, format = short) {
  if (!interval) return 'not measured';
  const [lo, hi] = interval;
  return lo === hi ? format(lo) : '[' + format(lo) + ', ' + format(hi) + ']';
}

const unitOf = (quantity) => (labels.get(quantity) || { unit: '' }).unit;

// The slices in the order in which they first appear, evidence first.
const sliceNames = (() => {
  const names = new Set();
  for (const slices of quantities.values()) for (const name of slices.keys()) names.add(name);
  for (const clause of report.clauses) for (const slice of clause.slices) names.add(slice.slice);
  for (const name of curves.keys()) names.add(name);
  const list = [...names];
  return list.includes('all') ? ['all', ...list.filter((name) => name !== 'all')] : list;
})();

// Control characters and the marks that reorder text are not shown: a request id must not be able
// to rearrange the sentence it stands in.
const visible = (text) => text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069]/g, '\ufffd');

const SVG = 'http://www.w3.org/2000/svg';

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name === 'on') {
      for (const [event, handler] of Object.entries(value)) element.addEventListener(event, handler);
    } else if (value !== null && value !== undefined && value !== false) {
      element.setAttribute(name, value === true ? '' : value);
    }
  }
  for (const child of children.flat(3)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(typeof child === 'string' ? visible(child) : child);
  }
  return element;
}

const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const s = (tag, attributes, ...children) =>
  fill(document.createElementNS(SVG, tag), attributes, children);

// Verdicts differ in shape as well as in colour.
const GLYPHS = {
  satisfied: () => [s('path', { d: 'M3.2 8.4l3.2 3.2 6.4-7', fill: 'none', stroke: 'currentColor', 'stroke-width': 2.1, 'stroke-linecap': 'round', 'stroke-linejoin': 'round' })],
  violated: () => [s('rect', { x: 1, y: 1, width: 14, height: 14, rx: 3.2, fill: 'currentColor' }),
    s('path', { d: 'M5 5l6 6M11 5l-6 6', stroke: 'var(--card)', 'stroke-width': 2, 'stroke-linecap': 'round' })],
  inconclusive: () => [s('circle', { cx: 8, cy: 8, r: 6.2, fill: 'none', stroke: 'currentColor', 'stroke-width': 1.7, 'stroke-dasharray': '2.6 1.9' }),
    s('path', { d: 'M6.2 6.4a1.9 1.9 0 1 1 2.6 1.8c-.6.3-.8.6-.8 1.1', fill: 'none', stroke: 'currentColor', 'stroke-width': 1.5, 'stroke-linecap': 'round' }),
    s('circle', { cx: 8, cy: 11.3, r: 0.95, fill: 'currentColor' })],
  error: () => [s('path', { d: 'M8 1.6l6.8 12.2H1.2z', fill: 'currentColor', stroke: 'currentColor', 'stroke-width': 1.2, 'stroke-linejoin': 'round' }),
    s('path', { d: 'M8 6v3.8', stroke: 'var(--card)', 'stroke-width': 1.7, 'stroke-linecap': 'round' }),
    s('circle', { cx: 8, cy: 11.9, r: 1, fill: 'var(--card)' })],
};

const glyph = (verdict, attributes) =>
  s('svg', { viewBox: '0 0 16 16', class: 'glyph v-' + verdict, 'aria-hidden': 'true', ...attributes }, GLYPHS[verdict]());

// A table folded away behind a chart, made when it is first opened.
function tableBehind(summary, heads, rows) {
  const box = h('details', { class: 'data' }, h('summary', null, summary));
  box.addEventListener('toggle', () => {
    if (!box.open || box.children.length > 1) return;
    box.append(dataTable(heads, rows()));
  });
  return box;
}

// heads: [text, numeric]; rows: lists of texts or nodes.
function dataTable(heads, rows, more = '') {
  return h('div', { class: 'table-scroll ' + more, tabindex: 0 },
    h('table', { class: 'grid' },
      h('thead', null, h('tr', null, heads.map(([text, numeric]) => h('th', { scope: 'col', class: numeric ? 'n' : null }, text)))),
      h('tbody', null, rows.map((row) => h('tr', null,
        row.map((cell, i) => h('td', { class: heads[i][1] ? 'n' : heads[i][2] || null }, cell)))))));
}
