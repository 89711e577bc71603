// Charts, drawn by hand as SVG: scales, the histogram, the percentile strips, the disagreement
// curves, the bullet beside a verdict and the health bar.

// A scale maps values to columns. Logarithmic where values are positive and span more than a
// factor of 20, linear where they span less, and signed-logarithmic where they cross zero.
function makeScale(values, from, to) {
  const finite = values.filter(Number.isFinite);
  let lo = Math.min(...finite);
  let hi = Math.max(...finite);
  if (!finite.length) [lo, hi] = [0, 1];
  if (lo === hi) [lo, hi] = lo === 0 ? [0, 1] : [Math.min(lo * 0.9, lo * 1.1), Math.max(lo * 0.9, lo * 1.1)];
  const positive = finite.filter((v) => v > 0);
  const kind = lo > 0 && hi / lo > 20 ? 'log' : lo < 0 && hi > 0 ? 'signed' : 'linear';
  // Around zero the signed scale is straight; beyond it, logarithmic.
  const knee = kind === 'signed' ? Math.max(-lo, hi) / 300 : 1;
  const bend = { log: Math.log, linear: (v) => v, signed: (v) => Math.asinh(v / knee) }[kind];
  const [a, b] = [bend(lo), bend(hi)];
  const scale = (v) => {
    const clamped = Math.min(Math.max(v, lo), hi);
    return from + ((bend(clamped) - a) / (b - a)) * (to - from);
  };
  scale.ticks = () => ticksOf(kind, lo, hi, Math.max(2, Math.round((to - from) / 90)));
  scale.kind = kind;
  scale.positive = positive.length > 0;
  return scale;
}

function ticksOf(kind, lo, hi, wanted) {
  if (kind === 'linear') {
    const rough = (hi - lo) / wanted;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].find((f) => f * power >= rough) * power;
    const ticks = [];
    for (let k = Math.ceil(lo / step - 1e-9); k * step <= hi * (1 + 1e-12) + step * 1e-9; ++k) {
      ticks.push(Number((k * step).toPrecision(12)));
    }
    return ticks;
  }
  const decades = (from, to) => {
    const list = [];
    for (let e = Math.floor(Math.log10(from)); e <= Math.ceil(Math.log10(to)); ++e) {
      for (const f of Math.log10(to / from) < 1.7 ? [1, 2, 5] : [1]) {
        const v = Number((f * 10 ** e).toPrecision(6));
        if (v >= from * 0.999 && v <= to * 1.001) list.push(v);
      }
    }
    while (list.length > wanted + 1) for (let i = list.length - 2; i > 0; i -= 2) list.splice(i, 1);
    return list;
  };
  if (kind === 'log') return decades(lo, hi);
  const reach = Math.max(-lo, hi);
  const side = decades(reach / 60, reach).slice(-2);
  return [...side.map((v) => -v).reverse(), 0, ...side].filter((v) => v >= lo && v <= hi);
}

// Ticks whose labels would touch the one before are left without one.
function axisBelow(scale, y, from, to, unit) {
  let edge = -Infinity;
  const labelled = (v) => {
    const half = short(v).length * 3.4 + 3;
    if (scale(v) - half < edge) return false;
    edge = scale(v) + half;
    return true;
  };
  return [s('line', { class: 'axis', x1: from, x2: to, y1: y, y2: y }),
    scale.ticks().map((v) => [
      s('line', { class: 'axis', x1: scale(v), x2: scale(v), y1: y, y2: y + 4 }),
      labelled(v) ? s('text', { x: scale(v), y: y + 17, 'text-anchor': 'middle' }, short(v)) : null]),
    unit ? s('text', { x: to, y: y + 33, 'text-anchor': 'end' }, unit) : null];
}

// Clauses with a threshold on this quantity; with a slice given, those that name it.
function thresholdsOn(quantity, slice) {
  const found = [];
  for (const clause of report.clauses) {
    if (clause.quantity !== quantity) continue;
    for (const pair of clause.slices) {
      if (slice === undefined || pair.slice === slice) found.push({ clause, pair });
    }
  }
  return found;
}

