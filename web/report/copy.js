// Buttons that take text into the clipboard.

// Says on the button what became of it, and is itself again after a moment.
function answer(button, text) {
  const label = button.dataset.label || (button.dataset.label = button.textContent);
  button.textContent = text;
  clearTimeout(Number(button.dataset.timer));
  button.dataset.timer = setTimeout(() => { button.textContent = label; }, 1600);
}

async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // A page without the permission still has the old way.
    const area = h('textarea', { class: 'hidden-text' });
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand('copy');
    area.remove();
    return done;
  }
}

function copyButton(text, what, label = 'copy', style = 'copy') {
  const button = h('button', { type: 'button', class: style, 'aria-label': 'Copy the ' + what }, label);
  button.addEventListener('click', async () => {
    answer(button, await copyText(typeof text === 'function' ? text() : text) ? 'copied' : 'press Ctrl+C');
  });
  return button;
}
