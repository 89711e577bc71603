#!/usr/bin/env python3
"""What real engines say at the same prefixes: the pools that bench/rl_lint_engines draws batches from.

  tools/lint_pools.py --work DIR              every kernel
  tools/lint_pools.py --work DIR --only lab   those whose name holds the word
  tools/lint_pools.py --work DIR --example    examples/rl/tempered.npz as well, and no other kernel

lab:bf16 continues the prompts of the shipped evaluation set at three temperatures; every kernel then scores these
continuations with full logits, into DIR/TEMPERATURE/KERNEL, a trace each. vLLM is among them where tools/servers.sh
installed it. Files that are there are kept, so that a run
can be broken off and continued. The lab's traces have the same bytes everywhere; those of other engines hang on their
version and the CPU.
"""

import argparse
import json
import pathlib
import shutil
import subprocess
import sys

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "python")]
import engine_drift as engines  # noqa: E402

TEMPERATURES = ("0.7", "1", "1.3")
LAB = {
    "train": "lab:train",
    "bf16": "lab:bf16?path=decode",
    "bf16-invariant": "lab:bf16-invariant",
    "fp8": "lab:fp8?path=decode",
    "int8": "lab:int8",
    "int4": "lab:int4",
    "hopper-fp8": "lab:hopper-fp8?path=decode",
    "split-k": "lab:bf16?path=decode&concurrency=64&attention=split:4",
    "kv-e4m3": "lab:bf16?kv=e4m3&path=decode",
    "kv-e5m2": "lab:bf16?kv=e5m2&path=decode",
    "e5m2": "lab:fp8?weights=e5m2&activations=e5m2&kv=e5m2",
    "int8-activations": "lab:int8?activations=int8",
    "int4-channel": "lab:int4?scale=channel",
    "int4-head": "lab:int4?lm_head=weights",
    "logits-bf16": "lab:bf16?logits=bf16",
    "accumulate-bf16": "lab:bf16-invariant?accumulate=bf16",
    "exp-fast": "lab:bf16?exp=fast&rope=bf16",
}
OTHERS = {
    "torch-bf16-eager": engines.KERNELS["torch bf16 eager"],
    "torch-bf16-sdpa": engines.KERNELS["torch bf16 SDPA"],
    "llamacpp-q8": engines.KERNELS["llama.cpp Q8_0"],
    "llamacpp-q4": engines.KERNELS["llama.cpp Q4_K_M"],
    "llamacpp-q3": engines.WRITERS["llama.cpp Q3_K_S"],
    "llamacpp-q2": engines.WRITERS["llama.cpp Q2_K"],
    "onnx": engines.KERNELS["ONNX Runtime"],
}
VLLM = ROOT / "build/servers/vllm/bin/python"
# Other weights: kernels of the trainer's side only.
WEIGHTS = ("weights-noise-2", "weights-noise-5", "weights-noise-10", "weights-layer")


def spoil(kind, target):
    """A checkpoint like the shipped one but for its numbers: noise of so many percent on every matrix, or one
    layer's feed-forward matrices as a broken update leaves them (of the layer before)."""
    from kcc.trace import from_bf16, to_bf16

    if (target / "model.safetensors").exists():
        return
    target.mkdir(parents=True, exist_ok=True)
    shutil.copytree(engines.MODEL, target, dirs_exist_ok=True)
    data = bytearray((target / "model.safetensors").read_bytes())
    begin = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:begin])
    header.pop("__metadata__", None)
    rng = np.random.default_rng(1)

    def part(name):
        low, high = header[name]["data_offsets"]
        return slice(begin + low, begin + high)

    for name in sorted(header):
        if len(header[name]["shape"]) != 2:
            continue
        if kind == "weights-layer":
            if ".layers.2.mlp." in name:
                data[part(name)] = data[part(name.replace(".2.", ".1."))]
            continue
        values = from_bf16(np.frombuffer(bytes(data[part(name)]), np.uint16)).astype(np.float64)
        noise = float(kind.rsplit("-", 1)[1]) / 100 * values.std()
        values += noise * rng.standard_normal(values.size)
        data[part(name)] = to_bf16(values.astype(np.float32)).tobytes()
    (target / "model.safetensors").write_bytes(data)


