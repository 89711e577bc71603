// The exec protocol for engines that run in Node (docs/exec-protocol.md): one JSON object a line on
// standard input and output, logits by a safetensors file. A kernel gives `serve` what it is (the
// hello's fields) and an engine:
//
//   score(tokens, from)  logits that predict tokens[from], tokens[from + 1], …, one after another
//   start(tokens)        logits that predict the token after them
//   next(token)          the same, one token on
//
// Logits are raw, float32 and complete. Standard output belongs to the protocol: print to standard error.

import fs from "node:fs";
import readline from "node:readline";

const PROTOCOL = 1;

// --name value pairs over defaults; an unknown name is an error, not a default.
export function readOptions(words, defaults) {
  const options = {...defaults};
  for (let i = 0; i < words.length; i += 2) {
    const name = words[i].replace(/^--/, "").replaceAll("-", "_");
    if (!words[i].startsWith("--") || !(name in defaults)) {
      throw new Error(`no option ${words[i]}; there are ${flags(defaults)}`);
    }
    if (i + 1 === words.length) throw new Error(`${words[i]} needs a value`);
    options[name] = typeof defaults[name] === "number" ? Number(words[i + 1]) : words[i + 1];
  }
  for (const [name, value] of Object.entries(options)) {
    if (value === undefined) throw new Error(`--${name.replaceAll("_", "-")} must be given`);
    if (Number.isNaN(value)) throw new Error(`--${name.replaceAll("_", "-")} must be a number`);
  }
  return options;
}

const flags = (defaults) =>
  Object.keys(defaults).map((name) => `--${name.replaceAll("_", "-")}`).join(", ");

function writeSafetensors(path, tensors) {
  const header = {};
  let offset = 0;
  for (const [name, {dtype, shape, data}] of Object.entries(tensors)) {
    header[name] = {dtype, shape, data_offsets: [offset, offset + data.byteLength]};
    offset += data.byteLength;
  }
  let text = JSON.stringify(header);
  text += " ".repeat((64 - ((text.length + 8) % 64)) % 64);
  const size = Buffer.alloc(8);
  size.writeBigUInt64LE(BigInt(text.length));
  const file = fs.openSync(path, "w");
  try {
    for (const part of [size, Buffer.from(text), ...Object.values(tensors).map((t) => bytes(t.data))]) {
      for (let done = 0; done < part.length; ) done += fs.writeSync(file, part, done);
    }
  } finally {
    fs.closeSync(file);
  }
}

const bytes = (data) => Buffer.from(data.buffer, data.byteOffset, data.byteLength);

async function score(engine, vocabSize, message) {
  const rows = message.requests.map((r) => r.tokens.length - r.promptTokens);
  const total = rows.reduce((sum, count) => sum + count, 0);
  const [request, position, token] = [0, 1, 2].map(() => new Int32Array(total));
  const logits = new Float32Array(total * vocabSize);
  let row = 0;
  for (const [index, {tokens, promptTokens}] of message.requests.entries()) {
    logits.set(await engine.score(tokens, promptTokens), row * vocabSize);
    for (let place = promptTokens; place < tokens.length; ++place, ++row) {
      [request[row], position[row], token[row]] = [index, place, tokens[place]];
    }
  }
  const column = (data) => ({dtype: "I32", shape: [total], data});
  writeSafetensors(message.file, {
    request: column(request),
    position: column(position),
    token: column(token),
    logits: {dtype: "F32", shape: [total, vocabSize], data: logits},
  });
  return message.requests.map((r) => r.id);
}

// splitmix64 to a double in [0, 1): one stream a request, whatever the batch.
function randomStream(seed) {
  let state = BigInt(seed);
  return () => {
    state = BigInt.asUintN(64, state + 0x9e3779b97f4a7c15n);
    let z = state;
    z = BigInt.asUintN(64, (z ^ (z >> 30n)) * 0xbf58476d1ce4e5b9n);
    z = BigInt.asUintN(64, (z ^ (z >> 27n)) * 0x94d049bb133111ebn);
    return Number((z ^ (z >> 31n)) >> 11n) / 2 ** 53;
  };
}

// The token drawn and its log-probability before any limit, at the sampling temperature.
function draw(logits, {temperature, topK, topP}, random) {
  const scale = temperature > 0 ? temperature : 1;
  const order = Array.from(logits.keys()).sort((a, b) => logits[b] - logits[a] || a - b);
  const top = logits[order[0]];
  const weights = order.map((token) => Math.exp((logits[token] - top) / scale));
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  const logprob = (rank) => Math.log(weights[rank] / total);
  if (temperature === 0) return {token: order[0], logprob: logprob(0)};
  let kept = topK > 0 ? Math.min(topK, order.length) : order.length;
  let mass = weights.slice(0, kept).reduce((sum, weight) => sum + weight, 0);
  for (let rank = 0, sum = 0; topP < 1 && rank < kept; ++rank) {
    sum += weights[rank];
    if (sum >= topP * mass) [kept, mass] = [rank + 1, sum];
  }
  let left = random() * mass;
  let rank = 0;
  while (rank + 1 < kept && left >= weights[rank]) left -= weights[rank++];
  return {token: order[rank], logprob: logprob(rank)};
}

async function generate(engine, message) {
  const answers = [];
  for (const request of message.requests) {
    const random = randomStream(request.seed);
    const began = performance.now();
    let ttftMs = 0;
    const [tokens, logprobs] = [[], []];
    let logits = await engine.start(request.tokens);
    while (tokens.length < message.sampling.outputTokensMax) {
      const {token, logprob} = draw(logits, message.sampling, random);
      if (tokens.length === 0) ttftMs = performance.now() - began;
      tokens.push(token);
      logprobs.push(logprob);
      if (message.sampling.stop.includes(token)) break;
      if (tokens.length < message.sampling.outputTokensMax) logits = await engine.next(token);
    }
    answers.push({id: request.id, tokens, logprobs, latencyMs: performance.now() - began, ttftMs});
  }
  return answers;
}

export async function serve(hello, engine) {
  const say = (answer) => process.stdout.write(JSON.stringify(answer) + "\n");
  for await (const line of readline.createInterface({input: process.stdin})) {
    const message = JSON.parse(line);
    const about = {batch: message.batch, fingerprint: hello.fingerprint};
    try {
      const began = performance.now();
      if (message.type === "bye") break;
      if (message.type === "hello") {
        say({type: "hello", protocol: PROTOCOL, evidence: "logits", semantics: "raw", generates: true, ...hello});
      } else if (message.type === "score") {
        const requests = await score(engine, hello.vocabSize, message);
        say({type: "scored", ...about, requests, engineMs: performance.now() - began});
      } else if (message.type === "generate") {
        const requests = await generate(engine, message);
        say({type: "generated", ...about, requests, engineMs: performance.now() - began});
      } else {
        say({type: "error", message: `no message ${message.type} in version ${PROTOCOL}`});
      }
    } catch (error) {
      say({type: "error", message: String(error.message ?? error)});
    }
  }
}
