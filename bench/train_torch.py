"""CPU time of a training step: kcc's trainer beside PyTorch in float32, in one run.

    .venv/bin/python bench/train_torch.py [--assert] [--steps N] [--kernel lab:f32]

Both start from the shipped model, take the same batch and do the same: forward, mean of -log p over the outputs, backward,
gradient no longer than 1, AdamW. They take turns, a step each, on one thread; losses and lengths of gradients are compared
before any time is reported. PyTorch runs the plain Llama of the Python package (scaled_dot_product_attention, fused AdamW)
on one padded batch. Batches: 64 sequences of one length, as a step of GRPO on one task has them, which need no padding;
and 48 requests of the evaluation set, sorted into four groups of similar length.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "python"))
os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch  # noqa: E402
from torch.nn import functional  # noqa: E402

from kcc.model import corpus, llama  # noqa: E402

MODEL = ROOT / "models/kcc-lab"
RATE = 1e-5
ALLOWED = 1.5


def even_batch():
    """Products of three digits by one: prompts of 8 tokens, outputs of 34, as the first RL task has them."""
    lines = [json.loads(line) for line in (MODEL / "eval.jsonl").read_text().splitlines()]
    tokens = [token for line in lines if "arithmetic" in line["tags"] for token in line["output"]]
    return [
        {"id": f"s{i}", "prompt": tokens[i : i + 8], "output": tokens[8 + 7 * i : 8 + 7 * i + 34]} for i in range(64)
    ]


def mixed_batch():
    lines = [json.loads(line) for line in (MODEL / "eval.jsonl").read_text().splitlines()][::8][:48]
    return [{key: line[key] for key in ("id", "prompt", "output")} for line in lines]


def groups_of(batch, groups):
    """Padded tensors (tokens, weights), of sequences of similar length."""
    ordered = sorted(batch, key=lambda line: len(line["prompt"] + line["output"]))
    size = -(-len(ordered) // groups)
    for begin in range(0, len(ordered), size):
        part = ordered[begin : begin + size]
        width = max(len(line["prompt"] + line["output"]) for line in part)
        tokens, weights = [], []
        for line in part:
            row = line["prompt"] + line["output"]
            tokens.append(row + [corpus.PAD] * (width - len(row)))
            weights.append([0.0] * (len(line["prompt"]) - 1) + [1.0] * len(line["output"]) + [0.0] * (width - len(row)))
        yield torch.tensor(tokens), torch.tensor(weights)


class Torch:
    def __init__(self, batch, groups):
        torch.set_num_threads(1)
        self.model = llama.load(MODEL).train()
        parameters = list(self.model.parameters())
        self.optimizer = torch.optim.AdamW(
            [
                {"params": [p for p in parameters if p.dim() == 2], "weight_decay": 0.05},
                {"params": [p for p in parameters if p.dim() != 2], "weight_decay": 0.0},
            ],
            lr=RATE, betas=(0.9, 0.98), fused=True,
        )  # fmt: skip
        self.groups = list(groups_of(batch, groups))
        self.weight = sum(weights.sum() for _, weights in self.groups)

    def step(self):
        began = time.process_time()
        self.optimizer.zero_grad()
        loss = 0.0
        for tokens, weights in self.groups:
            logits = self.model(tokens[:, :-1])
            each = functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten(), reduction="none")
            part = (each * weights.flatten()).sum() / self.weight
            part.backward()
            loss += part.item()
        length = torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0).item()
        self.optimizer.step()
        return {"loss": loss, "gradientLength": length, "cpu": time.process_time() - began}


class Kcc:
    def __init__(self, batch, kernel, folder):
        path = pathlib.Path(folder) / "batch.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in batch))
        build = pathlib.Path(os.environ.get("KCC_BUILD", ROOT / "build/release"))
        self.process = subprocess.Popen(
            [build / "bench/train_bench", MODEL, path, kernel, "1", str(RATE)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def step(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def compare(name, batch, groups, options):
    with tempfile.TemporaryDirectory() as folder:
        ours, theirs = Kcc(batch, options.kernel, folder), Torch(batch, groups)
        steps = [(ours.step(), theirs.step()) for _ in range(options.steps)]
        ours.close()
    if options.kernel == "lab:f32":
        for mine, other in steps:
            for key in ("loss", "gradientLength"):
                if abs(mine[key] - other[key]) > 1e-3 * abs(other[key]):
                    sys.exit(f"{name}: {key} is {mine[key]}, PyTorch's is {other[key]}")
    timed = steps[2:]  # the first ones make room
    mine = statistics.median(step["cpu"] for step, _ in timed)
    other = statistics.median(step["cpu"] for _, step in timed)
    tokens = steps[0][0]["tokens"]
    print(f"{name:6} {tokens:6} tokens  kcc {mine:.3f} s  torch {other:.3f} s  ratio {mine / other:.2f}", flush=True)
    return mine / other


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--assert", dest="check", action="store_true", help=f"fail above a ratio of {ALLOWED}")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--kernel", default="lab:f32")
    options = parser.parse_args()
    print("CPU seconds of a step on one thread, medians")
    ratios = [compare("even", even_batch(), 1, options), compare("mixed", mixed_batch(), 4, options)]
    if options.check and max(ratios) > ALLOWED:
        sys.exit(f"a step takes {max(ratios):.2f} times PyTorch's CPU time, and at most {ALLOWED} is allowed")


if __name__ == "__main__":
    main()
