// The page: sections built once, and one selection (clause, slice, quantity) that they share.

// So many slices fit beside the details, and so many below them, on a screen of 1280 px; beyond,
// cells show their glyph alone, and then smaller.
const BESIDE_MAX = 5;
const DENSE_ABOVE = 9;
const TINY_ABOVE = 36;
const STRIPS_WIDE_MAX = 16;

const state = { clause: 0, slice: sliceNames[0], quantity: [...quantities.keys()][0] };
const watchers = []; // called after every change of the state
function select(change) {
  Object.assign(state, change);
  if (change.clause !== undefined) keepLink('clauses', report.clauses[state.clause].id, state.slice);
  else if (change.quantity !== undefined || change.slice !== undefined) keepLink('distributions', state.quantity, state.slice);
  for (const watch of watchers) watch(change);
}

const section = (id, title, lead, ...children) =>
  h('section', { id, 'aria-labelledby': id + '-title' },
    h('header', null, h('div', null, h('h2', { id: id + '-title' }, title), lead ? h('p', null, lead) : null)), ...children);

// ---- matrix

function showPair(index, slice) {
  select({ clause: index, slice });
  const cell = document.querySelector('.matrix [aria-pressed="true"]');
  if (cell) cell.focus({ preventScroll: true });
  document.getElementById('clauses').scrollIntoView();
}

function cellButton(clause, index, slice, dense) {
  const text = intervalText(slice.interval);
  return h('button', { type: 'button', class: 'v-' + slice.verdict, tabindex: -1, 'aria-pressed': 'false',
    'data-clause': index, 'data-slice': slice.slice, title: dense ? clause.id + ' on ' + slice.slice + ': ' + slice.verdict : null,
    'aria-label': `${clause.id} on ${slice.slice}: ${slice.verdict}, ${text} against ${boundText(clause, slice)}`,
    on: { click: () => select({ clause: index, slice: slice.slice }) } },
  glyph(slice.verdict), dense ? null : h('span', null, slice.interval ? text : '–'));
}

function matrixTable(names, dense, tiny, onlyOpen) {
  const head = h('tr', null, h('th', { scope: 'col', class: 'clause' }, 'clause'),
    names.map((name) => h('th', { scope: 'col', class: 'slice', title: whereText(name) ? name + ': ' + whereText(name) : name }, h('span', null, name))));
  const body = [];
  for (const family of FAMILIES) {
    const rows = [];
    report.clauses.forEach((clause, index) => {
      if (clause.family !== family || (onlyOpen && clause.verdict === 'satisfied')) return;
      const pairs = new Map(clause.slices.map((slice) => [slice.slice, slice]));
      const bound = clause.slices.length ? ' ' + boundText(clause, clause.slices[0], short) : '';
      rows.push(h('tr', null,
        h('th', { scope: 'row', class: 'clause', title: clause.id + ' ' + clause.metric + bound },
          h('div', null, h('b', null, clause.id), h('span', { class: 'level' }, clause.level)), h('small', null, clause.metric + bound)),
        names.map((name) => pairs.has(name) ? h('td', null, cellButton(clause, index, pairs.get(name), dense))
          : h('td', { class: 'none' }, h('span', { 'aria-hidden': 'true' }, '·'), h('span', { class: 'hidden-text' }, 'not named')))));
    });
    if (rows.length) body.push(h('tr', { class: 'family' }, h('th', { colspan: names.length + 1, scope: 'rowgroup' }, family)), ...rows);
  }
  return h('table', { class: 'matrix' + (dense ? ' dense' : '') + (tiny ? ' tiny' : ''), 'aria-label': 'Verdicts by clause and slice' },
    h('thead', null, head), h('tbody', null, body));
}

