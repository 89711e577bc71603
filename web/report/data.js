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
