"""Kernels by URI, and requests for them."""

import json
import pathlib
import random

ROOT = pathlib.Path(__file__).resolve().parents[2]


def toy(arguments=""):
    return f"exec:/usr/bin/python3 {ROOT}/tests/kernel/toy.py {arguments}"


def write_requests(path, count, vocab, prompt=4, output=12, seed=1):
    rng = random.Random(seed)
    with open(path, "w") as out:
        for i in range(count):
            out.write(json.dumps({
                "id": f"r{i:04}",
                "prompt": [rng.randrange(vocab) for _ in range(prompt)],
                "output": [rng.randrange(vocab) for _ in range(output + i % 3)],
                "tags": ["even" if i % 2 == 0 else "odd"],
            }) + "\n")
    return path