// Arrows move over the cells that exist; Home and End go to the ends of a row.
function moveInMatrix(event) {
  const button = event.target.closest('button[data-clause]');
  if (!button || event.ctrlKey || event.metaKey || event.altKey) return;
  const cell = button.parentElement;
  const row = cell.parentElement;
  const buttonIn = (tr, column) => tr.cells[column] && tr.cells[column].querySelector('button');
  const inRow = [...row.querySelectorAll('button')];
  const here = inRow.indexOf(button);
  let target = null;
  if (event.key === 'ArrowRight') target = inRow[here + 1];
  else if (event.key === 'ArrowLeft') target = inRow[here - 1];
  else if (event.key === 'Home') target = inRow[0];
  else if (event.key === 'End') target = inRow[inRow.length - 1];
  else if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
    const next = (tr) => event.key === 'ArrowDown' ? tr.nextElementSibling : tr.previousElementSibling;
    for (let tr = next(row); tr && !target; tr = next(tr)) target = buttonIn(tr, cell.cellIndex);
  } else return;
  event.preventDefault();
  if (target) { target.focus(); target.click(); }
}

function clausesSection() {
  const named = new Set(report.clauses.flatMap((clause) => clause.slices.map((slice) => slice.slice)));
  const names = sliceNames.filter((name) => named.has(name));
  const dense = names.length > DENSE_ABOVE;
  const tiny = names.length > TINY_ABOVE;
  const scroll = h('div', { class: 'scroll card', on: { keydown: moveInMatrix } });
  const panel = h('aside', { class: 'details card', 'aria-live': 'polite', 'aria-label': 'The selected verdict' });
  const mark = () => {
    for (const button of scroll.querySelectorAll('button[data-clause]')) {
      const on = Number(button.dataset.clause) === state.clause && button.dataset.slice === state.slice;
      button.setAttribute('aria-pressed', String(on));
      button.tabIndex = on ? 0 : -1;
    }
    const first = scroll.querySelector('button[data-clause]');
    if (first && !scroll.querySelector('[aria-pressed="true"]')) first.tabIndex = 0;
  };
  const draw = (onlyOpen) => {
    const open = new Set(report.clauses.flatMap((clause) => clause.slices.filter((slice) => slice.verdict !== 'satisfied').map((slice) => slice.slice)));
    scroll.replaceChildren(matrixTable(onlyOpen ? names.filter((name) => open.has(name)) : names, dense, tiny, onlyOpen));
    mark();
  };
  draw(false);
  watchers.push(() => { mark(); panel.replaceChildren(...detailsOf()); });
  const first = groupedFindings()[0];
  if (first) {
    const quantity = quantities.has(first.clause.quantity) ? first.clause.quantity : state.quantity;
    Object.assign(state, { clause: first.index, slice: first.pairs[0].slice, quantity });
  } else if (report.clauses.length) state.slice = report.clauses[0].slices[0].slice;
  const only = h('label', null, h('input', { type: 'checkbox', on: { change: (event) => draw(event.target.checked) } }), 'only what is not satisfied');
  const page = section('clauses', 'Clauses by slice', 'Select a verdict to see what it rests on; arrow keys move.',
    h('div', { class: 'matrix-area' + (names.length > BESIDE_MAX ? ' stacked' : '') },
      h('div', null, scroll, h('ul', { class: 'legend' }, VERDICTS.map((verdict) => h('li', null, glyph(verdict), verdict)), h('li', null, '· not named by the clause'))),
      panel));
  page.querySelector('header').append(h('div', { class: 'controls' }, groupedFindings().length ? only : null));
  return page;
}

