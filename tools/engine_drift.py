#!/usr/bin/env python3
"""Runs the shipped checkpoint through every engine at hand and writes what kcc says of each pair.

  tools/engine_drift.py                       prints docs/results/engines.md's tables
  tools/engine_drift.py --update              writes them into the page
  tools/engine_drift.py --requests 40         on fewer requests, for a look

Each kernel scores the held-out requests once, into a trace; each pair of traces is judged by
contracts/engines.yaml. Then the llama.cpp kernels write their own greedy answers, which are judged by
contracts/engines-behaviour.yaml against PyTorch's. Files made on the way go to --work (default: a
scratch directory): exports, traces, reports.
"""

import argparse
import itertools
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "python")]
import run_docs  # noqa: E402

MODEL = ROOT / "models/kcc-lab"
PAGE = ROOT / "docs/results/engines.md"
SCORING, BEHAVIOUR = ROOT / "contracts/engines.yaml", ROOT / "contracts/engines-behaviour.yaml"
BEGIN, END = "<!-- begin tables -->\n", "<!-- end tables -->\n"
GGUF_TYPES = ("Q8_0", "Q4_K_M", "Q3_K_S", "Q2_K")
OUTPUT_TOKENS_MAX = 128

PYTHON, NODE = ROOT / ".venv/bin/python", ROOT / ".venv/bin/node"
TORCH = f"/usr/bin/env PYTHONPATH={ROOT}/python {PYTHON} -m kcc.kernels.torch_lm {MODEL} --threads 1"
LLAMA = f"{NODE} {ROOT}/adapters/llamacpp/kernel.mjs --model {{work}}/"
ONNX = f"{NODE} {ROOT}/adapters/onnxruntime/kernel.mjs --model {{work}}/model.onnx"

# What the page names -> the program behind it.
KERNELS = {
    "torch f32 eager": TORCH + " --dtype f32 --attention eager",
    "torch f32 SDPA": TORCH + " --dtype f32 --attention sdpa",
    "llama.cpp f32": LLAMA + "f32.gguf --kv f32",
    "ONNX Runtime": ONNX + " --optimization all",
    "ONNX Runtime, unfused": ONNX + " --optimization disabled",
    "llama.cpp f32, KV f16": LLAMA + "f32.gguf --kv f16",
    "torch bf16 eager": TORCH + " --dtype bf16 --attention eager",
    "torch bf16 SDPA": TORCH + " --dtype bf16 --attention sdpa",
    "llama.cpp Q8_0": LLAMA + "Q8_0.gguf --kv f16",
    "llama.cpp Q4_K_M": LLAMA + "Q4_K_M.gguf --kv f16",
}
EXACT = list(KERNELS)[:5]  # float32 throughout
REFERENCE = "llama.cpp f32"
# Whose own answers are judged against the reference's.
WRITERS = {f"llama.cpp {kind}": LLAMA + f"{kind}.gguf --kv f16" for kind in GGUF_TYPES}


