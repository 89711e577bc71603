// The report's data, and how its clauses and verdicts are shown.

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

// A threshold that passes, rounded to four digits so that it still does.
function passing(clause, value) {
  const x = num(value);
  if (!Number.isFinite(x) || x === 0) return full(value);
  const unit = 10 ** (Math.floor(Math.log10(Math.abs(x))) - 3);
  const outward = clause.bound === 'atMost' ? Math.ceil : Math.floor;
  return short(Number((outward(Number((x / unit).toPrecision(12))) * unit).toPrecision(4)));
}

const boundText = (clause, slice, format = full) => (clause.bound === 'atMost' ? '≤ ' : '≥ ') + format(slice.threshold);

function intervalText(interval, format = short) {
  if (!interval) return 'not measured';
  const [lo, hi] = interval;
  return lo === hi ? format(lo) : '[' + format(lo) + ', ' + format(hi) + ']';
}

// "in nats", "in ms": words have a plural, symbols have none.
const inUnit = (unit) => 'in ' + (/^[a-z]{3,}$/.test(unit) ? unit + 's' : unit);
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
