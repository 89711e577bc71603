// The parts of the page: each is made anew from what is known when that has changed.

const ROLE_WORDS = { infer: 'serves while all is well', guard: 'serves in place of a guarded kernel', fallback: 'the safest', candidate: 'what may serve next', audit: 'scores what others served' };

// Moments are told as a time of day, and how long ago is kept up to date by the frame.
const moment = (ms) => h('time', { datetime: new Date(ms).toISOString(), title: new Date(ms).toLocaleString() }, clock(ms, true));
const ago = (ms) => h('span', { 'data-since': ms }, sinceText(ms));
function sinceText(ms) {
  const seconds = Math.max(0, Math.round((now() - ms) / 1000));
  if (seconds < 120) return seconds + ' s';
  if (seconds < 7200) return Math.round(seconds / 60) + ' min';
  return seconds < 172800 ? Math.round(seconds / 3600) + ' h' : Math.round(seconds / 86400) + ' days';
}

// A kernel's place, by word and shape.
function placeOf(kernel) {
  if (kernel.state === 'guarded') return ['guarded', '■', 'violated'];
  if (kernel.name === route().serves) return kernel.state === 'probation' ? ['serves, on probation', '◐', 'inconclusive'] : ['serves', '●', 'satisfied'];
  if (kernel.name === route().canary) return ['serves as canary', '◔', 'inconclusive'];
  if (kernel.state === 'probation') return ['on probation', '◐', 'inconclusive'];
  return isServable(kernel) ? ['ready', '○', 'quiet'] : [kernel.role, '◇', 'quiet'];
}
const place = (kernel) => {
  const [word, shape, tone] = placeOf(kernel);
  return h('span', { class: 'place v-' + tone }, h('i', { 'aria-hidden': 'true' }, shape), word);
};

const verdictMark = (verdict) => h('span', { class: 'mark v-' + verdictOf(verdict) }, glyph(verdictOf(verdict)), verdictOf(verdict));

function heroPart() {
  const [verdict, word, rest] = outcome();
  const status = view.status || {};
  const names = ['contract', 'policy', 'config'].filter((key) => status[key]).map((key) =>
    h('span', null, key + ' ', h('b', { title: status[key].digest }, status[key].name + ' ' + status[key].version)));
  return h('div', { class: 'hero-grid' },
    h('div', { class: 'verdict v-' + verdict }, glyph(verdict), h('div', null,
      h('h1', { 'data-outcome': word.toLowerCase() }, h('span', { class: 't-' + verdict }, word + ': '), rest),
      view.status && route().reason ? h('p', { class: 'headline' }, route().reason) : null,
      warnings().map((text) => h('p', { class: 'warning' }, '▲ ' + text)),
      h('p', { class: 'facts' }, names, status.stage ? h('span', null, 'stage ', h('b', null, status.stage)) : null,
        route().since ? h('span', null, 'this route since ', h('b', null, moment(route().since), ' (', ago(route().since), ')')) : null))),
    view.status ? sharesCard() : null);
}

function sharesCard() {
  const shown = kernels().filter((kernel) => num(kernel.share) > 0 || isServable(kernel) || kernel.name === route().canary);
  const bar = s('svg', { class: 'sharebar', viewBox: '0 0 1000 14', preserveAspectRatio: 'none', 'aria-hidden': 'true' });
  let at = 0;
  for (const kernel of shown) {
    const wide = Math.max(0, num(kernel.share) || 0) * 1000;
    if (wide) bar.append(s('rect', { class: 'band role-' + kernel.role, x: at, y: 0, width: Math.max(0, wide - 3), height: 14 }));
    at += wide;
  }
  return h('div', { class: 'orders' }, h('p', { class: 'label' }, 'Who serves'), bar,
    h('ul', { class: 'shares' }, shown.map((kernel) => h('li', { 'data-share-of': kernel.name }, place(kernel), h('b', null, kernel.name), h('span', { class: 'n' }, percent(num(kernel.share) || 0))))));
}

function riskText(kernel) {
  const risk = num(kernel.health);
  const worst = risk >= num(kernel.eta2) ? 'L3 violated' : risk >= num(kernel.eta1) ? 'L2 violated' : 'below L2';
  return h('span', { title: full(kernel.health) }, short(kernel.health, 3), h('small', null, ' ' + worst));
}