function detailsOf() {
  const clause = report.clauses[state.clause];
  const slice = clause && clause.slices.find((pair) => pair.slice === state.slice);
  if (!slice) return [h('p', { class: 'quiet' }, clause ? clause.id + ' does not name the slice ' + state.slice + '.' : 'The contract has no clause at this stage.')];
  const rows = [];
  // What is shown, and every digit of it on hover.
  const row = (field, label, text, digits) => rows.push(h('dt', null, label), h('dd', { 'data-field': field, title: digits || null }, text));
  row('value', slice.interval && slice.interval[0] !== slice.interval[1] ? 'Value lies in' : 'Value', intervalText(slice.interval), intervalText(slice.interval, full));
  row('threshold', 'Threshold', boundText(clause, slice, short), boundText(clause, slice));
  if (slice.verdict === 'violated' && num(slice.severity) > 1) row('severity', 'Of its limit', timesText(slice.severity), full(slice.severity));
  if (slice.exceedance) {
    const e = slice.exceedance;
    row('exceedance', 'Beyond it', `${grouped(e.exceeding)} of ${plural(e.windows, clause.hard ? 'value' : 'window')} (${percent(num(e.rate))})`);
    row('budget', 'Budget', percent(num(e.budget)));
  }
  row('requests', 'Requests', grouped(slice.count.requests));
  row('tokens', 'Tokens', grouped(slice.count.tokens));
  if (slice.smallestPassing !== null) row('smallestPassing', 'Would pass at', passing(clause, slice.smallestPassing), full(slice.smallestPassing));
  if (slice.smallestBudget !== null) row('smallestBudget', 'or with budget', percent(num(slice.smallestBudget)), full(slice.smallestBudget));
  if (slice.confidenceInterval) row('interval', percent(num(report.confidence)) + ' interval', intervalText(slice.confidenceInterval));
  if (slice.moreRequests !== null) row('more', 'Would settle it', 'about ' + plural(slice.moreRequests, 'more request'));
  row('health', 'In the risk', short(num(slice.deviation) * num(slice.weight)) + ' = φ ' + short(slice.deviation) + ' × λ ' + short(slice.weight));
  row('order', 'If violated', clause.level + ', ' + clause.action + (clause.hard ? ', hard' : ', soft'));
  if (clause.line) row('line', 'In the contract', 'line ' + clause.line);
  const other = slice.other;
  const where = whereText(slice.slice);
  const quantity = quantities.has(clause.quantity) ? clause.quantity : null;
  return [h('div', { class: 'head' }, glyph(slice.verdict),
    h('h3', null, clause.id + ' on ' + slice.slice, h('small', null, clause.metric + ' · ', h('span', { class: 't-' + slice.verdict, 'data-field': 'verdict' }, slice.verdict)))),
  h('p', { class: 'reason', 'data-field': 'reason' }, slice.reason),
  where ? h('p', { class: 'defined' }, 'Slice ', h('code', { 'data-field': 'where' }, where)) : null,
  clause.why ? h('p', { class: 'defined' }, 'Why the contract asks: ', h('span', { 'data-field': 'why' }, clause.why)) : null,
  drawBullet(clause, slice, 292),
  h('dl', { class: 'pairs facts-list' }, rows),
  h('div', { class: 'other' }, glyph(other.verdict), ' For ' + (other.about === 'traffic' ? 'traffic' : 'the evaluation set') + ': ',
    h('b', { class: 't-' + other.verdict, 'data-field': 'other' }, other.verdict), other.reason ? '. ' + other.reason : '.',
    other.confidenceInterval ? h('div', { class: 'quiet' }, percent(num(report.confidence)) + ' interval ' + intervalText(other.confidenceInterval)) : null),
  h('div', { class: 'share' },
    quantity ? h('button', { type: 'button', class: 'tool', on: { click: () => {
      select({ quantity });
      document.getElementById('distributions').scrollIntoView();
    } } }, 'See the distribution of ' + quantity) : null,
    copyButton(() => location.href.split('#')[0] + linkTo('clauses', clause.id, slice.slice), 'link to this verdict', 'Copy link', 'tool'))].filter(Boolean);
}

// ---- distributions

function sliceSelect(names, label) {
  const box = h('select', { 'aria-label': label, on: { change: (event) => select({ slice: event.target.value }) } },
    names.map((name) => h('option', { value: name }, name)));
  const sync = () => { box.value = names.includes(state.slice) ? state.slice : names[0]; };
  watchers.push(sync);
  return box;
}

