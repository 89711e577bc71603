// What every page of kcc is made with: numbers as people read them, and the few functions that make
// elements. Text from the data only ever becomes text nodes and attributes, never markup.

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

const percent = (share) => short(share * 100, 3) + '%';
const plural = (count, word) => grouped(count) + ' ' + word + (count === 1 ? '' : 's');

// Control characters and the marks that reorder text are not shown: a request id must not be able
// to rearrange the sentence it stands in.
const visible = (text) => text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069]/g, '\ufffd');

const SVG = 'http://www.w3.org/2000/svg';

function fill(element, attributes, children = []) {
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

// A number for people; every digit is one hover away.
const exact = (value) => h('span', { title: full(value) }, short(value));

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