// heads: [text, class]; rows: {head} or lists of cells. On a phone a row is a card, and says its heads.
function cardTable(heads, rows, label) {
  return h('div', { class: 'card flows' }, h('table', { class: 'grid cards', 'aria-label': label },
    h('thead', null, h('tr', null, heads.map(([text, style]) => h('th', { scope: 'col', class: style }, text)))),
    h('tbody', null, rows.map((row) => row.head
      ? h('tr', { class: 'group-row' }, h('th', { scope: 'rowgroup', colspan: heads.length }, row.head))
      : h('tr', row.attributes, row.cells.map((cell, i) => h('td', { class: heads[i][1], 'data-label': heads[i][0] }, cell)))))));
}

// The audit kernel is what others are compared with.
const judged = (kernel) => kernel.role !== 'audit';

function kernelsPart() {
  const heads = [['kernel', 'id'], ['state', null], ['verdict', null], ['risk', 'n'], ['share', 'n'], ['served', 'n'], ['audited', 'n'], ['failed', 'n'], ['order in force', null]];
  const rows = kernels().map((kernel) => ({ attributes: { 'data-kernel': kernel.name }, cells: [
    h('span', null, h('b', null, kernel.name), h('small', null, kernel.role + ', ' + (ROLE_WORDS[kernel.role] || ''))),
    h('span', null, place(kernel), kernel.since ? h('small', null, 'since ', moment(kernel.since)) : null),
    judged(kernel) ? verdictMark(kernel.verdict) : '–', judged(kernel) ? riskText(kernel) : '–', percent(num(kernel.share) || 0), grouped(kernel.served || 0),
    judged(kernel) ? h('span', null, grouped(kernel.audited || 0), h('small', null, ' at ' + percent(num(kernel.auditRate) || 0)),
      kernel.evidenceAtMs ? h('small', { 'data-newest': kernel.name }, ', the newest ', ago(kernel.evidenceAtMs)) : null) : '–',
    grouped((kernel.failed || 0) + (kernel.cut || 0)), orderText(kernel)] }));
  return cardTable(heads, rows, 'Kernels');
}

function orderText(kernel) {
  const strikes = kernel.strikes ? h('small', null, plural(kernel.strikes, 'strike')) : null;
  const probation = kernel.state === 'probation' ? h('small', null, plural(kernel.probationLeft || 0, 'audited request') + ' of probation left') : null;
  const order = kernel.action ? kernel.action + (kernel.target ? ' → ' + kernel.target : '') : 'none';
  return h('span', null, order, probation, strikes);
}

// Recent against limit: a bar that reaches the mark at the limit.
function recentBar(pair) {
  const [recent, limit] = [num(pair.recent), num(pair.limit)];
  const reach = Math.max(limit * 2, recent, 1e-300) || 1;
  const at = (v) => Math.min(1, Math.max(0, v / reach)) * 100;
  return h('span', { class: 'recent' }, h('span', { title: full(pair.recent) + ' of ' + full(pair.limit) }, short(pair.recent, 3) + ' of ' + short(pair.limit, 3)),
    s('svg', { class: 'meter v-' + (recent > limit ? 'inconclusive' : 'satisfied'), viewBox: '0 0 100 10', preserveAspectRatio: 'none', 'aria-hidden': 'true' },
      s('rect', { class: 'ground', x: 0, y: 2, width: 100, height: 6 }), s('rect', { class: 'filled', x: 0, y: 2, width: at(recent), height: 6 }),
      s('rect', { class: 'limit', x: Math.min(98.5, at(limit)), y: 0, width: 1.5, height: 10 })));
}

function levelBar(pair) {
  const level = Math.min(1, Math.max(0, num(pair.level) || 0));
  return h('span', { class: 'recent' }, h('span', null, percent(level)), s('svg', { class: 'meter', viewBox: '0 0 100 10', preserveAspectRatio: 'none', 'aria-hidden': 'true' },
    s('rect', { class: 'ground', x: 0, y: 2, width: 100, height: 6 }), s('rect', { class: 'towards', x: 0, y: 2, width: level * 100, height: 6 })));
}

