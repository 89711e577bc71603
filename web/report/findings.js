// What the report says first: the verdict, the two kernels and the worst slice; then what is not
// satisfied, clause by clause, and the commands that lead on.

const CLAUSES_SHOWN = 6;
const SLICES_SHOWN = 5;

const wheres = new Map((report.slices || []).map((slice) => [slice.name, slice.where]));
const whereText = (name) => name === 'all' && !wheres.get(name) ? 'every request' : wheres.get(name) || '';
// "2.9×"; what is hardly beyond its limit still reads as beyond.
function timesText(severity) {
  const x = num(severity);
  if (x === Infinity) return 'beyond 0';
  return short(x > 1 && x < 1.095 ? Math.ceil(x * 100) / 100 : Math.round(x * 10) / 10) + '×';
}

// ---- verdict

const measured = report.clauses.some((clause) => clause.slices.some((slice) => slice.interval || slice.exceedance));
const verdictWord = report.verdict[0].toUpperCase() + report.verdict.slice(1);

function kernelsLine() {
  const { train, infer } = report.provenance;
  const kernel = (word, side) => h('span', null, word + ' ', h('b', { title: side.fingerprint || null }, side.name || side.fingerprint || 'unnamed'));
  return h('p', { class: 'kernels' }, kernel('inference kernel', infer), ' against ', kernel('training kernel', train));
}

function worstLine() {
  const worst = report.worstPair;
  if (!worst) return null;
  const index = report.clauses.findIndex((clause) => clause.id === worst.clause);
  return h('p', { class: 'headline' }, worst.text, ' ',
    h('a', { href: linkTo('clauses', worst.clause, worst.slice), on: { click: (event) => { event.preventDefault(); showPair(index, worst.slice); } } }, 'See it'));
}

function orders() {
  const now = ACTIONS.indexOf(report.action);
  return h('div', { class: 'orders' },
    h('span', { class: 'label' }, 'Action'),
    h('ol', { class: 'ladder', 'aria-label': 'Action: ' + report.action },
      ACTIONS.map((action, i) => h('li', { class: (i <= now ? 'on ' : '') + (i === now ? 'now' : ''), 'aria-current': i === now ? 'true' : null }, action))),
    report.actionMeaning ? h('p', { class: 'meaning' }, h('b', null, report.action === 'none' ? 'No action' : report.action), ': ' + report.actionMeaning + '.') : null,
    h('div', { class: 'health' },
      h('div', { class: 'health-line' }, h('span', { class: 'label' }, 'Risk (0 is good)'), h('b', { id: 'health', title: full(report.health) }, measured ? short(report.health) : 'not measured')),
      drawRisk(320),
      h('p', null, measured ? report.healthText : 'no clause has a value, so a risk of 0 would say nothing')));
}

function hero() {
  const totals = report.totals.pairs;
  const all = VERDICTS.reduce((sum, verdict) => sum + totals[verdict], 0);
  const worst = worstLine();
  return h('div', { class: 'hero v-' + report.verdict, id: 'verdict' },
    h('div', { class: 'hero-grid' },
      h('div', null,
        h('div', { class: 'verdict' }, glyph(report.verdict),
          h('div', null,
            h('h1', { class: 't-' + report.verdict }, verdictWord),
            h('p', { class: 'name' }, h('b', null, report.contract.name), ' ', report.contract.version))),
        kernelsLine(), worst,
        h('p', { class: worst ? 'tally' : 'headline' }, report.headline),
        (report.warnings || []).map((warning) => h('p', { class: 'warning' }, h('b', null, 'Warning: '), warning)),
        h('p', { class: 'facts' },
          h('span', null, report.convergent ? 'the pair is ' : 'the pair is not ', h('b', null, 'C-convergent')),
          h('span', null, 'about ', h('b', null, report.about)),
          h('span', null, 'stage ', h('b', null, report.stage)),
          h('span', null, 'confidence ', h('b', null, percent(num(report.confidence)))),
          h('span', null, h('b', null, grouped(report.provenance.requests)), ' requests'),
          h('span', null, 'evidence ', h('b', null, report.provenance.evidence))),
        h('div', { class: 'totals' },
          h('div', { class: 'stack', 'aria-hidden': 'true' },
            VERDICTS.filter((verdict) => totals[verdict]).map((verdict) => h('i', { class: 'v-' + verdict, style: `flex:${totals[verdict]}` }))),
          h('ul', null, VERDICTS.map((verdict) => h('li', { 'data-total': verdict }, glyph(verdict), h('span', null, h('b', null, grouped(totals[verdict])), ' ' + verdict))),
            h('li', null, h('span', null, 'of ', h('b', null, grouped(all)), ' clause–slice pairs')))),
        h('div', { class: 'share' },
          report.markdown ? copyButton(report.markdown, 'report as Markdown', 'Copy as Markdown', 'tool') : null,
          pngButton(verdictPicture, 'the verdict', 'Copy as PNG', 'tool'))),
      orders()));
}