// Labels over vertical lines, in as many lanes as keep them apart.
function placeLabels(marks, width) {
  const lanes = [];
  for (const mark of [...marks].sort((a, b) => a.x - b.x)) {
    const size = mark.text.length * 6.9 + 8;
    mark.anchor = mark.x + size > width ? 'end' : 'start';
    const start = mark.anchor === 'start' ? mark.x : mark.x - size;
    let lane = lanes.findIndex((end) => end <= start);
    if (lane < 0) lane = lanes.push(0) - 1;
    lanes[lane] = start + size;
    mark.lane = lane;
  }
  return lanes.length;
}

// Density is the share of all values per column of the axis. A bucket squeezed against the end
// of the axis still gets a few columns.
function barsOf(histogram, x) {
  const edges = histogram.edges.map(num);
  const total = Math.max(1, histogram.counts.reduce((a, b) => a + b, 0) + histogram.infinite);
  return histogram.counts.map((count, i) => {
    const [left, right] = [x(edges[i]), x(edges[i + 1])];
    return { left, right, count, from: edges[i], to: edges[i + 1], density: count / total / Math.max(3, right - left) };
  });
}

function drawHistogram(quantity, slice, width) {
  const histogram = (histograms.get(quantity) || new Map()).get(slice);
  const statistics = (quantities.get(quantity) || new Map()).get(slice);
  if (!histogram || !histogram.counts.length) return null;
  const whole = slice === 'all' ? null : (histograms.get(quantity) || new Map()).get('all');
  const marks = thresholdsOn(quantity, slice).map(({ clause, pair }) => ({
    clause, pair, value: num(pair.threshold),
    text: clause.id + ' ' + (clause.aggregate ? clause.aggregate + ' ' : '') + boundText(clause, pair) }));
  const edges = histogram.edges.map(num);
  const used = edges[0] === 0 && edges[1] > 0 && edges.at(-1) / edges[1] > 20 ? edges.slice(1) : edges;
  const x = makeScale([...used, ...marks.map((m) => m.value).filter((v) => v !== 0 || used[0] <= 0)], 8, width - 8);
  for (const mark of marks) mark.x = x(mark.value);
  const lanes = placeLabels(marks, width);
  const top = 8 + lanes * 16;
  const floor = top + 190;
  const total = histogram.counts.reduce((a, b) => a + b, 0) + histogram.infinite;
  // Buckets are not equally wide on the axis: a bar's area is its share, not its height.
  const own = barsOf(histogram, x);
  const behind = whole ? barsOf(whole, x) : [];
  const highest = Math.max(...own.map((bar) => bar.density), ...behind.map((bar) => bar.density));
  const y = (density) => floor - (density / highest) * (floor - top - 4);
  const label = 'Histogram of ' + quantity + ' on slice ' + slice + ', ' + grouped(total) + ' values' +
    marks.map((m) => '; threshold ' + m.text).join('');
  const chart = s('svg', { class: 'chart', viewBox: `0 0 ${width} ${floor + 62}`, role: 'img', 'aria-label': label });
  const shaded = marks.length > 2 ? marks.filter((mark) => mark.pair.verdict === 'violated').slice(0, 1) : marks;
  for (const mark of shaded) {
    const beyond = mark.clause.bound === 'atMost' ? [mark.x, width - 8] : [8, mark.x];
    chart.append(s('rect', { class: 'v-' + mark.pair.verdict, x: beyond[0], y: top, width: Math.max(0, beyond[1] - beyond[0]),
      height: floor - top, fill: 'var(--tint)', opacity: 0.6 }));
  }
  for (const bar of own) {
    if (!bar.count) continue;
    chart.append(s('rect', { x: bar.left + 0.4, width: Math.max(0.8, bar.right - bar.left - 0.8), y: y(bar.density),
      height: Math.max(0.8, floor - y(bar.density)), fill: 'var(--bar)' },
    s('title', null, short(bar.from) + ' to ' + short(bar.to) + ': ' + grouped(bar.count))));
  }
  if (whole) chart.append(outlineOf(behind, y, floor));
  chart.append(...[axisBelow(x, floor, 8, width - 8, '')].flat(3).filter(Boolean));
  if (statistics) chart.append(percentileRow(statistics, x, floor + 30));
  if (unitOf(quantity)) chart.append(s('text', { x: width - 8, y: floor + 60, 'text-anchor': 'end' }, inUnit(unitOf(quantity))));
  for (const mark of marks) {
    mark.high = 12 + mark.lane * 16;
    chart.append(s('line', { class: 'tone-line v-' + mark.pair.verdict, x1: mark.x, x2: mark.x, y1: mark.high - 9, y2: floor, 'stroke-width': 1.5, 'stroke-dasharray': '4 3' }));
  }
  for (const mark of marks) {
    chart.append(s('g', { class: 'v-' + mark.pair.verdict, 'data-threshold': full(mark.pair.threshold) },
      s('text', { class: 'tone-text', x: mark.x + (mark.anchor === 'start' ? 5 : -5), y: mark.high, 'text-anchor': mark.anchor }, mark.text)));
  }
  return chart;
}