function quantityPicker() {
  const names = [...quantities.keys()];
  if (names.length > 7) {
    const box = h('select', { 'aria-label': 'Quantity', on: { change: (event) => select({ quantity: event.target.value }) } },
      names.map((name) => h('option', { value: name }, name)));
    watchers.push(() => { box.value = state.quantity; });
    return box;
  }
  const buttons = names.map((name) => h('button', { type: 'button', 'aria-pressed': 'false', 'data-quantity': name, on: { click: () => select({ quantity: name }) } }, name));
  watchers.push(() => buttons.forEach((button) => button.setAttribute('aria-pressed', String(button.dataset.quantity === state.quantity))));
  return h('div', { class: 'segments', role: 'group', 'aria-label': 'Quantity' }, buttons);
}

function statLine(statistics) {
  if (!statistics) return h('p', { class: 'statline' }, 'not measured on this slice');
  const item = (label, value, field) => h('span', { 'data-stat': field }, label + ' ', h('b', { title: full(value) }, short(value)));
  return h('p', { class: 'statline' }, h('span', { 'data-stat': 'count' }, h('b', null, grouped(statistics.count)), ' values'),
    item('mean', statistics.mean, 'mean'), PERCENTILES.map(([key, text]) => item(text, statistics[key], key)), item('max', statistics.max, 'max'));
}

function histogramPanel() {
  const panel = h('figure', { class: 'panel card' });
  const draw = () => {
    const slices = quantities.get(state.quantity);
    const slice = slices.has(state.slice) ? state.slice : slices.keys().next().value;
    const label = labels.get(state.quantity);
    const histogram = (histograms.get(state.quantity) || new Map()).get(slice);
    const chart = drawHistogram(state.quantity, slice, Math.max(280, panel.clientWidth - 38));
    panel.replaceChildren(h('h3', null, state.quantity + ' on ' + slice), h('p', null, label ? label.definition : ''),
      chart || h('p', { class: 'quiet' }, 'No histogram was kept.'), statLine(slices.get(slice)),
      slice !== 'all' && chart && histograms.get(state.quantity).has('all') ? h('p', { class: 'key' }, h('span', null,
        s('svg', { viewBox: '0 0 26 10', 'aria-hidden': 'true' }, s('path', { d: 'M1 8h6V3h8v4h10', fill: 'none', stroke: 'var(--faint)', 'stroke-width': 1.3 })), 'slice all, for comparison')) : '',
      histogram && histogram.infinite ? h('p', { class: 'quiet' }, plural(histogram.infinite, 'value') + ' overflowed and stand in no bucket.') : '',
      histogram ? tableBehind('Table of the histogram', [['from', true], ['to', true], ['count', true]],
        () => histogram.counts.map((count, i) => [exact(histogram.edges[i]), exact(histogram.edges[i + 1]), grouped(count)])) : '',
      chart ? h('div', { class: 'share' }, pngButton(() => panel.querySelector('svg.chart'), state.quantity + ' on ' + slice)) : '');
  };
  watchers.push(draw);
  redrawOnResize(panel, draw);
  return panel;
}

