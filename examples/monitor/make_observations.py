#!/usr/bin/env python3
"""Writes the observations of the example: an FP8 kernel is fine, breaks, is guarded, is repaired, and is released.

Half of the requests are audited. After the guard, bf16 serves and fp8 is shown copies (probes) of requests. The same
bytes on every machine: python3 examples/monitor/make_observations.py > examples/monitor/observations.jsonl
"""

import json
import random

FINE, BROKEN, REPAIRED = 300, 60, 560


def kl(rng, bad):
    """Of three tokens; of a bad request one is beyond the contract's 0.5."""
    values = [round(rng.uniform(0.001, 0.05), 4) for _ in range(3)]
    if bad:
        values[rng.randrange(3)] = round(rng.uniform(0.6, 2), 3)
    return values


def observation(rng, number, kernel, bad, audited=True, probe=False):
    fields = {"prompt_tokens": 8, "output_tokens": 3}
    tags = {"tags": ["arithmetic"]} if rng.random() < 0.5 else {}
    line = {"time_ms": 1000 * number, "request": f"r{number}", "kernel": kernel}
    if probe:
        line["probe"] = True
    if audited:
        line.update(audited=True, infer=fields, train={**fields, **tags},
                    tokens={"position": [8, 9, 10], "kl": kl(rng, bad)})  # fmt: skip
    return line


def story():
    rng = random.Random(24)
    for number in range(FINE + BROKEN + REPAIRED):
        broken = FINE <= number < FINE + BROKEN
        repaired = number >= FINE + BROKEN
        bad = rng.random() < (0.6 if broken else 0.01)
        if repaired and number < FINE + BROKEN + 420:  # bf16 serves; fp8 is shown a copy
            yield observation(rng, number, "bf16", False, audited=False)
            yield observation(rng, number, "fp8", bad, probe=True)
        else:
            yield observation(rng, number, "fp8", bad, audited=number % 2 == 0 or broken or repaired)


if __name__ == "__main__":
    for row in story():
        print(json.dumps(row, separators=(",", ":")))
