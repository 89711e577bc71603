// Risk over time: who serves, the health of every kernel, how far its detectors are towards an
// alarm, and where something changed. Drawn by hand as SVG; time runs to the right.

const GAP_MS = 30000;  // no line is drawn over a longer silence
const ROUTE_KINDS = ['start', 'canary', 'guard', 'release', 'route', 'panic', 'panic-end', 'promotion', 'reload', 'stale'];
const ALARM_KINDS = ['alarm', 'proof', 'broken'];
// A role's line is told by its dashes as well.
const DASHES = { infer: null, guard: '7 3', fallback: '2 3', candidate: '9 3 2 3', audit: '1 4' };
const TONES = { infer: 'var(--accent)', guard: 'var(--inconclusive)', fallback: 'var(--violated)', candidate: 'var(--error)', audit: 'var(--faint)' };

const clock = (ms, seconds) => new Date(ms).toLocaleTimeString('en-GB', seconds ? {} : { hour: '2-digit', minute: '2-digit' });

function timeTicks(from, to, wanted) {
  const steps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 86400].map((seconds) => seconds * 1000);
  const step = steps.find((size) => (to - from) / size <= wanted) || 7 * 86400000;
  const ticks = [];
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) ticks.push(at);
  return { ticks, seconds: step < 60000 };
}

// [{from, to, serves}] of the route's changes and of samples: those say that the gateway lived, and
// who served where they know.
function servedSpans(samples, changes, from, to) {
  const points = [...samples.map((sample) => [sample.atMs, sample.serves]),
    ...changes.filter((change) => ['route', 'start'].includes(change.kind)).map((change) => [change.atMs, change.serves || change.kernel || ''])]
    .sort((a, b) => a[0] - b[0]);
  const spans = [];
  for (const [at, serves] of points) {
    const last = spans.at(-1);
    const lived = last && at - last.heard <= GAP_MS;
    if (lived && (serves === undefined || serves === last.serves)) {
      last.heard = at;
      continue;
    }
    if (last && !last.to) last.to = lived ? at : last.heard;
    if (serves !== undefined) spans.push({ from: at, to: null, serves, heard: at });
  }
  const last = spans.at(-1);
  if (last && !last.to) last.to = to - last.heard <= GAP_MS ? to : last.heard;
  return spans.filter((span) => span.to > from).map((span) => ({ ...span, from: Math.max(span.from, from) }));
}

// A stepped line through [time, value] points, in pieces where nothing was heard.
function stepPath(points, x, y) {
  let path = '';
  let before = null;
  for (const [at, value] of points) {
    const fresh = !before || at - before > GAP_MS;
    path += fresh ? `M${x(at).toFixed(1)} ${y(value).toFixed(1)}` : `H${x(at).toFixed(1)}V${y(value).toFixed(1)}`;
    before = at;
  }
  return path;
}

function seriesOf(samples, name, key, from) {
  const points = [];
  for (const sample of samples) {
    const found = listOf(sample.kernels).find((kernel) => kernel.name === name);
    const value = found ? num(found[key]) : NaN;
    if (Number.isNaN(value)) continue;
    if (sample.atMs < from) points.length = 0;
    points.push([Math.max(sample.atMs, from), value]);
  }
  return points;
}

function drawBand(chart, spans, x, top, height) {
  for (const span of spans) {
    const [left, right] = [x(span.from), x(span.to)];
    const kernel = kernelNamed(span.serves);
    const role = span.serves === '' ? 'none' : kernel ? kernel.role : 'candidate';
    const name = span.serves === '' ? 'nobody' : span.serves;
    chart.append(s('rect', { class: 'band role-' + role, x: left, y: top, width: Math.max(1.5, right - left), height, rx: 3,
      'data-serves': name }, s('title', null, name + ' serves from ' + clock(span.from, true))));
    if (right - left > visible(name).length * 7 + 12) {
      chart.append(s('text', { class: 'band-text', x: left + 7, y: top + height - 5 }, name));
    }
  }
}

// Labels at the end of the lines, kept apart.
function drawEnds(chart, ends, right, floor) {
  ends.sort((a, b) => a.y - b.y);
  ends.forEach((end, i) => { if (i) end.y = Math.max(end.y, ends[i - 1].y + 14); });
  for (let i = ends.length - 1, lowest = floor; i >= 0; --i, lowest -= 14) ends[i].y = Math.min(ends[i].y, lowest);
  for (const end of ends) chart.append(s('text', { x: right + 8, y: end.y + 4, fill: end.tone, class: 'end' }, end.name));
}