function stripsPanel() {
  const rows = h('div', { class: 'strips' + (sliceNames.length > STRIPS_WIDE_MAX ? ' many' : ''), role: 'radiogroup', 'aria-label': 'Slice' });
  const keyMark = (child) => s('svg', { viewBox: '0 0 26 10', 'aria-hidden': 'true' }, child);
  const behind = h('div');
  const panel = h('figure', { class: 'panel card' }, h('h3', null, 'Percentiles by slice'),
    h('p', null, 'One axis for all slices; thresholds of the clauses that name a slice are dashed.'), rows,
    h('p', { class: 'key' },
      h('span', null, keyMark(s('line', { x1: 13, x2: 13, y1: 0, y2: 10, stroke: 'var(--ink)', 'stroke-width': 2 })), 'p50'),
      h('span', null, keyMark(s('line', { x1: 13, x2: 13, y1: 1, y2: 9, stroke: 'var(--soft)', 'stroke-width': 1.2 })), 'p90, p95, p99.9'),
      h('span', null, keyMark(s('line', { x1: 13, x2: 13, y1: 0, y2: 10, stroke: 'var(--accent)', 'stroke-width': 2 })), 'p99'),
      h('span', null, keyMark(s('line', { x1: 1, x2: 25, y1: 5, y2: 5, stroke: 'var(--line-strong)', 'stroke-width': 1.4 })), 'least to greatest')), behind);
  let drawn = null;
  const draw = () => {
    const slices = quantities.get(state.quantity);
    // As wide as the column is, which the style decides; guessed until something stands in it.
    const column = rows.querySelector('.strip svg');
    const wide = column ? column.getBoundingClientRect().width : 0;
    const width = Math.max(90, Math.round(wide || panel.clientWidth - 38 - 132 - 74 - 52));
    if (drawn !== state.quantity + width) {
      drawn = state.quantity + width;
      const x = stripScale(state.quantity, width);
      const scroll = rows.scrollTop;
      rows.replaceChildren(...[...slices].map(([name, statistics]) =>
        h('button', { type: 'button', class: 'strip', role: 'radio', 'data-slice': name, on: { click: () => select({ slice: name }) },
          'aria-label': `${name}: p50 ${short(statistics.p50)}, p99 ${short(statistics.p99)}, greatest ${short(statistics.max)}` },
        h('span', { class: 'name', title: name }, name), drawStrip(state.quantity, name, statistics, x, width),
        h('span', { class: 'num' }, short(statistics.p99)))),
      h('div', { class: 'strip strip-axis', 'aria-hidden': 'true' }, h('span'),
        s('svg', { viewBox: `0 0 ${width} 26`, class: 'chart', style: 'margin:0' }, axisBelow(x, 1, 3, width - 3, '')), h('span', { class: 'num' }, 'p99')));
      rows.scrollTop = scroll;
      behind.replaceChildren(tableBehind('Table of all slices',
        [['slice', false, 'id'], ['count', true], ['mean', true], ['min', true], ...PERCENTILES.map(([, text]) => [text, true]), ['max', true]],
        () => [...slices].map(([name, v]) => [name, grouped(v.count), exact(v.mean), exact(v.min), ...PERCENTILES.map(([key]) => exact(v[key])), exact(v.max)])));
    }
    for (const button of rows.querySelectorAll('button')) {
      const on = button.dataset.slice === state.slice;
      button.setAttribute('aria-checked', String(on));
      button.tabIndex = on ? 0 : -1;
    }
    if (!rows.querySelector('[aria-checked="true"]') && rows.firstChild) rows.firstChild.tabIndex = 0;
    if (!column) draw();
  };
  rows.addEventListener('keydown', (event) => {
    const step = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 }[event.key];
    const buttons = [...rows.querySelectorAll('button')];
    const next = buttons[buttons.indexOf(event.target.closest('button')) + step];
    if (!step) return;
    event.preventDefault();
    if (next) { next.focus(); next.click(); }
  });
  watchers.push(draw);
  redrawOnResize(panel, draw);
  return panel;
}

function distributionsSection() {
  if (!quantities.size) return null;
  const page = section('distributions', 'Distributions', 'Every value the evidence holds, and where the contract draws its lines.',
    h('div', { class: 'dist' }, histogramPanel(), stripsPanel()));
  page.querySelector('header').append(h('div', { class: 'controls' }, quantityPicker(),
    h('label', null, 'slice', sliceSelect(sliceNames, 'Slice of the distributions'))));
  return page;
}

// ---- disagreement, worst tokens, bounds, provenance

