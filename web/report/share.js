// Taking things out of the page: text and pictures into the clipboard, and links that lead back to
// what is selected.

// ---- Markdown

const markdownCell = (text) => visible(String(text)).replace(/\s+/g, ' ').replace(/[\\`*_{}[\]()#+!|~$<>&]/g, '\\$&').replace(/@/g, '@\u200b');

// A table as it stands in the page.
function markdownOfTable(table) {
  const cells = (row) => [...row.cells].map((cell) => markdownCell(cell.textContent));
  const line = (row) => '| ' + cells(row).join(' | ') + ' |';
  const head = table.tHead.rows[0];
  const rule = '|' + [...head.cells].map((cell) => cell.classList.contains('n') ? '--:|' : '---|').join('');
  return [line(head), rule, ...[...table.tBodies[0].rows].map(line)].join('\n') + '\n';
}

// ---- PNG

const PAINT = ['fill', 'fill-opacity', 'stroke', 'stroke-width', 'stroke-dasharray', 'stroke-linecap', 'stroke-linejoin', 'opacity', 'font-family',
  'font-size', 'font-weight', 'text-anchor', 'paint-order'];

// The drawing with every style written into it, on the ground that it stands on.
function standAlone(svg) {
  const clone = svg.cloneNode(true);
  const [, , width, height] = svg.getAttribute('viewBox').split(' ').map(Number);
  const [from, to] = [[svg, ...svg.querySelectorAll('*')], [clone, ...clone.querySelectorAll('*')]];
  from.forEach((node, i) => {
    const style = getComputedStyle(node);
    for (const name of PAINT) to[i].style.setProperty(name, style.getPropertyValue(name));
  });
  fill(clone, { xmlns: SVG, width, height });
  const ground = getComputedStyle(document.documentElement).getPropertyValue('--card').trim();
  clone.prepend(s('rect', { x: 0, y: 0, width, height, fill: ground }));
  return { text: new XMLSerializer().serializeToString(clone), width, height };
}

// A drawing as a PNG at twice its size.
function pngOf(svg) {
  const { text, width, height } = standAlone(svg);
  return new Promise((resolve, reject) => {
    const image = new Image();
    image.onload = () => {
      const canvas = h('canvas', { width: Math.round(width * 2), height: Math.round(height * 2) });
      canvas.getContext('2d').drawImage(image, 0, 0, canvas.width, canvas.height);
      canvas.toBlob((blob) => blob ? resolve(blob) : reject(new Error('no picture')), 'image/png');
    };
    image.onerror = () => reject(new Error('no picture'));
    image.src = 'data:image/svg+xml;charset=utf-8,' + encodeURIComponent(text);
  });
}

// Into the clipboard, or into a file where the browser has no clipboard for pictures.
function pngButton(find, name, label = 'copy PNG', style = 'copy') {
  const button = h('button', { type: 'button', class: style, 'aria-label': 'Copy ' + name + ' as PNG' }, label);
  button.addEventListener('click', async () => {
    const svg = find();
    if (!svg) return;
    try {
      await navigator.clipboard.write([new ClipboardItem({ 'image/png': pngOf(svg) })]);
      answer(button, 'copied');
    } catch {
      const reader = new FileReader();
      reader.onload = () => h('a', { href: reader.result, download: name.replace(/[^A-Za-z0-9._-]+/g, '-') + '.png' }).click();
      try { reader.readAsDataURL(await pngOf(svg)); answer(button, 'saved'); } catch { answer(button, 'not possible here'); }
    }
  });
  return button;
}

// ---- deep links: #clauses/N-1/long-context, #distributions/kl/all, #findings/N-1

const linkTo = (...parts) => '#' + parts.map(encodeURIComponent).join('/');

function keepLink(...parts) {
  try { history.replaceState(null, '', linkTo(...parts)); } catch { /* some viewers forbid it */ }
}

function linkedParts() {
  try { return location.hash.slice(1).split('/').map(decodeURIComponent); } catch { return []; }
}

// Selects what the address names; true if it named something of this report.
function followLink() {
  const [place, first, second] = linkedParts();
  const index = report.clauses.findIndex((clause) => clause.id === first);
  const goTo = (id) => document.getElementById(id).scrollIntoView();
  if (place === 'clauses' && index >= 0) {
    const slice = second === undefined ? report.clauses[index].slices[0].slice : second;
    select({ clause: index, slice });
    goTo('clauses');
  } else if (place === 'findings' && index >= 0 && document.getElementById('finding-' + index)) {
    goTo('finding-' + index);
  } else if ((place === 'distributions' || place === 'worst') && quantities.has(first) && document.getElementById(place)) {
    select(second === undefined ? { quantity: first } : { quantity: first, slice: second });
    goTo(place);
  } else return false;
  return true;
}
