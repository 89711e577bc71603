// The marks of verdicts, on every page of kcc.

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