function disagreementSection() {
  if (!curves.size) return null;
  const panel = h('figure', { class: 'panel card' });
  const draw = () => {
    const slice = curves.has(state.slice) ? state.slice : curves.keys().next().value;
    const curve = curves.get(slice);
    panel.replaceChildren(drawCurves(slice, Math.max(300, panel.clientWidth - 38)) || h('p', { class: 'quiet' }, 'No token has both most likely tokens and a margin.'),
      h('p', { class: 'key' },
        h('span', null, s('svg', { viewBox: '0 0 26 10', 'aria-hidden': 'true' }, s('line', { x1: 0, x2: 26, y1: 5, y2: 5, stroke: 'var(--accent)', 'stroke-width': 2.2 })), 'most likely token differs'),
        h('span', null, s('svg', { viewBox: '0 0 26 10', 'aria-hidden': 'true' }, s('line', { x1: 0, x2: 26, y1: 5, y2: 5, stroke: 'var(--accent)', 'stroke-width': 2.2, 'stroke-dasharray': '6 4' })), 'five most likely differ')),
      tableBehind('Table of the curve on ' + slice, [['margin up to', true], ['tokens', true], ['top-1 differs', true], ['share of those', true], ['top-5 differs', true], ['share of those', true]],
        () => curve.points.map((p) => [exact(p.margin), grouped(p.tokens), grouped(p.top1), p.tokens ? percent(p.top1 / p.tokens) : '–', grouped(p.top5), p.tokens ? percent(p.top5 / p.tokens) : '–'])),
      h('div', { class: 'share' }, pngButton(() => panel.querySelector('svg.chart'), 'disagreement on ' + slice)));
  };
  watchers.push(draw);
  redrawOnResize(panel, draw);
  const page = section('disagreement', 'Disagreement by margin',
    'Share of all tokens on which the kernels disagree, counted from the closest calls upwards: the further right a curve still rises, the less a small margin explains.', panel);
  page.querySelector('header').append(h('div', { class: 'controls' }, h('label', null, 'slice', sliceSelect([...curves.keys()], 'Slice of the curves'))));
  return page;
}

// "…text ⟦token⟧ text…": the token itself is marked.
function contextNode(text) {
  if (text === undefined) return h('span', { class: 'quiet' }, '–');
  const line = text.replace(/\s*\n\s*/g, ' ↵ ');
  const match = /^(.*?)⟦(.*?)⟧(.*)$/.exec(line);
  return h('div', { class: 'context' }, match ? [match[1], h('mark', null, match[2]), match[3]] : line);
}

// Opens on what is violated: the tokens of the selected clause's quantity on the selected slice.
function worstSection() {
  if (!report.worst.length) return null;
  const groups = [...new Map(report.worst.map((row) => [JSON.stringify([row.quantity, row.slice]), row])).keys()];
  const body = h('div');
  const draw = (group) => body.replaceChildren(dataTable(
    [['quantity'], ['slice', false, 'id'], ['value', true], ['request', false, 'id'], ['position', true], ['token', true], ['context']],
    report.worst.filter((row) => !group || JSON.stringify([row.quantity, row.slice]) === group)
      .map((row) => [row.quantity, row.slice, h('b', { title: full(row.value) }, short(row.value)), h('span', null, h('code', null, row.request), row.tags ? h('div', { class: 'quiet' }, row.tags.join(', ')) : ''), grouped(row.position), String(row.token), contextNode(row.context)]), 'tall'));
  const box = h('select', { 'aria-label': 'Worst tokens of', on: { change: (event) => draw(event.target.value) } },
    h('option', { value: '' }, 'every quantity and slice'),
    groups.map((group) => h('option', { value: group }, JSON.parse(group).join(' on '))));
  const open = (group) => { box.value = group; draw(group); };
  const groupOf = (quantity, slice) => groups.find((group) => group === JSON.stringify([quantity, slice]));
  const violated = groupedFindings().flatMap(({ clause, pairs }) => pairs.map((slice) => groupOf(clause.quantity, slice.slice))).find(Boolean);
  open(violated || '');
  watchers.push((change) => {
    const clause = report.clauses[state.clause];
    const group = change.clause !== undefined && clause ? groupOf(clause.quantity, state.slice)
      : change.quantity !== undefined || change.slice !== undefined ? groupOf(state.quantity, state.slice) : null;
    if (group) open(group);
  });
  const page = section('worst', 'Worst tokens', 'Where to look first.', h('div', { class: 'card flows' }, body));
  page.querySelector('header').append(h('div', { class: 'controls' }, h('label', null, 'of', box),
    copyButton(() => markdownOfTable(body.querySelector('table')), 'worst tokens as Markdown', 'copy Markdown')));
  return page;
}