def export(work):
    """The checkpoint in every format the engines read."""
    from kcc.model import gguf, quantize

    source = work / "f32.gguf"
    if not source.exists():
        gguf.write(MODEL, source)
    for kind in GGUF_TYPES:
        if not (work / f"{kind}.gguf").exists():
            quantize.quantize(source, work / f"{kind}.gguf", kind)
    if not (work / "model.onnx").exists():
        done = subprocess.run(
            [PYTHON, "-m", "kcc.model.onnx", MODEL, work / "model.onnx"],
            cwd=ROOT / "python", capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            raise RuntimeError(f"ONNX export failed:\n{done.stderr[-2000:]}")


def uri(command, work):
    return "exec:" + command.format(work=work)


def kcc(*arguments, codes=(0,)):
    command = [run_docs.kcc_binary(), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in codes:
        raise RuntimeError(f"{' '.join(map(str, command))}: exit {done.returncode}\n{done.stderr}")
    return done.stdout


def slug(name):
    return "".join(c if c.isalnum() else "-" for c in name.lower())


def score(name, requests, work):
    """The kernel's trace of all requests; made once."""
    target = work / "scored" / slug(name)
    if not target.exists():
        target.parent.mkdir(exist_ok=True)
        kcc("score", uri(KERNELS[name], work), "--requests", requests, "-o", target)
    return target


def answers(name, command, requests, work):
    """The kernel's own greedy answers, judged; made once."""
    from kcc.model import corpus, judge

    raw, target = work / "generated" / slug(name), work / "judged" / slug(name)
    if not target.exists():
        raw.parent.mkdir(exist_ok=True)
        target.parent.mkdir(exist_ok=True)
        kcc(
            "generate", uri(command, work), "--requests", requests, "-o", raw, "--temperature", 0,
            "--max-tokens", OUTPUT_TOKENS_MAX, "--stop", corpus.EOS,
        )  # fmt: skip
        judge.write(raw, target)
    return target


def report(contract, train, infer):
    return json.loads(kcc("run", contract, "--train", train, "--infer", infer, "--json", codes=(0, 1, 2, 3)))


def values(report):
    """(clause, slice) -> its entry in the report."""
    return {
        (clause["id"], entry["slice"]): entry | {"level": clause["level"]}
        for clause in report["clauses"]
        for entry in clause["slices"]
    }


def verdict(report):
    """convergent, or the worst level that is violated."""
    if report["convergent"]:
        return "convergent"
    levels = [c["level"] for c in report["clauses"] if c["verdict"] == "violated"]
    return f"violated, {max(levels)}" if levels else report["verdict"]


def number(value):
    return "0" if value == 0 else f"{value:.1e}"


def share(value):
    return "0" if value == 0 else f"{100 * value:.2f} %"


def pair_table(work, requests):
    traces = {name: score(name, requests, work) for name in KERNELS}
    yield "| train | infer | max logit L∞ | mean TV | mean KL | top-1 flips | verdict |"
    yield "|---|---|---:|---:|---:|---:|---|"
    for train, infer in itertools.combinations(KERNELS, 2):
        judged = report(SCORING, traces[train], traces[infer])
        quantities = {name: by["all"] for name, by in judged["quantities"].items()}
        flips = values(judged)["S-1", "all"]["value"]
        linf, tv, kl = (
            number(quantities[name][part])
            for name, part in (("raw_logit_linf", "max"), ("tv", "mean"), ("kl", "mean"))
        )
        yield f"| {train} | {infer} | {linf} | {tv} | {kl} | {share(flips)} | {verdict(judged)} |"


def behaviour_table(work, requests):
    reference = answers(REFERENCE, KERNELS[REFERENCE], requests, work)
    yield f"| {REFERENCE} against | reward drift, all | parse-rate gap, json | refusal-rate gap, refusal | verdict |"
    yield "|---|---:|---:|---:|---|"
    for name, command in WRITERS.items():
        judged = report(BEHAVIOUR, reference, answers(name, command, requests, work))
        found = values(judged)
        cells = [
            share(entry["value"]) + (" **violated**" if entry["verdict"] == "violated" else "")
            for entry in (found["S-1", "all"], found["S-2", "json"], found["S-3", "refusal"])
        ]
        yield f"| {name} | {' | '.join(cells)} | {verdict(judged)} |"


def first_requests(source, count, target):
    """A part that keeps every skill: the first `count` of each."""
    kept, seen = [], {}
    for line in source.read_text().splitlines():
        skill = json.loads(line)["tags"][0]
        seen[skill] = seen.get(skill, 0) + 1
        if seen[skill] <= count:
            kept.append(line + "\n")
    target.write_text("".join(kept))
    return target


def tables(work, per_skill):
    export(work)
    requests = MODEL / "eval.jsonl"
    if per_skill:
        requests = first_requests(requests, per_skill, work / "requests.jsonl")
    count = len(requests.read_text().splitlines())
    yield f"Scored: {count} held-out requests; `contracts/engines.yaml`.\n"
    yield from pair_table(work, requests)
    yield f"\nGreedy answers to the same {count} prompts; `contracts/engines-behaviour.yaml`.\n"
    yield from behaviour_table(work, requests)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--update", action="store_true", help="write the tables into the page")
    parser.add_argument("--requests", type=int, default=0, help="so many of each skill; default all")
    parser.add_argument("--work", type=pathlib.Path, help="keep exports and traces here")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        work = options.work or pathlib.Path(scratch)
        work.mkdir(parents=True, exist_ok=True)
        text = "\n".join(tables(work.resolve(), options.requests)) + "\n"
    if options.update:
        before, rest = PAGE.read_text().split(BEGIN)
        PAGE.write_text(before + BEGIN + text + END + rest.split(END)[1])
    else:
        print(text, end="")


if __name__ == "__main__":
    main()
