// The frame of the page: which parts there are, when they are drawn, and what is said when nothing
// is heard. Text from the gateway only ever becomes text nodes and attributes (report/elements.js).

const app = document.getElementById('app');
const PARTS = [
  ['kernels', 'Kernels', 'Which kernel serves what share, and what was ordered.', kernelsPart],
  ['clauses', 'Clauses', 'Each clause on each slice, on the evidence of one kernel since its last alarm.', clausesPart],
  ['risk', 'Risk', 'Over time, with every change of the route and why. Below the line L2, no clause of level L2 or L3 is violated.', null],
  ['promotion', 'Promotion', 'The stage of the change that is under way, and what it still has to show.', promotionPart],
  ['incidents', 'Incidents', 'What went wrong, and the command that runs it again.', incidentsPart],
  ['traffic', 'Traffic', 'What came, what of it was looked at, and what was lost on the way. Nothing becomes satisfied by evidence that is lost.', trafficPart],
];

const bodies = new Map();
const drawn = new Map();

// Puts nodes in the place of those that are there, if they differ; what had the focus keeps it.
function replace(body, key, nodes) {
  const fresh = h('div', null, nodes);
  const text = fresh.innerHTML;
  if (drawn.get(key) === text) return;
  drawn.set(key, text);
  const focused = body.contains(document.activeElement) ? document.activeElement.dataset.key : null;
  body.replaceChildren(...fresh.childNodes);
  if (focused) {
    const again = [...body.querySelectorAll('[data-key]')].find((node) => node.dataset.key === focused);
    if (again) again.focus({ preventScroll: true });
  }
}

function refresh() {
  const [, word] = outcome();
  document.title = word + (view.status && view.status.config ? ' · ' + visible(view.status.config.name) : '') + ' · kcc gateway';
  document.body.classList.toggle('stale', view.lost !== null);
  replace(bodies.get('hero'), 'hero', heroPart());
  const said = outcome().slice(1).join(': ');
  if (bodies.get('said').textContent !== said) bodies.get('said').textContent = said;
  const live = bodies.get('live');
  const text = view.lost ? '▲ not connected' : view.status ? '● live' : '○ connecting';
  if (live.textContent !== text) live.textContent = text;
  live.dataset.state = view.lost ? 'lost' : view.status ? 'live' : 'connecting';
  if (!view.status) return;
  for (const [id, , , draw] of PARTS) {
    const body = bodies.get(id);
    if (draw) replace(body, id, draw());
  }
  replace(bodies.get('timeline'), 'timeline', timelinePart(bodies.get('risk').clientWidth));
  replace(bodies.get('changes'), 'changes', changesPart());
  bodies.get('sections').hidden = false;
  replace(bodies.get('foot'), 'foot', footPart());
}

function footPart() {
  const status = view.status;
  return [h('p', null, ['contract', 'policy', 'config'].filter((key) => status[key]).map((key) => h('span', { class: 'digest' }, key + ' ', h('code', null, status[key].digest || ''), ' '))),
    h('p', null, 'kcc ' + (status.kcc || ''), status.url ? ' · clients ask ' + status.url : '', status.store ? ' · of requests it stores: ' + status.store : '')];
}

// ---- nothing is heard

function sayLost(error) {
  const banner = bodies.get('banner');
  const asked = error instanceof TokenAsked;
  const about = asked ? 'token ' + token : error.message + (view.status ? view.status.atMs : '');
  if (!banner.hidden && banner.about === about) return;
  banner.about = about;
  banner.hidden = false;
  if (asked) {
    const field = h('input', { type: 'password', id: 'token', autocomplete: 'off', spellcheck: 'false', required: true });
    banner.replaceChildren(h('form', { on: { submit: (event) => { event.preventDefault(); keepToken(field.value.trim()); retry(); } } },
      h('label', { for: 'token' }, token ? 'The gateway does not take this token. Its token:' : 'The gateway asks for its token:'), field, h('button', { class: 'tool', type: 'submit' }, 'Show')));
    field.focus();
    return;
  }
  const since = view.status ? [' What you see is of ', moment(view.status.atMs), '.'] : null;
  banner.replaceChildren(h('p', null, h('b', null, 'Connection lost. '), 'Nothing is heard from the gateway: ' + error.message + '.', since, ' It is tried again.'),
    h('button', { type: 'button', class: 'tool', on: { click: () => retry() } }, 'Try now'));
}

let retry = () => {};

// ---- the frame

function start() {
  const part = (key, node) => { bodies.set(key, node); return node; };
  const sections = PARTS.map(([id, title, explained]) => h('section', { id, tabindex: -1 },
    h('header', null, h('div', null, h('h2', null, title), h('p', null, explained))), part(id, h('div', { class: 'part' }))));
  bodies.get('risk').append(h('figure', { class: 'panel card' }, part('timeline', h('div')), part('changes', h('div'))));
  app.append(
    h('div', { class: 'bar' }, h('div', { class: 'wrap' }, h('div', { class: 'brand' }, 'kcc ', h('span', null, 'gateway')),
      h('nav', { 'aria-label': 'Sections' }, PARTS.map(([id, title]) => h('a', { href: '#' + id }, title))),
      part('live', h('span', { class: 'live' })), themeToggle(h('button', { type: 'button', class: 'tool' })))),
    part('said', h('p', { class: 'hidden-text', role: 'status' })),
    part('banner', h('div', { class: 'banner wrap', role: 'alert', hidden: true })),
    h('main', { class: 'wrap' }, part('hero', h('div', { class: 'hero' })), part('sections', h('div', { hidden: true }, sections))),
    h('footer', null, part('foot', h('div', { class: 'wrap' }))));
  refresh();
  let waiting = false;
  const soon = () => {  // many events, one drawing
    if (waiting) return;
    waiting = true;
    setTimeout(() => { waiting = false; refresh(); }, 100);
  };
  let width = 0;
  new ResizeObserver(() => {
    if (Math.abs(bodies.get('risk').clientWidth - width) < 2) return;
    width = bodies.get('risk').clientWidth;
    soon();
  }).observe(bodies.get('risk'));
  setInterval(() => {
    for (const node of document.querySelectorAll('[data-since]')) node.textContent = sinceText(Number(node.dataset.since));
  }, 1000);
  retry = followGateway({
    heard: (name, data) => {
      if (name === 'status') takeStatus(data);
      else if (name === 'change') takeChange(data);
      bodies.get('banner').hidden = true;
      soon();
    },
    lost: (error) => {
      view.lost = error;
      sayLost(error);
      soon();
    },
  });
}

start();