def tensors(trace):
    """name -> array of a trace's first file."""
    data = (trace / "tokens-00000.safetensors").read_bytes()
    begin = 8 + int.from_bytes(data[:8], "little")
    kinds = {"F32": np.float32, "I32": np.int32, "I64": np.int64}
    return {
        name: np.frombuffer(data[begin + entry["data_offsets"][0] : begin + entry["data_offsets"][1]], kinds[entry["dtype"]])
        .reshape(entry["shape"])
        for name, entry in json.loads(data[8:begin]).items()
        if name != "__metadata__"
    }  # fmt: skip


def example(work, rows=66):
    """Rows of the engine's own continuations at 0.7 as it reports them, and as a trainer does that forgot to divide."""
    engine, trainer = tensors(work / "0.7/prefixes"), tensors(work / "0.7/train")

    def logprob(logits, temperature, token):
        logits = logits.astype(np.float64) / temperature
        logits -= logits.max(1, keepdims=True)
        return logits[np.arange(len(token)), token] - np.log(np.exp(logits).sum(1))

    _, row = np.unique(engine["request"], return_inverse=True)
    kept = row < rows * 6
    kept &= row % 6 == 0  # of every skill
    token = engine["token"][kept]
    ends = np.flatnonzero(np.diff(row[kept], append=-1)) + 1
    arrays = {
        "rollout": logprob(engine["logits"][kept], 0.7, token).astype(np.float32),
        "train": logprob(trainer["logits"][kept], 1, token).astype(np.float32),
        "offsets": np.concatenate([[0], ends]).astype(np.int64),
    }
    np.savez(ROOT / "examples/rl/tempered.npz", **arrays)


def vllm(work, temperature):
    """vLLM in BF16 on its own Python; its log-softmax stands for the logits."""
    from kcc.trace import write_trace

    prefixes, target = work / temperature / "prefixes", work / temperature / "vllm-bf16"
    if target.exists():
        return
    lines = [json.loads(line) for line in (prefixes / "requests.jsonl").read_text().splitlines()]
    rows = tensors(prefixes)
    sequences = [[list(map(int, line["prompt"])), line["prompt_tokens"]] for line in lines]
    for request, token in zip(rows["request"], rows["token"], strict=True):
        sequences[request][0].append(int(token))
    asked, said = work / "vllm.json", work / "vllm.npy"
    asked.write_text(json.dumps(sequences))
    subprocess.run([VLLM, ROOT / "tools/vllm_logits.py", engines.MODEL, asked, said], check=True)
    logits = np.load(said)
    order = np.lexsort((rows["position"], rows["request"]))
    kept = {name: rows[name][order] for name in ("request", "position", "token")}
    fields = ("id", "prompt_tokens", "output_tokens", "tags")
    requests = [{name: line[name] for name in fields if name in line} for line in lines]
    info = {"kernelFingerprint": "vllm bf16", "vocabSize": logits.shape[1]}
    write_trace(target, info, requests, kept | {"logits": logits})
    print(target, flush=True)


def kernels(work):
    yield from LAB.items()
    for kind in WEIGHTS:
        yield kind, f"lab:f32?model={work / 'checkpoints' / kind}"
    for name, command in OTHERS.items():
        yield name, engines.uri(command, work)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=pathlib.Path, required=True, help="the pools' directory")
    parser.add_argument("--only", default="", help="kernels whose name holds this word")
    parser.add_argument("--example", action="store_true", help="write examples/rl/tempered.npz")
    options = parser.parse_args()
    work = options.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    for temperature in TEMPERATURES:
        prefixes = work / temperature / "prefixes"
        prefixes.parent.mkdir(exist_ok=True)
        if not prefixes.exists():
            engines.kcc(
                "generate", "lab:bf16", "--requests", engines.MODEL / "eval.jsonl", "-o", prefixes,
                "--temperature", temperature, "--seed", 19, "--max-tokens", 96, "--stop", 257,
            )  # fmt: skip
    for name, uri in kernels(work):
        if options.only not in name and options.only not in uri:
            continue
        if options.example and name != "train":
            continue
        if name in WEIGHTS:
            spoil(name, work / "checkpoints" / name)
        if name in OTHERS:
            engines.export(work)
        for temperature in TEMPERATURES:
            target = work / temperature / name
            if not target.exists():
                engines.kcc("score", uri, "--requests", work / temperature / "prefixes", "-o", target)
                print(target, flush=True)
    if options.only in "vllm-bf16" and not options.example and VLLM.exists():
        for temperature in TEMPERATURES:
            vllm(work, temperature)
    if options.example:
        example(work)


if __name__ == "__main__":
    main()
