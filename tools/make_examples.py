#!/usr/bin/env python3
"""Makes examples/traces: three kernels on one synthetic model, small enough to ship.

The story they tell: the inference kernel is close to the training kernel on average, and worse by an
order of magnitude on long prompts; its next build is fixed. Deterministic: the same bytes on every run.
"""

import pathlib
import shutil
import sys

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "python"))
from kcc.trace import to_bf16, write_trace  # noqa: E402

VOCAB, REQUESTS, TOKENS = 256, 48, 12
KINDS = ("chat", "safety", "structured")


def main():
    rng = np.random.Generator(np.random.PCG64(2606))
    rows = REQUESTS * TOKENS
    request = np.repeat(np.arange(REQUESTS, dtype=np.int32), TOKENS)
    prompt_tokens = np.where(np.arange(REQUESTS) % 8 == 5, 9000, 24 + 8 * (np.arange(REQUESTS) % 7))
    long_prompt = (prompt_tokens >= 8192)[request]

    train = rng.normal(-1, 2.0, (rows, VOCAB)).astype(np.float32)
    winner = rng.integers(0, VOCAB, rows)
    train[np.arange(rows), winner] += rng.uniform(3, 9, rows).astype(np.float32)
    scale = np.where(long_prompt, 0.35, 0.02)[:, None]
    infer = train + rng.normal(0, 1, train.shape).astype(np.float32) * scale.astype(np.float32)

    columns = {
        "request": request,
        "position": (prompt_tokens[request] + np.tile(np.arange(TOKENS), REQUESTS)).astype(np.int32),
        "token": winner.astype(np.int32),
        "gold": np.where(rng.random(rows) < 0.9, winner, (winner + 1) % VOCAB).astype(np.int32),
    }

    def requests(side):
        for i in range(REQUESTS):
            slow = 1.6 if side == "train" else 1.0
            yield {
                "id": f"request-{i:03d}",
                "ordinal": i,
                "prompt_tokens": int(prompt_tokens[i]),
                "output_tokens": TOKENS,
                "tags": [KINDS[i % 3]],
                "latency_ms": round(slow * (80 + prompt_tokens[i] / 60 + 3.0 * (i % 5)), 1),
                "ttft_ms": round(slow * (20 + prompt_tokens[i] / 80), 1),
                "started_at_ms": 1_790_000_000_000 + 250 * i,
                "refused": KINDS[i % 3] == "safety",
                "parsed": True,
                "failed": False,
                "reward": round(0.8 - 0.02 * (i % 4) - (0.05 if side == "infer" and prompt_tokens[i] > 8192 else 0), 3),
                "kernel_fingerprint": f"{side}-build-1",
                "seed": 7 + i,
                "replay_signature": f"{side}-{i:03d}",
            }

    noise = np.random.Generator(np.random.PCG64(2607)).normal(0, 1, train.shape)
    fixed = train + noise.astype(np.float32) * np.float32(0.02)

    out = ROOT / "examples" / "traces"
    shutil.rmtree(out, ignore_errors=True)
    for side, logits in (("train", train), ("infer", infer), ("fixed", fixed)):
        info = {"kernelFingerprint": f"{side}-build-1", "vocabSize": VOCAB}
        write_trace(out / side, info, requests(side), columns | {"logits": to_bf16(logits)})


if __name__ == "__main__":
    main()
