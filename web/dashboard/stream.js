// What the page hears from the gateway (docs/gateway-api.md): one status, then events. The stream is
// read by fetch and not by EventSource, which cannot send a token.

const SILENCE_MS_MAX = 15000;  // the gateway says something every 5 s
const EVENT_CHARS_MAX = 16 << 20;

const tokenKey = 'kcc-gateway-token';
let token = '';
try { token = sessionStorage.getItem(tokenKey) || ''; } catch { /* asked for again after a reload */ }

function keepToken(text) {
  token = text;
  try { sessionStorage.setItem(tokenKey, text); } catch { /* lasts for this visit */ }
}

class TokenAsked extends Error {}

async function ask(path, accept, signal) {
  const headers = { Accept: accept };
  if (token) headers.Authorization = 'Bearer ' + token;
  const answer = await fetch(path, { headers, signal, cache: 'no-store', redirect: 'error' });
  if (answer.status === 401 || answer.status === 403) throw new TokenAsked('the token is missing or wrong');
  if (!answer.ok) throw new Error('the gateway answered ' + answer.status);
  return answer;
}

// Calls `take` with the name and the data of every event, until the stream ends.
async function readEvents(body, take) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    text = (text + value).replace(/\r\n?/g, '\n');
    if (text.length > EVENT_CHARS_MAX) throw new Error('an event is too long');
    for (let end = text.indexOf('\n\n'); end >= 0; end = text.indexOf('\n\n')) {
      takeEvent(text.slice(0, end), take);
      text = text.slice(end + 2);
    }
  }
}

function takeEvent(block, take) {
  let name = 'message';
  const data = [];
  for (const line of block.split('\n')) {
    const [, field, value] = /^([^:]*)(?:: ?(.*))?$/.exec(line) || [];
    if (field === 'event') name = value;
    if (field === 'data') data.push(value || '');
  }
  take(name, data.length ? JSON.parse(data.join('\n')) : null);
}

// Follows the gateway for as long as the page is open. `on.heard(name, data)`: an event, or the first
// status; `on.lost(error)`: nothing is heard any more, and it is tried again. Returns a function that
// tries at once.
function followGateway(on) {
  let heardAt = 0;
  let abort = new AbortController();
  let wake = () => {};
  const heard = (name, data) => {
    heardAt = performance.now();
    if (data) on.heard(name, data);
  };
  setInterval(() => {
    if (heardAt && performance.now() - heardAt > SILENCE_MS_MAX) abort.abort();
  }, 1000);
  const once = async () => {
    abort = new AbortController();
    heardAt = performance.now();
    heard('status', await (await ask('v1/status', 'application/json', abort.signal)).json());
    const stream = await ask('v1/events', 'text/event-stream', abort.signal);
    await readEvents(stream.body, heard);
    throw new Error('the gateway ended the connection');
  };
  (async () => {
    for (let wait = 500;;) {
      const began = performance.now();
      try {
        await once();
      } catch (error) {
        heardAt = 0;
        abort.abort();
        on.lost(error);
        if (performance.now() - began > 30000) wait = 500;
        const held = error instanceof TokenAsked ? 2 ** 30 : wait;
        await new Promise((resolve) => { wake = resolve; setTimeout(resolve, held); });
        wait = Math.min(wait * 2, 8000);
      }
    }
  })();
  return () => wake();
}