// The kernel whose clauses are shown: the one chosen, else a guarded one, else the one that serves.
function shownKernel() {
  return kernelNamed(view.kernel) || kernels().find((kernel) => kernel.state === 'guarded') || kernelNamed(route().serves) || kernels()[0];
}

function segments(label, options, chosen, choose) {
  return h('div', { class: 'segments', role: 'group', 'aria-label': label }, options.map(([value, text]) =>
    h('button', { type: 'button', 'aria-pressed': String(value === chosen), 'data-key': label + ':' + value, on: { click: () => { choose(value); refresh(); } } }, text)));
}

function clausesPart() {
  const kernel = shownKernel();
  if (!kernel) return h('p', { class: 'quiet' }, 'No kernel is known.');
  const watched = kernels().filter((one) => judged(one) && listOf(one.pairs).length);
  const all = listOf(kernel.pairs);
  const pairs = view.open ? all.filter((pair) => pair.verdict !== 'satisfied') : all;
  const rows = [];
  for (const id of new Set(pairs.map((pair) => pair.clause))) {
    const own = pairs.filter((pair) => pair.clause === id);
    rows.push({ head: h('span', null, h('b', null, id), [own[0].metric, own[0].clauseLevel].filter(Boolean).map((text) => ' · ' + text).join('')) });
    for (const pair of own) {
      rows.push({ attributes: { 'data-clause': id, 'data-slice': pair.slice }, cells: [
        h('b', null, pair.slice + (pair.ofTrain ? ' (by train’s word)' : '')), verdictMark(pair.verdict), recentBar(pair), levelBar(pair),
        grouped(pair.observations || 0), grouped(pair.alarms || 0), pair.reason || ''] });
    }
  }
  const heads = [['slice', 'id'], ['verdict', null], ['recent, of the limit', null], ['towards an alarm', null], ['observations', 'n'], ['alarms', 'n'], ['why', 'why']];
  return [h('div', { class: 'controls' },
    segments('kernel', watched.map((one) => [one.name, one.name]), kernel.name, (name) => { view.kernel = name; }),
    segments('clauses', [[false, 'all'], [true, 'not satisfied']], view.open, (open) => { view.open = open; })),
  rows.length ? cardTable(heads, rows, 'Clauses of ' + kernel.name) : h('p', { class: 'card all-good' }, view.open && all.length ? 'Every clause is satisfied.' : 'No clause watches this kernel.')];
}

const KIND_WORDS = { alarm: '▲ alarm', proof: '▲ proof', broken: '▲ broken evidence', guard: '■ guarded', recovered: '△ recovered', release: '◐ released', 'probation-end': '● probation over',
  panic: '■ panic', 'panic-end': '● panic over', route: '→ route', start: '→ start', canary: '→ canary', log: '▲ log', promotion: '→ promotion', reload: '↻ reload', stale: '▲ evaluator silent' };

function timelinePart(width) {
  const to = now();
  const first = Math.min(...[...view.risk, ...view.history].map((one) => one.atMs), to - 10000);
  const from = view.span ? Math.max(to - view.span, first) : first;
  return [h('div', { class: 'controls' }, segments('span', [[600000, '10 min'], [3600000, '1 h'], [0, 'all']], view.span, (span) => { view.span = span; })),
    drawTimeline(view.risk, numbered(view.history), from, to, Math.max(300, width - 38)),
    h('p', { class: 'key' }, kernels().filter(isServable).map((kernel) => h('span', null, s('svg', { viewBox: '0 0 26 10', 'aria-hidden': 'true' },
      s('line', { x1: 0, x2: 26, y1: 5, y2: 5, stroke: TONES[kernel.role], 'stroke-width': 2.2, 'stroke-dasharray': DASHES[kernel.role] })), kernel.name)),
    h('span', null, '▲ alarm'), h('span', null, 'numbers: changes of the route, below'))];
}

