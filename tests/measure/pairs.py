"""Synthetic pairs of traces for the tests."""

import numpy as np

from kcc.trace import from_bf16, to_bf16, write_trace  # noqa: F401


def logits_pair(root, requests=12, tokens=9, vocab=257, noise=0.02, seed=7, dtype="float32", extra=None):
    """A train and an infer trace of full logits; returns their directories and the arrays."""
    rng = np.random.default_rng(seed)
    rows = requests * tokens
    train = (rng.normal(-1, 2.3, (rows, vocab))).astype(np.float32)
    train[np.arange(rows), rng.integers(0, vocab, rows)] += 6
    infer = (train + rng.normal(0, noise, train.shape)).astype(np.float32)
    if dtype == "bfloat16":
        train, infer = to_bf16(train), to_bf16(infer)
    else:
        train, infer = train.astype(dtype), infer.astype(dtype)
    columns = {
        "request": np.repeat(np.arange(requests, dtype=np.int32), tokens),
        "position": np.tile(np.arange(4, 4 + tokens, dtype=np.int32), requests),
        "token": rng.integers(0, vocab, rows).astype(np.int32),
    }
    lines = []
    for i in range(requests):
        line = {"id": f"r{i:04d}", "prompt_tokens": 4, "output_tokens": tokens, "ordinal": i}
        line["tags"] = ["safety"] if i % 3 == 0 else ["code"]
        line |= extra(i) if extra else {}
        lines.append(line)
    info = {"vocabSize": vocab}
    a = write_trace(root / "train", info | {"kernelFingerprint": "train"}, lines, columns | {"logits": train})
    b = write_trace(root / "infer", info | {"kernelFingerprint": "infer"}, lines, columns | {"logits": infer})
    return a, b, columns, train, infer
