// llama.cpp as a kernel, through the npm package node-llama-cpp.
//
//   exec:node adapters/llamacpp/kernel.mjs --model model.gguf --kv f16 --flash-attention on
//
// What is chosen here is what changes a logit: the file's weight type, the type of the KV cache,
// flash attention, and the CPU variant of the matrix kernels (haswell, icelake, zen4 …), which llama.cpp
// otherwise picks by the machine it finds itself on. One thread and one sequence: two runs are equal.

import {createHash} from "node:crypto";
import fs from "node:fs";
import {createRequire} from "node:module";
import os from "node:os";
import path from "node:path";
import {getBinsDir} from "@node-llama-cpp/linux-x64";
import {GgmlType, LlamaLogLevel, getLlama} from "node-llama-cpp";
import {readOptions, serve} from "../protocol.mjs";

const PACKAGE = "3.22.1";

const DEFAULTS = {
  model: undefined,
  kv: "f16", // f32, f16, bf16, q8_0 … (the engine's default is f16)
  flash_attention: "off",
  cpu: "best", // or the variant's name
  context: 8448, // tokens, prompt and continuation together
  batch: 512, // tokens a prefill step
};
let options;

// llama.cpp loads the best variant of a directory: give it a directory with one.
function loadVariant(name) {
  const bins = path.join(getBinsDir().binsDir, "linux-x64");
  const library = `libggml-cpu-${name}.so`;
  if (!fs.existsSync(path.join(bins, library))) {
    const names = fs.readdirSync(bins).map((file) => /^libggml-cpu-(.*)\.so$/.exec(file)?.[1]);
    throw new Error(`no CPU variant ${name}; there are ${names.filter(Boolean).join(", ")}`);
  }
  const addon = createRequire(import.meta.url)(path.join(bins, "llama-addon.node"));
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), "kcc-llamacpp-"));
  try {
    fs.symlinkSync(path.join(bins, library), path.join(directory, library));
    addon.loadBackends(directory);
  } finally {
    fs.rmSync(directory, {recursive: true});
  }
  if (addon.getGpuType() == null) throw new Error(`this CPU cannot run the variant ${name}`);
}

async function open() {
  if (options.cpu !== "best") loadVariant(options.cpu);
  if (!(options.kv.toUpperCase() in GgmlType)) throw new Error(`no KV cache type ${options.kv}`);
  if (!["on", "off"].includes(options.flash_attention)) {
    throw new Error("--flash-attention must be on or off");
  }
  const llama = await getLlama({
    build: "never", gpu: false, skipDownload: true, maxThreads: 1,
    logLevel: LlamaLogLevel.error, logger: (level, text) => console.error(`llama.cpp ${level}: ${text}`),
  });
  const model = await llama.loadModel({modelPath: path.resolve(options.model)});
  const context = await model.createContext({
    contextSize: options.context, batchSize: options.batch, threads: 1,
    flashAttention: options.flash_attention === "on",
    experimentalKvCacheKeyType: options.kv.toUpperCase(),
    experimentalKvCacheValueType: options.kv.toUpperCase(),
  });
  return {llama, model, sequence: context.getSequence()};
}

const WANTED = {generateNext: {logits: true, options: {temperature: 0}}};

function engineOf(sequence, vocabSize) {
  // Logits after every token from `from` on; the tokens before it are only read.
  async function evaluate(tokens, from) {
    const rows = new Float32Array((tokens.length - from) * vocabSize);
    const input = tokens.map((token, index) => (index < from ? token : [token, WANTED]));
    const outputs = await sequence.controlledEvaluate(input);
    for (let index = from; index < tokens.length; ++index) {
      const logits = outputs[index].next.logits;
      if (logits.size !== vocabSize) throw new Error(`${logits.size} logits of ${vocabSize} tokens`);
      for (const [token, logit] of logits) rows[(index - from) * vocabSize + token] = logit;
    }
    return rows;
  }
  async function fresh(tokens) {
    if (tokens.length > options.context) {
      throw new Error(`${tokens.length} tokens do not fit --context ${options.context}`);
    }
    await sequence.clearHistory();
  }
  return {
    async score(tokens, from) {
      await fresh(tokens);
      return evaluate(tokens.slice(0, -1), from - 1);
    },
    async start(tokens) {
      await fresh(tokens);
      return evaluate(tokens, tokens.length - 1);
    },
    next: (token) => evaluate([token], 0),
  };
}

try {
  options = readOptions(process.argv.slice(2), DEFAULTS);
  const {llama, model, sequence} = await open();
  const vocabSize = model.fileInfo.metadata.llama.vocab_size;
  const weights = model.typeDescription.split(" ").slice(2).join(" ");
  const file = createHash("sha256").update(fs.readFileSync(options.model)).digest("hex");
  const {release} = llama.llamaCppRelease;
  // "best" is another kernel on another machine, so the instruction sets in use are named.
  const features = [...llama.systemInfo.matchAll(/(\w+) = 1/g)].map((match) => match[1]).join("+");
  const cpu = `${options.cpu}(${features})`;
  const chosen = `kv=${options.kv},fa=${options.flash_attention},cpu=${cpu},batch=${options.batch}`;
  await serve(
    {
      fingerprint: `llama.cpp-${release}/node-llama-cpp-${PACKAGE} ${weights} ${chosen} ${file.slice(0, 16)}`,
      vocabSize,
      batchRequestsMax: 0,
      declares: {engine: "llama.cpp"},
      options: [
        {name: "weights", value: weights, source: "precision"},
        {name: "kv", value: options.kv, source: "precision"},
        {name: "flash_attention", value: options.flash_attention, source: "operator"},
        {name: "cpu", value: cpu, source: "operator"},
        {name: "batch", value: String(options.batch), source: "batch"},
      ],
    },
    engineOf(sequence, vocabSize),
  );
  await llama.dispose();
} catch (error) {
  console.error(`kernel.mjs: ${error.message ?? error}`);
  process.exitCode = 1;
}
