'use strict';
// The choice between the light and the dark theme, remembered for all pages of kcc.
function themeToggle(button) {
  const root = document.documentElement;
  const dark = matchMedia('(prefers-color-scheme: dark)');
  let chosen = null;
  try { chosen = localStorage.getItem('kcc-theme'); } catch { /* a file page may have no storage */ }
  const apply = () => {
    const theme = chosen === 'dark' || chosen === 'light' ? chosen : dark.matches ? 'dark' : 'light';
    root.dataset.theme = theme;
    button.textContent = theme === 'dark' ? 'Light' : 'Dark';
    button.setAttribute('aria-label', 'Switch to the ' + (theme === 'dark' ? 'light' : 'dark') + ' theme');
  };
  button.addEventListener('click', () => {
    chosen = root.dataset.theme === 'dark' ? 'light' : 'dark';
    try { localStorage.setItem('kcc-theme', chosen); } catch { /* lasts for this visit */ }
    apply();
  });
  dark.addEventListener('change', apply);
  apply();
  return button;
}
