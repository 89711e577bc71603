#!/usr/bin/env python3
"""Peak memory of diagnose + correct + judge on 512 x 4,096 tokens, in arrays of the log-probs' size.

  python bench/rl_memory.py [--threads 1] [--kind truncate|reject|in-place]

The process's own high-water mark is set back before the step and read after it, so that what other
processes do does not matter; the C library is told to give large blocks back at once, so that none
is served from what was freed before. Exits with 1 if a step takes more than it may: the weights (one
array), where something is rejected also the mask (a byte a token), and 0.05 of an array of scratch.
"""

import argparse
import json
import os
import pathlib
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))
import kcc  # noqa: E402

ROWS, COLUMNS = 512, 4096
TRUNCATE = {"weight": {"mode": "truncate", "level": "token", "high": 2.0}}
REJECT = {**TRUNCATE, "reject": [{"statistic": "k1", "aggregate": "sequence_mean", "low": 0.99, "high": 1.01}]}
# Large blocks are mapped when asked for and given back when freed.
MALLOC = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
# Arrays that a step may take beside the caller's.
LIMITS = {"truncate": 1.05, "reject": 1.3, "in-place": 1.05}


def status_bytes(field):
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return 1024 * int(line.split()[1])
    raise SystemExit(f"/proc/self/status has no {field}")


def peak_of(function):
    """How far the process's memory rises while the function runs, and what it returns."""
    pathlib.Path("/proc/self/clear_refs").write_text("5")  # the high-water mark becomes what is used now
    before = status_bytes("VmRSS")
    result = function()
    return status_bytes("VmHWM") - before, result


def measure(kind, threads):
    rng = np.random.default_rng(1)
    rollout = -0.3 - np.abs(rng.standard_normal((ROWS, COLUMNS), np.float32))
    train = rollout + np.float32(0.02) * rng.standard_normal((ROWS, COLUMNS), np.float32)
    mask = np.arange(COLUMNS)[None, :] < rng.integers(1, COLUMNS + 1, (ROWS, 1))
    correction = TRUNCATE if kind == "truncate" else REJECT

    def step(rows):
        out = (None, mask[:rows]) if kind == "in-place" else None
        summary, corrected = kcc.rl.step(
            train[:rows], rollout[:rows], mask[:rows], correction=correction, out=out, threads=threads
        )
        return summary.judge({"tv_rows": 0.05, "token.k3": 0.001}), corrected

    step(8)  # the library's own pages, and threads' stacks
    peak, (judged, corrected) = peak_of(lambda: step(ROWS))
    assert [each["outcome"] for each in judged] == ["satisfied", "satisfied"], judged
    wanted = np.where(corrected.mask, np.minimum(np.exp(train.astype(np.float64) - rollout), 2.0), 0)
    np.testing.assert_allclose(corrected.weights, wanted, rtol=1e-6)
    return peak, train.nbytes


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--kind", choices=sorted(LIMITS), default="truncate")
    options = parser.parse_args()
    if not MALLOC.items() <= os.environ.items():
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **MALLOC})
    peak, array = measure(options.kind, options.threads)
    arrays = peak / array
    print(json.dumps({"kind": options.kind, "threads": options.threads, "tokens": ROWS * COLUMNS,
                      "extra_mib": round(peak / 2**20, 2), "extra_arrays": round(arrays, 3),
                      "limit": LIMITS[options.kind]}))
    return int(arrays > LIMITS[options.kind])


if __name__ == "__main__":
    sys.exit(main())