// The slice "all" behind another slice, as a line.
function outlineOf(bars, y, floor) {
  let path = `M${bars[0].left.toFixed(1)} ${floor}`;
  for (const bar of bars) {
    const level = y(bar.density).toFixed(1);
    path += `L${bar.left.toFixed(1)} ${level}L${bar.right.toFixed(1)} ${level}`;
  }
  return s('path', { d: path + `L${bars.at(-1).right.toFixed(1)} ${floor}`, fill: 'none', stroke: 'var(--faint)', 'stroke-width': 1.1 });
}

const PERCENTILES = [['p50', 'p50'], ['p90', 'p90'], ['p95', 'p95'], ['p99', 'p99'], ['p999', 'p99.9']];

function percentileRow(statistics, x, y) {
  const group = s('g', { 'aria-hidden': 'true' });
  let edge = -Infinity;
  for (const [key, text] of PERCENTILES) {
    const value = num(statistics[key]);
    if (!Number.isFinite(value)) continue;
    const at = x(value);
    group.append(s('path', { d: `M${at} ${y - 6}l4 7h-8z`, fill: 'var(--accent)' }));
    if (at - edge > 34) {
      group.append(s('text', { x: at, y: y + 14, 'text-anchor': 'middle' }, text));
      edge = at;
    }
  }
  return group;
}

// One row: the range as a hairline, p50 to p99 as a band, ticks at p90, p95 and p99.9, and the
// thresholds of the clauses that name the slice.
function drawStrip(quantity, slice, statistics, x, width) {
  const strip = s('svg', { viewBox: `0 0 ${width} 26`, preserveAspectRatio: 'none', 'aria-hidden': 'true' });
  const at = (key) => x(num(statistics[key]));
  const has = (key) => Number.isFinite(num(statistics[key]));
  const line = (x1, x2, y1, y2, stroke, size, more) => s('line', { x1, x2, y1, y2, stroke, 'stroke-width': size, ...more });
  if (has('min')) strip.append(line(at('min'), has('max') ? at('max') : width, 13, 13, 'var(--line-strong)', 1.4));
  if (has('p50') && has('p99')) strip.append(line(at('p50'), at('p99'), 13, 13, 'var(--bar)', 8, { 'stroke-linecap': 'butt' }));
  for (const key of ['p90', 'p95', 'p999']) if (has(key)) strip.append(line(at(key), at(key), 9, 17, 'var(--soft)', 1.2));
  if (has('p50')) strip.append(line(at('p50'), at('p50'), 6, 20, 'var(--ink)', 2));
  if (has('p99')) strip.append(line(at('p99'), at('p99'), 7, 19, 'var(--accent)', 2));
  for (const { pair } of thresholdsOn(quantity, slice)) {
    strip.append(s('g', { class: 'v-' + pair.verdict },
      line(x(num(pair.threshold)), x(num(pair.threshold)), 0, 26, 'var(--tone)', 1.6, { 'stroke-dasharray': '3 2' })));
  }
  return strip;
}

