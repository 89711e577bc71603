// What is known of the gateway, and what it comes to in one sentence.

const SAMPLES_MAX = 720;
const CHANGES_MAX = 500;

const view = {
  status: null,      // the last one
  receivedAt: 0,     // performance.now() then
  lost: null,        // why nothing is heard; null: all is well
  history: [], risk: [],
  kernel: null,      // whose clauses are shown; null: the one that matters most
  open: false,       // clauses that are not satisfied alone
  span: 600000,      // of the chart; 0: all
  changes: 8,        // that are listed
};

// The gateway's clock: the browser's may be another.
const now = () => view.status ? view.status.atMs + (performance.now() - view.receivedAt) : Date.now();
const listOf = (value) => Array.isArray(value) ? value : [];
const kernels = () => listOf(view.status && view.status.kernels);
const kernelNamed = (name) => kernels().find((kernel) => kernel.name === name);
const route = () => (view.status && view.status.route) || {};
const isServable = (kernel) => ['infer', 'guard', 'fallback'].includes(kernel.role);
const VERDICTS = ['violated', 'error', 'inconclusive', 'satisfied'];
const verdictOf = (text) => VERDICTS.includes(text) ? text : 'inconclusive';

function levelOf(kernel) {
  return listOf(kernel.pairs).reduce((highest, pair) => Math.max(highest, num(pair.level) || 0), 0);
}

function takeStatus(status) {
  view.status = status;
  view.receivedAt = performance.now();
  view.lost = null;
  if (Array.isArray(status.history)) view.history = status.history.slice(-CHANGES_MAX);
  if (Array.isArray(status.risk)) view.risk = status.risk.slice(-SAMPLES_MAX);
  const last = view.risk.at(-1);
  if (last && status.atMs - last.atMs < 1000) return;
  view.risk.push({ atMs: status.atMs, serves: route().serves || '',
    kernels: kernels().map((kernel) => ({ name: kernel.name, health: kernel.health, level: levelOf(kernel) })) });
  if (view.risk.length > SAMPLES_MAX) view.risk.shift();
}

function takeChange(change) {
  const known = view.history.slice(-20).some((one) => ['atMs', 'kind', 'kernel', 'clause', 'slice', 'reason'].every((key) => one[key] === change[key]));
  if (!known) view.history.push(change);
  if (view.history.length > CHANGES_MAX) view.history.shift();
}

const andList = (names) => names.length < 2 ? names.join('') : names.slice(0, -1).join(', ') + ' and ' + names.at(-1);

// [verdict to colour it by, the first word, the rest]. Healthy is said of nothing but satisfied
// clauses of the kernel that serves, with nobody guarded.
function outcome() {
  if (!view.status) return ['inconclusive', 'Not known', view.lost ? 'the gateway does not answer.' : 'nothing was heard from the gateway yet.'];
  if (view.lost) return ['inconclusive', 'Not known', 'nothing is heard from the gateway any more.'];
  const serving = kernelNamed(route().serves);
  if (!serving) return ['violated', 'Refusing requests', 'no kernel may serve.'];
  if (route().panic) return ['violated', 'Panic', `every kernel that could serve is bad, and ${serving.name} serves as the least bad.`];
  const guarded = kernels().filter((kernel) => kernel.state === 'guarded' && isServable(kernel)).map((kernel) => kernel.name);
  const pairs = listOf(serving.pairs);
  // The gateway serves on without its evaluator, but then nobody judges.
  const judged = ((view.status.evaluator || {}).state || 'running') === 'running';
  if (!judged) return ['error', 'Not judged', `${serving.name} serves as it did last, and the evaluator ${view.status.evaluator.state === 'log-failed' ? 'cannot write its log' : 'is silent'}.`];
  const broken = ['violated', 'error'].find((verdict) => serving.verdict === verdict);
  if (broken) return [broken, broken === 'error' ? 'Broken evidence' : 'Violated', `${serving.name} serves, and ${broken === 'error' ? 'its evidence contradicts itself' : 'a clause of it is violated'}.`];
  if (guarded.length) return [serving.role === 'fallback' ? 'violated' : 'inconclusive', serving.role === 'fallback' ? 'Fallback' : 'Guarded', `${serving.name} serves in place of ${andList(guarded)}.`];
  if (serving.state === 'probation') return ['inconclusive', 'On probation', `${serving.name} serves again, and is watched for ${plural(serving.probationLeft || 0, 'more request')}.`];
  if (serving.stale) return ['inconclusive', 'No evidence', `${serving.name} serves, and nobody knows how it does now: ${serving.stale}.`];
  if (serving.verdict === 'satisfied') return ['satisfied', 'Healthy', `${serving.name} serves, and every clause is satisfied.`];
  const open = pairs.filter((pair) => pair.verdict !== 'satisfied').length;
  return ['inconclusive', 'No alarm', `${serving.name} serves; ${open} of ${plural(pairs.length, 'clause')} on slices ${open === 1 ? 'is' : 'are'} not decided yet.`];
}

// What a person should know besides: evidence that goes missing makes every verdict weaker.
function warnings() {
  const rates = (view.status && view.status.rates) || {};
  const missing = (rates.lost || 0) + (rates.dropped || 0);
  const picked = (rates.sampled || 0) + (rates.dropped || 0);
  const found = [];
  if (picked > 0 && missing / picked > 0.01) {
    found.push(`${percent(missing / picked)} of the sampled requests gave no evidence (Traffic says why).`);
  }
  for (const kernel of kernels()) {
    if (kernel.stale && kernel.name !== route().serves) found.push(`${kernel.name} has no verdict now: ${kernel.stale}.`);
    if (kernel.strangers > 0) found.push(`${plural(kernel.strangers, 'answer')} of ${kernel.name} carried another fingerprint than the registered one.`);
  }
  return found;
}
