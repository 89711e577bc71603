#!/usr/bin/env python3
"""Makes step.safetensors: one made-up RL step whose rollout engine is a little off.

Three kinds of prompts; rows of "grid" are far noisier than the others, as a quantised expert would
make them. python examples/rl/make_step.py [OUTPUT]
"""

import json
import pathlib
import struct
import sys

import numpy as np

ROWS, COLUMNS, VOCABULARY = 48, 96, 32
SLICES = {"chat": 0.004, "code": 0.01, "grid": 0.25}


def log_softmax(logits):
    shifted = logits - logits.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def make_step(seed=8):
    random = np.random.default_rng(seed)
    names = list(SLICES)
    slice_id = np.arange(ROWS) % len(names)
    sharpness = random.choice([1.5, 3.0, 7.0], size=(ROWS, COLUMNS, 1))
    logits = sharpness * random.standard_normal((ROWS, COLUMNS, VOCABULARY))
    noise = np.array([SLICES[names[i]] for i in slice_id])[:, None, None]
    rollout = log_softmax(logits)
    train = log_softmax(logits + noise * random.standard_normal(logits.shape))
    gumbel = random.gumbel(size=logits.shape)
    token = (rollout + gumbel).argmax(-1)[..., None]
    lengths = random.integers(COLUMNS // 3, COLUMNS + 1, size=ROWS)
    mask = np.arange(COLUMNS) < lengths[:, None]
    take = lambda table: np.where(mask, np.take_along_axis(table, token, -1)[..., 0], 0)
    return names, {
        "train_logprobs": take(train).astype("<f4"),
        "rollout_logprobs": take(rollout).astype("<f4"),
        "response_mask": mask.astype("u1"),
        "advantages": random.standard_normal(ROWS).astype("<f4"),
        "slice_id": slice_id.astype("<i4"),
    }


def write_safetensors(path, tensors, metadata):
    kinds = {"<f4": "F32", "|u1": "U8", "<i4": "I32"}
    header, begin = {"__metadata__": metadata}, 0
    # Wide elements first, so that each tensor starts at a multiple of its element.
    order = sorted(tensors, key=lambda name: (-tensors[name].itemsize, name))
    for name in order:
        array = tensors[name]
        header[name] = {
            "dtype": kinds[array.dtype.str],
            "shape": list(array.shape),
            "data_offsets": [begin, begin + array.nbytes],
        }
        begin += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    body = b"".join(tensors[name].tobytes() for name in order)
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)


if __name__ == "__main__":
    here = pathlib.Path(__file__).parent
    target = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else here / "step.safetensors"
    slice_names, arrays = make_step()
    write_safetensors(target, arrays, {"slice_names": ",".join(slice_names)})