// The verdict as one picture for a chat: what the top of the page says, without the page.
function verdictPicture() {
  const width = 860;
  const wrap = (text, columns) => {
    const lines = [''];
    for (const word of visible(text).split(' ')) {
      if ((lines.at(-1) + ' ' + word).length > columns && lines.at(-1)) lines.push('');
      lines[lines.length - 1] += (lines.at(-1) ? ' ' : '') + word;
    }
    return lines.map((line) => line.length > columns ? line.slice(0, columns - 1) + '…' : line);
  };
  const { train, infer } = report.provenance;
  const said = wrap((report.worstPair || {}).text || report.headline, 100);
  const rows = groupedFindings().flatMap(({ clause, pairs }) => pairs.map((slice) => ({ clause, slice }))).slice(0, 6);
  const text = (x, y, size, string, style = '') => s('text', { x, y, 'font-size': size, style: 'fill:var(--ink);font-family:var(--sans);' + style }, string);
  const parts = [
    text(24, 46, 26, verdictWord, `font-weight:680;fill:var(--${report.verdict})`),
    text(24, 72, 14, wrap(report.contract.name + ' ' + report.contract.version, 100)[0], 'fill:var(--soft)'),
    text(24, 92, 14, wrap((infer.name || infer.fingerprint) + ' against ' + (train.name || train.fingerprint), 110)[0], 'fill:var(--soft)'),
    ...said.map((line, i) => text(24, 120 + 20 * i, 15, line))];
  let y = 120 + 20 * said.length + 14;
  for (const { clause, slice } of rows) {
    const bullet = drawBullet(clause, slice, 240, bulletRange(clause));
    fill(bullet, { x: width - 264, y: y - 22, width: 240, height: 46 });
    parts.push(text(24, y, 14, wrap(clause.id + ' on ' + slice.slice, 40)[0], 'font-weight:620'),
      text(330, y, 14, intervalText(slice.interval) + ' against ' + boundText(clause, slice, short)),
      text(24, y + 17, 12, wrap(clause.metric + ', ' + slice.verdict + (slice.verdict === 'violated' && slice.severity ? ', ' + timesText(slice.severity) : ''), 60)[0], 'fill:var(--soft)'), bullet);
    y += 52;
  }
  // Styles are read from the page, so the picture has to stand in it for a moment.
  const picture = s('svg', { viewBox: `0 0 ${width} ${y}`, class: 'hidden-text', width, height: y }, parts);
  document.body.append(picture);
  setTimeout(() => picture.remove(), 2000);
  return picture;
}

// ---- findings

const rankOf = (clause, slice) => VERDICTS.indexOf(slice.verdict) * 10 - Number(clause.level[1]);

// The clauses that are not satisfied, the most severe first, each with its open slices, worst first.
function groupedFindings() {
  const groups = [];
  report.clauses.forEach((clause, index) => {
    const beyond = (slice) => num(slice.severity) || 0;
    const pairs = clause.slices.filter((slice) => slice.verdict !== 'satisfied')
      .sort((a, b) => rankOf(clause, a) - rankOf(clause, b) || beyond(b) - beyond(a));
    if (pairs.length) groups.push({ clause, index, pairs });
  });
  return groups.sort((a, b) => rankOf(a.clause, a.pairs[0]) - rankOf(b.clause, b.pairs[0]));
}

