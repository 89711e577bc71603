// ONNX Runtime as a kernel, through the npm package onnxruntime-node.
//
//   exec:node adapters/onnxruntime/kernel.mjs --model model.onnx --optimization all
//
// The graph takes `tokens` [rows, length] and gives `logits` [rows, length, vocabulary]
// (python -m kcc.model.onnx). The optimisation level decides which operators are fused, and so which
// kernels run: the same file, other bits. There is no cache: generation runs the row again.

import {createHash} from "node:crypto";
import fs from "node:fs";
import ort from "onnxruntime-node";
import {readOptions, serve} from "../protocol.mjs";

const PACKAGE = "1.30.0";
const LEVELS = ["disabled", "basic", "extended", "layout", "all"];

const DEFAULTS = {
  model: undefined,
  optimization: "all",
  threads: 1,
};
let options;

function engineOf(session) {
  let row = [];
  // Logits after tokens[from], tokens[from + 1], …
  async function evaluate(tokens, from) {
    const input = new ort.Tensor("int64", BigInt64Array.from(tokens, BigInt), [1, tokens.length]);
    const {logits} = await session.run({tokens: input});
    return logits.data.subarray(from * logits.dims[2]);
  }
  return {
    score: (tokens, from) => evaluate(tokens.slice(0, -1), from - 1),
    start(tokens) {
      row = [...tokens];
      return evaluate(row, row.length - 1);
    },
    next(token) {
      row.push(token);
      return evaluate(row, row.length - 1);
    },
  };
}

try {
  options = readOptions(process.argv.slice(2), DEFAULTS);
  if (!LEVELS.includes(options.optimization)) {
    throw new Error(`no optimisation level ${options.optimization}; there are ${LEVELS.join(", ")}`);
  }
  const session = await ort.InferenceSession.create(options.model, {
    executionProviders: ["cpu"],
    graphOptimizationLevel: options.optimization,
    intraOpNumThreads: options.threads,
    interOpNumThreads: 1,
    logSeverityLevel: 3,
  });
  const file = createHash("sha256").update(fs.readFileSync(options.model)).digest("hex");
  const vocabSize = session.outputMetadata[0].shape[2];
  const chosen = `optimization=${options.optimization},threads=${options.threads}`;
  await serve(
    {
      fingerprint: `onnxruntime-${PACKAGE} ${chosen} ${file.slice(0, 16)}`,
      vocabSize,
      declares: {engine: "onnxruntime"},
      options: [{name: "optimization", value: options.optimization, source: "operator"}],
    },
    engineOf(session),
  );
  await session.release();
} catch (error) {
  console.error(`kernel.mjs: ${error.message ?? error}`);
  process.exitCode = 1;
}