function stripScale(quantity, width) {
  const values = [];
  for (const statistics of quantities.get(quantity).values()) {
    for (const key of ['min', 'p50', 'p99', 'p999', 'max']) values.push(num(statistics[key]));
  }
  for (const { pair } of thresholdsOn(quantity)) values.push(num(pair.threshold));
  const positive = values.filter((v) => v > 0);
  // A single exact zero must not bend a logarithmic picture.
  const bent = !values.some((v) => v < 0) && positive.length && Math.max(...positive.filter(Number.isFinite)) / Math.min(...positive) > 20;
  return makeScale(bent ? positive : values, 3, width - 3);
}

// Cumulative disagreement: of all tokens of the slice, the share that disagrees and has at most
// this margin. "all" is drawn behind for comparison.
function drawCurves(slice, width) {
  const shown = [...new Set(['all', slice])].map((name) => curves.get(name)).filter((curve) => curve && curve.points.length);
  if (!shown.length) return null;
  const height = 270;
  const [left, right, top, floor] = [40, width - 104, 12, height - 40];
  const margins = shown.flatMap((curve) => curve.points.map((point) => num(point.margin)));
  const share = (curve, key) => curve.points.map((point) => point[key] / Math.max(1, curve.tokens));
  const highest = Math.max(1e-9, ...shown.flatMap((curve) => [...share(curve, 'top1'), ...share(curve, 'top5')]));
  const x = makeScale(margins.some((v) => v > 0) ? margins.filter((v) => v > 0) : margins, left, right);
  const y = (v) => floor - (v / highest) * (floor - top);
  const chart = s('svg', { class: 'chart', viewBox: `0 0 ${width} ${height}`, role: 'img',
    'aria-label': 'Cumulative top-1 and top-5 disagreement by margin, slice ' + slice });
  for (const tick of ticksOf('linear', 0, highest, 4)) {
    chart.append(s('line', { class: 'rule', x1: left, x2: right, y1: y(tick), y2: y(tick) }),
      s('text', { x: left - 8, y: y(tick) + 4, 'text-anchor': 'end' }, percent(tick)));
  }
  chart.append(...[axisBelow(x, floor, left, right, '')].flat(3).filter(Boolean),
    s('text', { x: (left + right) / 2, y: height - 4, 'text-anchor': 'middle' }, 'margin, in logits'));
  const ends = [];
  for (const curve of shown) {
    const main = curve.slice === slice;
    for (const key of ['top5', 'top1']) {
      const shares = share(curve, key);
      const path = curve.points.map((point, i) => `${i ? 'L' : 'M'}${x(num(point.margin)).toFixed(1)} ${y(shares[i]).toFixed(1)}`).join('');
      chart.append(s('path', { d: path, fill: 'none', stroke: main ? 'var(--accent)' : 'var(--faint)', 'stroke-width': main ? 2.2 : 1.3,
        'stroke-dasharray': key === 'top5' ? '6 4' : null, 'stroke-linejoin': 'round' }));
      ends.push({ y: y(shares.at(-1)), main, text: key.replace('top', 'top-') + ' ' + percent(shares.at(-1)) + (main ? '' : ' all') });
    }
  }
  ends.sort((a, b) => a.y - b.y);
  ends.forEach((end, i) => { if (i) end.y = Math.max(end.y, ends[i - 1].y + 15); });
  const over = Math.max(0, (ends.at(-1) || { y: 0 }).y - floor);
  for (const end of ends) {
    chart.append(s('text', { x: right + 8, y: end.y - over + 4, class: end.main ? 'strong' : null }, end.text));
  }
  return chart;
}

// From where to where the bullets of a clause reach, so that its slices can be compared by eye.
function bulletRange(clause) {
  const finite = clause.slices.flatMap((slice) => [slice.threshold, ...(slice.interval || [])]).map(num).filter(Number.isFinite);
  let [lo, hi] = [Math.min(0, ...finite), Math.max(...finite)];
  // Values near their threshold but far from zero would look alike on a line from zero.
  const near = Math.min(...finite);
  if (lo === 0 && near > 0 && hi / near < 1.08) lo = Math.max(0, near - (hi - near || near * 0.02) * 6);
  hi += (hi - lo || 1) * 0.14;
  if (lo < 0) lo -= (hi - lo) * 0.08;
  return [lo, hi];
}