function findingPair(clause, index, slice, range) {
  const advice = [];
  if (slice.smallestPassing !== null) advice.push('would pass at ' + passing(clause, slice.smallestPassing));
  if (slice.smallestBudget !== null) advice.push((advice.length ? 'or ' : 'would pass ') + 'with a budget of ' + percent(num(slice.smallestBudget)));
  const where = whereText(slice.slice);
  const beyond = slice.verdict === 'violated' && num(slice.severity) >= 1;
  return h('li', { class: 'pair v-' + slice.verdict }, glyph(slice.verdict),
    h('div', { class: 'where' },
      h('a', { href: linkTo('clauses', clause.id, slice.slice), on: { click: (event) => { event.preventDefault(); showPair(index, slice.slice); } } }, slice.slice),
      where ? h('code', null, where) : null, h('small', null, slice.verdict)),
    h('div', { class: 'why' }, slice.reason, advice.length ? h('small', null, advice.join(', ')) : null),
    h('div', { class: 'gauge' }, drawBullet(clause, slice, 210, range)),
    h('b', { class: 'times', title: beyond ? full(slice.severity) + ' times its limit' : null }, beyond ? timesText(slice.severity) : ''));
}

function findingGroup({ clause, index, pairs }, shown) {
  const range = bulletRange(clause);
  const list = h('ul', null, pairs.slice(0, shown).map((slice) => findingPair(clause, index, slice, range)));
  const label = labels.get(clause.quantity);
  const group = h('li', { class: 'group', id: 'finding-' + index },
    h('div', { class: 'group-head' },
      h('h3', null, h('a', { href: linkTo('findings', clause.id), class: 'anchor' }, clause.id), ' ', h('span', null, clause.metric + ' ' + boundText(clause, pairs[0], short))),
      h('small', null, clause.level + ' · ' + clause.action + (clause.hard ? ' · hard' : ' · soft') + (label && label.unit ? ' · ' + inUnit(label.unit) : ''))),
    clause.why ? h('p', { class: 'reason-of' }, h('b', null, 'Why the contract asks: '), clause.why) : null, list);
  if (pairs.length > shown) {
    const more = h('button', { type: 'button', class: 'more slices-more' }, 'Show ' + plural(pairs.length - shown, 'more slice') + ' of ' + clause.id);
    more.addEventListener('click', () => { list.append(...pairs.slice(shown).map((slice) => findingPair(clause, index, slice, range))); more.remove(); });
    group.append(more);
  }
  return group;
}

function findings() {
  const groups = groupedFindings();
  if (!groups.length) return null;
  const list = h('ul', { class: 'findings' }, groups.slice(0, CLAUSES_SHOWN).map((group) => findingGroup(group, SLICES_SHOWN)));
  const box = h('div', { class: 'card flows' }, list);
  const all = groups.reduce((sum, group) => sum + group.pairs.length, 0);
  if (groups.length > CLAUSES_SHOWN || groups.some((group) => group.pairs.length > SLICES_SHOWN)) {
    const more = h('button', { type: 'button', class: 'more' }, 'Show all ' + plural(all, 'finding'));
    const rest = () => { if (more.isConnected) { list.replaceChildren(...groups.map((group) => findingGroup(group, Infinity))); more.remove(); } };
    more.addEventListener('click', rest);
    window.addEventListener('beforeprint', rest);
    box.append(more);
  }
  return section('findings', 'What is not satisfied', 'By clause, the most severe first. The bars of a clause share one scale.', box);
}

// ---- what now

// The page knows where it lies, if it is a file: there the attribution's page belongs.
function commandHere(step) {
  if (step.name !== 'attribute' || location.protocol !== 'file:') return step.command;
  const page = decodeURIComponent(location.pathname).replace(/[^/]*$/, 'attribution.html');
  const quoted = /^[\w./:=,+@%-]+$/.test(page) ? page : "'" + page.replace(/'/g, "'\\''") + "'";
  return step.command.replace(/ -o attribution\.html$/, () => ' -o ' + quoted);
}

function nextSection() {
  const steps = report.next || [];
  if (!steps.length) return null;
  return section('next', 'What to do next', 'Each command answers the question above it. Run it where the report was made.',
    h('ol', { class: 'card steps' }, steps.map((step) => {
      const command = commandHere(step);
      return h('li', { 'data-step': step.name }, h('p', null, step.question),
        h('div', { class: 'command' }, h('code', null, command), copyButton(command, 'command of ' + step.name)),
        step.name === 'attribute' ? h('p', { class: 'quiet' }, 'Then open ', h('a', { href: 'attribution.html' }, 'attribution.html'), ', which it puts beside this page.') : null);
    })));
}
