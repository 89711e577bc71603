// llama.cpp's own prefill and decode throughput on a GGUF file, as JSON: tokens per second, best of
// the rounds, from llama.cpp's performance counters (no JavaScript in the times).
//
//   node adapters/llamacpp/bench.mjs model.gguf PROMPT_TOKENS OUTPUT_TOKENS THREADS

import path from "node:path";
import {LlamaLogLevel, getLlama} from "node-llama-cpp";

const [file, promptText, outputText, threadText] = process.argv.slice(2);
const [promptTokens, outputTokens, threads] = [promptText, outputText, threadText].map(Number);
const ROUNDS = 3;
let log = "";

// "prompt eval time = 12.34 ms / 512 tokens" and "eval time = 45.6 ms / 127 runs".
function perSecond(pattern) {
  const match = pattern.exec(log);
  return match === null ? 0 : (1000 * Number(match[2])) / Number(match[1]);
}

const llama = await getLlama({
  build: "never", gpu: false, skipDownload: true, maxThreads: threads,
  logLevel: LlamaLogLevel.debug, logger: (level, text) => (log += text + "\n"),
});
const model = await llama.loadModel({modelPath: path.resolve(file)});
const best = {prefill: 0, decode: 0};
const prompt = Array.from({length: promptTokens}, (_, i) => (i * 7919 + 13) % 256);
for (let round = 0; round < ROUNDS; ++round) {
  const context = await model.createContext({
    contextSize: promptTokens + outputTokens + 16, batchSize: promptTokens, threads,
    performanceTracking: true,
  });
  const sequence = context.getSequence();
  let count = 0;
  for await (const _ of sequence.evaluate(prompt, {temperature: 0, yieldEogToken: true})) {
    if (++count > outputTokens) break;
  }
  log = "";
  await context.printTimings();
  best.prefill = Math.max(best.prefill, perSecond(/prompt eval time\s*=\s*([\d.]+) ms \/\s*(\d+) tokens/));
  best.decode = Math.max(best.decode, perSecond(/ eval time\s*=\s*([\d.]+) ms \/\s*(\d+) runs/));
  await context.dispose();
}
console.log(JSON.stringify(best));
await llama.dispose();