// Value, interval and threshold of one pair on a line from zero.
function drawBullet(clause, slice, width, [lo, hi] = bulletRange({ slices: [slice] })) {
  const threshold = num(slice.threshold);
  const ends = (slice.interval || []).map(num);
  const around = (slice.confidenceInterval || (slice.other || {}).confidenceInterval || []).map(num).filter(Number.isFinite);
  const x = (v) => 6 + ((Math.min(Math.max(v, lo), hi) - lo) / (hi - lo)) * (width - 12);
  const beyond = clause.bound === 'atMost' ? [x(threshold), width - 6] : [6, x(threshold)];
  const picture = s('svg', { class: 'bullet v-' + slice.verdict, viewBox: `0 0 ${width} 46`, preserveAspectRatio: 'xMinYMid', role: 'img',
    'aria-label': intervalText(slice.interval) + ' against ' + boundText(clause, slice) });
  picture.append(s('rect', { x: 6, y: 12, width: width - 12, height: 9, rx: 3, fill: 'var(--sunk)' }),
    s('rect', { x: beyond[0], y: 12, width: Math.max(0, beyond[1] - beyond[0]), height: 9, rx: 3, fill: 'var(--violated-soft)' }));
  if (around.length === 2) {
    picture.append(s('line', { x1: x(around[0]), x2: x(around[1]), y1: 16.5, y2: 16.5, stroke: 'var(--faint)', 'stroke-width': 1.5 }));
  }
  if (ends.length && ends[0] !== ends[1]) {
    picture.append(s('rect', { x: x(ends[0]), width: Math.max(2, x(ends[1]) - x(ends[0])), y: 13, height: 7, rx: 2, fill: 'var(--tone)', opacity: 0.75 }));
  } else if (ends.length) {
    picture.append(s('circle', { cx: x(ends[0]), cy: 16.5, r: 5, fill: 'var(--tone)', stroke: 'var(--card)', 'stroke-width': 1.5 }));
  }
  const text = (at, string) => s('text', { x: Math.min(Math.max(at, 30), width - 34), y: 38, 'text-anchor': 'middle', fill: 'var(--soft)', 'font-size': 12 }, string);
  picture.append(s('line', { x1: x(threshold), x2: x(threshold), y1: 7, y2: 26, stroke: 'var(--ink)', 'stroke-width': 2 }),
    text(x(threshold), boundText(clause, slice, short)));
  return picture;
}

// The health as a risk, in three zones of equal width, since the weights set them apart by orders of
// magnitude. Grey where nothing was measured.
function drawRisk(width) {
  const [eta1, eta2] = report.thresholds.map(num);
  const health = num(report.health);
  let most = 0;
  for (const clause of report.clauses) for (const slice of clause.slices) most += 2 * num(slice.weight);
  const zone = width / 3;
  const at = health < eta1 ? (health / eta1) * zone
    : health < eta2 ? zone + ((health - eta1) / (eta2 - eta1)) * zone
      : 2 * zone + Math.min(1, (health - eta2) / Math.max(1e-9, most - eta2)) * zone;
  const x = Math.min(Math.max(at, 7), width - 7);
  const tones = ['satisfied', 'inconclusive', 'violated'];
  const now = health < eta1 ? 0 : health < eta2 ? 1 : 2;
  return s('svg', { viewBox: `0 0 ${width} 44`, role: 'img', class: measured ? null : 'unmeasured',
    'aria-label': measured ? 'Risk ' + short(health) + ': ' + report.healthText : 'Risk: nothing was measured' },
    tones.map((tone, i) => s('rect', { class: 'v-' + tone, x: i * zone + 1, y: 12, width: zone - 2, height: 8, rx: 4,
      fill: !measured ? 'var(--line-strong)' : i === now ? 'var(--tone)' : 'var(--edge)' })),
    measured ? s('circle', { class: 'v-' + tones[now], cx: x, cy: 16, r: 7, fill: 'var(--card)', stroke: 'var(--tone)', 'stroke-width': 3 }) : null,
    ['0', 'η₁ ' + short(eta1), 'η₂ ' + short(eta2)].map((text, i) =>
      s('text', { x: i * zone + (i ? 0 : 2), y: 40, 'text-anchor': i ? 'middle' : 'start', fill: 'var(--faint)', 'font-size': 11.5 }, text)));
}