function boundsSection() {
  if (!report.bounds.length) return null;
  const verdicts = new Map(report.clauses.map((clause) => [clause.id, clause.verdict]));
  const holds = (bound) => ({ satisfied: 'yes', violated: 'no' })[verdicts.get(bound.clause)] || verdicts.get(bound.clause);
  const ceiling = (bound) => h('span', null, h('b', { title: full(bound.value) }, short(bound.value)), bound.vacuous ? h('span', { class: 'quiet' }, ' says nothing') : '');
  return section('bounds', 'What the contract implies', 'Proven ceilings, for as long as the clause holds.',
    h('div', { class: 'card' }, dataTable([['clause', false, 'id'], ['holds'], ['at most', true], ['of']],
      report.bounds.map((bound) => [bound.clause, holds(bound), ceiling(bound), bound.text]))));
}

function provenanceSection() {
  const p = report.provenance;
  const block = (title, rows) => h('div', null, h('h3', null, title), h('dl', null, rows.filter(([, value]) => value).map(([label, value, copied]) =>
    [h('dt', null, label), h('dd', null, h('code', null, value), copied ? copyButton(value, title.toLowerCase() + ' ' + label) : null)])));
  return section('provenance', 'Provenance', 'The same evidence and contract give this page again, byte for byte.',
    h('div', { class: 'card prov' },
      block('Contract', [['name', (report.contract.name + ' ' + report.contract.version)], ['digest', report.contract.digest, true], ['file', report.contract.file],
        ['plan', p.plan, true], ['requests', grouped(p.requests)], ['evidence', p.evidence], ['measured by', p.backend], ['kcc', p.kcc]]),
      block('Train', [['fingerprint', p.train.fingerprint, true], ['trace', p.train.trace, true], ['model', p.train.model, true]]),
      block('Infer', [['fingerprint', p.infer.fingerprint, true], ['trace', p.infer.trace, true], ['model', p.infer.model, true]])));
}

// ---- the frame

function redrawOnResize(element, draw) {
  let width = 0;
  new ResizeObserver(() => {
    if (Math.abs(element.clientWidth - width) < 2) return;
    width = element.clientWidth;
    draw();
  }).observe(element);
}

function start() {
  const sections = [findings(), nextSection(), clausesSection(), distributionsSection(), disagreementSection(), worstSection(), boundsSection(), provenanceSection()].filter(Boolean);
  const words = { findings: 'Findings', next: 'Next', clauses: 'Clauses', distributions: 'Distributions', disagreement: 'Disagreement', worst: 'Worst tokens', bounds: 'Bounds', provenance: 'Provenance' };
  const app = document.getElementById('app');
  app.append(
    h('div', { class: 'bar' }, h('div', { class: 'wrap' }, h('div', { class: 'brand' }, 'kcc ', h('span', null, 'report')),
      h('nav', { 'aria-label': 'Sections' }, sections.map((node) => h('a', { href: '#' + node.id }, words[node.id]))), themeToggle(h('button', { type: 'button', class: 'tool' })))),
    h('main', { class: 'wrap' }, hero(), sections),
    h('footer', null, h('div', { class: 'wrap' }, 'Made by kcc ' + report.provenance.kcc + ' from report.json format ' + report.kccReport + '.')));
  app.hidden = false;
  document.getElementById('static').remove();
  select({});
  if (location.hash) followLink();
  window.addEventListener('hashchange', followLink);
}

start();
