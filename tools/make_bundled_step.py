#!/usr/bin/env python3
"""Makes python/kcc/data/step.npz, the RL step that `python -m kcc` judges. Seeded; run by hand."""

import pathlib

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent


def main():
    rng = np.random.default_rng(20261115)
    rows, columns = 32, 64
    lengths = rng.integers(20, columns + 1, rows)
    mask = (np.arange(columns) < lengths[:, None]).astype(np.uint8)
    slices = np.array(["code" if row % 8 == 0 else "math" for row in range(rows)])
    rollout = -rng.gamma(0.6, 0.8, (rows, columns))
    noise = np.where(slices == "code", 0.06, 0.008)[:, None] * rng.standard_normal((rows, columns))
    train = np.minimum(rollout + noise, 0.0)
    arrays = {"train": train.astype(np.float32), "rollout": rollout.astype(np.float32)}
    np.savez_compressed(ROOT / "python/kcc/data/step.npz", mask=mask, slice=slices, **arrays)


if __name__ == "__main__":
    main()