function changesPart() {
  const listed = numbered(view.history).reverse();
  if (!listed.length) return h('p', { class: 'quiet' }, 'Nothing has changed since the start.');
  const list = h('ol', { class: 'changes' }, listed.slice(0, view.changes).map((change) => h('li', { 'data-kind': change.kind },
    h('span', { class: 'when' }, change.mark ? h('b', { class: 'number' }, String(change.mark)) : null, moment(change.atMs)),
    h('div', null, h('b', null, KIND_WORDS[change.kind] || String(change.kind)), ' ', change.kernel || (change.kind === 'route' ? 'nobody' : ''),
      change.clause ? h('span', { class: 'quiet' }, ` ${change.clause} on ${change.slice}`) : null, h('small', null, change.reason || '')))));
  const more = listed.length > view.changes
    ? h('button', { type: 'button', class: 'more', 'data-key': 'more', on: { click: () => { view.changes += 40; refresh(); } } }, `Show ${Math.min(40, listed.length - view.changes)} more of ${listed.length}`) : null;
  return [list, more];
}

const STAGES = ['offline', 'shadow', 'canary', 'full'];
function promotionPart() {
  const promotion = view.status && view.status.promotion;
  if (!promotion) return h('p', { class: 'card all-good quiet' }, 'No promotion is under way: what serves was promoted before.');
  const at = STAGES.indexOf(promotion.stage);
  const missing = listOf(promotion.missing);
  return h('div', { class: 'card panel' },
    h('h3', null, [promotion.name, promotion.stage].filter(Boolean).join(': ') + (num(promotion.share) > 0 ? ', ' + percent(num(promotion.share)) + ' of sessions' : '')),
    h('ol', { class: 'ladder v-inconclusive stages', 'aria-label': 'Stage: ' + promotion.stage }, STAGES.map((stage, i) =>
      h('li', { class: (i <= at ? 'on' : '') + (i === at ? ' now' : ''), 'aria-current': i === at ? 'step' : null }, (i < at ? '✓ ' : i === at ? '▸ ' : '') + stage))),
    missing.length ? [h('p', { class: 'label' }, 'Missing before it goes on'), h('ul', { class: 'missing' }, missing.map((text) => h('li', null, String(text))))]
      : h('p', { class: 'quiet' }, 'Nothing is missing.'));
}

function incidentsPart() {
  const incidents = listOf(view.status && view.status.incidents);
  if (!incidents.length) return h('p', { class: 'card all-good' }, 'No incident since the start.');
  return h('ol', { class: 'card steps' }, [...incidents].reverse().map((incident) => h('li', { 'data-incident': incident.id },
    h('div', null, h('b', null, incident.kernel || 'incident'), ' at ', moment(incident.atMs), ' ', h('code', null, incident.id)), h('p', { class: 'reason-of' }, incident.reason || ''),
    incident.replayCommand ? h('div', { class: 'command' }, h('code', null, incident.replayCommand), copyButton(visible(incident.replayCommand), 'replay command')) : null)));
}

function trafficPart() {
  const rates = (view.status && view.status.rates) || {};
  const share = (part, whole) => whole > 0 ? percent((part || 0) / whole) : '–';
  const tile = (key, label, value, note, bad) => h('div', { class: 'tile' + (bad ? ' bad' : ''), 'data-rate': key },
    h('span', { class: 'label' }, (bad ? '▲ ' : '') + label), h('b', null, value), h('small', null, note));
  const reasons = Object.entries(rates.reasons || {}).sort((a, b) => b[1] - a[1]);
  return [h('div', { class: 'tiles card' },
    tile('requestsPerSecond', 'requests per second', short(rates.requestsPerSecond, 3), grouped(rates.came || 0) + ' came'),
    tile('sampled', 'sampled', grouped(rates.sampled || 0), share(rates.sampled, rates.came) + ' of all'),
    tile('scored', 'scored', grouped(rates.scored || 0), share(rates.scored, rates.sampled) + ' of the sampled'),
    tile('lost', 'lost', grouped(rates.lost || 0), share(rates.lost, rates.sampled) + ' gave no evidence', rates.lost > 0),
    tile('dropped', 'dropped', grouped(rates.dropped || 0), share(rates.dropped, (rates.sampled || 0) + (rates.dropped || 0)) + ' had no place', rates.dropped > 0),
    rates.unasked ? tile('unasked', 'not asked', grouped(rates.unasked), 'probes and mirrors: evidence of nothing') : null,
    tile('waiting', 'waiting', grouped(rates.waiting || 0), 'to be scored')),
  reasons.length ? cardTable([['why evidence was lost', 'id'], ['requests', 'n']], reasons.map(([reason, count]) => ({ cells: [reason, grouped(count)] })), 'Why evidence was lost') : null];
}