function drawLines(chart, shown, samples, key, from, x, y, right, floor) {
  const ends = [];
  for (const kernel of shown) {
    const points = seriesOf(samples, kernel.name, key, from);
    if (!points.length) continue;
    const last = points.at(-1);
    points.push([Math.min(last[0] + GAP_MS, now()), last[1]]);
    const tone = TONES[kernel.role] || 'var(--soft)';
    chart.append(s('path', { class: 'series', 'data-kernel': kernel.name, d: stepPath(points, x, y), stroke: tone, 'stroke-dasharray': DASHES[kernel.role] }));
    const name = visible(kernel.name);
    ends.push({ y: y(last[1]), tone, name: name.length > 10 ? name.slice(0, 9) + '…' : name });
  }
  drawEnds(chart, ends, right, floor);
}

function drawMarks(chart, changes, x, top, floor, levelFloor) {
  let edge = -Infinity;
  for (const change of changes) {
    const at = x(change.atMs);
    if (ALARM_KINDS.includes(change.kind)) {
      chart.append(s('path', { class: 'alarm-mark', d: `M${at} ${levelFloor - 9}l5 9h-10z` }, s('title', null, change.kind + ' of ' + change.kernel)));
      continue;
    }
    if (!change.mark) continue;
    chart.append(s('line', { class: 'change-line', x1: at, x2: at, y1: top, y2: floor }));
    if (at - edge < 17) continue;
    edge = at;
    chart.append(s('circle', { class: 'change-dot', cx: at, cy: top, r: 8 }), s('text', { class: 'change-number', x: at, y: top + 4, 'text-anchor': 'middle' }, String(change.mark)));
  }
}

// Numbers the changes of the route, oldest first; those of one moment share a number.
function numbered(changes) {
  let mark = 0;
  let before = null;
  return changes.map((change) => {
    if (!ROUTE_KINDS.includes(change.kind)) return change;
    if (change.atMs !== before) ++mark;
    before = change.atMs;
    return { ...change, mark };
  });
}

function drawTimeline(samples, changes, from, to, width) {
  const shown = kernels().filter(isServable);
  const [left, right, bandTop, top, floor, levelTop, levelFloor] = [44, width - 76, 20, 66, 186, 216, 262];
  const x = (ms) => left + ((Math.min(Math.max(ms, from), to) - from) / Math.max(1, to - from)) * (right - left);
  const [eta1, eta2] = [num((shown[0] || {}).eta1) || 1, num((shown[0] || {}).eta2) || 1];
  const values = samples.flatMap((sample) => listOf(sample.kernels).map((kernel) => num(kernel.health))).filter(Number.isFinite);
  const highest = Math.max(eta2, ...values) * 1.12;
  const y = (v) => floor - (Math.log1p(Math.min(Math.max(v, 0), highest)) / Math.log1p(highest)) * (floor - top);
  const levelY = (v) => levelFloor - Math.min(Math.max(v, 0), 1) * (levelFloor - levelTop);
  const chart = s('svg', { class: 'chart timeline', viewBox: `0 0 ${width} ${levelFloor + 26}`, role: 'img',
    'aria-label': 'Who serves, the risk of each kernel and the evidence towards an alarm, over time; the changes are listed below' });
  chart.append(s('text', { x: 0, y: 12 }, 'who serves'), s('text', { x: 0, y: top - 12 }, 'risk'), s('text', { x: 0, y: levelTop - 9 }, 'evidence towards an alarm'));
  const { ticks, seconds } = timeTicks(from, to, Math.max(2, Math.floor((right - left) / 86)));
  for (const at of ticks) {
    chart.append(s('line', { class: 'rule', x1: x(at), x2: x(at), y1: top, y2: floor }), s('line', { class: 'rule', x1: x(at), x2: x(at), y1: levelTop, y2: levelFloor }),
      s('text', { x: x(at), y: levelFloor + 18, 'text-anchor': 'middle' }, clock(at, seconds)));
  }
  const levels = [[0, '0'], [eta1, 'L2 ' + short(eta1, 3)], [eta2, 'L3 ' + short(eta2, 3)]].filter(([value], i, all) => !i || value !== all[i - 1][0]);
  for (const [value, text] of levels) {
    chart.append(s('line', { class: value ? 'eta' : 'axis', x1: left, x2: right, y1: y(value), y2: y(value) }), s('text', { x: left - 6, y: y(value) + 4, 'text-anchor': 'end' }, text));
  }
  for (const [value, text] of [[0, '0%'], [1, '100%']]) {
    chart.append(s('line', { class: value ? 'eta' : 'axis', x1: left, x2: right, y1: levelY(value), y2: levelY(value) }), s('text', { x: left - 6, y: levelY(value) + 4, 'text-anchor': 'end' }, text));
  }
  drawBand(chart, servedSpans(samples, changes, from, to), x, bandTop, 20);
  drawLines(chart, shown, samples, 'health', from, x, y, right, floor);
  drawLines(chart, shown, samples, 'level', from, x, levelY, right, levelFloor);
  drawMarks(chart, changes.filter((change) => change.atMs >= from), x, bandTop + 31, levelFloor, levelFloor);
  return chart;
}
