#!/usr/bin/env python3
"""The same quantities with NumPy and PyTorch, on the same kind of rows, for the ratio lines.

    compare_numpy_torch.py DRIFT_BENCH_JSON [--threads N] [--rows N] [--json FILE]

Computes the timed list of drift_bench (span, linf, l2, kl, reverse_kl, tv, chi2, both entropies,
margins, log-ratio, top-1/5/10 overlap) as a user would write it in float32, row by row and as a
batch, takes the faster, and prints the ratio to the figures of a drift_bench --json run with the
same threads. NumPy always runs on one thread.
"""

import argparse
import json
import statistics
import time

import numpy as np


def rows(count, vocab, sigma):
    random = np.random.default_rng(42)
    train = (-1 + 2.3 * random.standard_normal((count, vocab))).astype(np.float32)
    for i in range(count):
        at = random.integers(0, vocab, 30)
        train[i, at] = 8 + 3 * np.abs(random.standard_normal(30))
        if i % 4 == 3:
            train[i] *= 2
    infer = train + (sigma * random.standard_normal((count, vocab))).astype(np.float32)
    return train, infer, random.integers(0, vocab, count)


def bfloat16_bits(z):
    """Rounded to nearest even, as uint16."""
    bits = z.view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def widened(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


def with_numpy(a, b, y):
    d = b - a
    high, low = d.max(-1), d.min(-1)
    l2 = np.linalg.norm(d - d.mean(-1, keepdims=True), axis=-1)
    la = a - a.max(-1, keepdims=True)
    la -= np.log(np.exp(la).sum(-1, keepdims=True))
    lb = b - b.max(-1, keepdims=True)
    lb -= np.log(np.exp(lb).sum(-1, keepdims=True))
    p, q = np.exp(la), np.exp(lb)
    out = [high - low, (high - low) / 2, l2]
    out += [(p * (la - lb)).sum(-1), (q * (lb - la)).sum(-1), np.abs(p - q).sum(-1) / 2]
    out += [((p - q) ** 2 / q).sum(-1), -(p * la).sum(-1), -(q * lb).sum(-1)]
    ta = np.argpartition(-a, 10, -1)[..., :10]
    tb = np.argpartition(-b, 10, -1)[..., :10]
    ta = np.take_along_axis(ta, np.argsort(-np.take_along_axis(a, ta, -1), -1), -1)
    tb = np.take_along_axis(tb, np.argsort(-np.take_along_axis(b, tb, -1), -1), -1)
    for t, z in ((ta, a), (tb, b)):
        first = np.take_along_axis(z, t[..., :2], -1)
        out.append(first[..., 0] - first[..., 1])
    for k in (1, 5, 10):
        out.append((ta[..., :k, None] == tb[..., None, :k]).any(-1).sum(-1) / k)
    y = np.asarray(y)[..., None]
    out.append(np.take_along_axis(la, y, -1) - np.take_along_axis(lb, y, -1))
    return out


def with_torch(torch, a, b, y):
    a, b = a.float(), b.float()
    d = b - a
    high, low = d.amax(-1), d.amin(-1)
    l2 = (d - d.mean(-1, keepdim=True)).norm(dim=-1)
    la, lb = torch.log_softmax(a, -1), torch.log_softmax(b, -1)
    p, q = la.exp(), lb.exp()
    out = [high - low, (high - low) / 2, l2]
    out += [(p * (la - lb)).sum(-1), (q * (lb - la)).sum(-1), (p - q).abs().sum(-1) / 2]
    out += [((p - q) ** 2 / q).sum(-1), -(p * la).sum(-1), -(q * lb).sum(-1)]
    va, ta = a.topk(10, -1)
    vb, tb = b.topk(10, -1)
    out += [va[..., 0] - va[..., 1], vb[..., 0] - vb[..., 1]]
    for k in (1, 5, 10):
        out.append((ta[..., :k, None] == tb[..., None, :k]).any(-1).sum(-1) / k)
    out.append(la.gather(-1, y[..., None]) - lb.gather(-1, y[..., None]))
    return out


def best_us(batch, single, count, runs=5):
    """Median microseconds a pair of the faster way to call it."""

    def timed(work):
        seconds = []
        for _ in range(runs):
            start = time.perf_counter()
            work()
            seconds.append(time.perf_counter() - start)
        return statistics.median(seconds) / count * 1e6

    return min(timed(batch), timed(single))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("figures")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rows", type=int, default=16)
    parser.add_argument("--json", help="also write the ratios to this file")
    args = parser.parse_args()
    with open(args.figures, encoding="utf-8") as file:
        figures = json.load(file)
    import torch

    torch.set_num_threads(args.threads)
    a, b, y = rows(args.rows, figures["vocab"], figures["sigma"])
    n = args.rows
    results = {
        ("F32", "numpy"): best_us(
            lambda: with_numpy(a, b, y), lambda: [with_numpy(a[i], b[i], y[i]) for i in range(n)], n
        )
    }
    # NumPy has no bfloat16: the bits are widened first, as every reader of such rows must.
    ha, hb = bfloat16_bits(a), bfloat16_bits(b)
    results[("BF16", "numpy")] = best_us(
        lambda: with_numpy(widened(ha), widened(hb), y),
        lambda: [with_numpy(widened(ha[i]), widened(hb[i]), y[i]) for i in range(n)],
        n,
    )
    for name, dtype in (("F32", torch.float32), ("BF16", torch.bfloat16)):
        ta, tb, ty = torch.tensor(a, dtype=dtype), torch.tensor(b, dtype=dtype), torch.tensor(y)
        results[(name, "torch")] = best_us(
            lambda: with_torch(torch, ta, tb, ty),
            lambda: [with_torch(torch, ta[i], tb[i], ty[i]) for i in range(n)],
            n,
        )
    print(f"numpy {np.__version__}, torch {torch.__version__}, {args.threads} threads")
    compared = []
    for figure in figures["figures"]:
        if figure["threads"] != args.threads:
            continue
        # drift_bench gives the time of one thread; with t threads t pairs are done in it.
        ours = figure["usPerPair"] / args.threads
        for (dtype, engine), us in results.items():
            if dtype == figure["dtype"] and not (engine == "numpy" and args.threads > 1):
                print(f"{dtype} {figure['target']}: kcc {ours:.1f} us, {engine} {us:.0f} us a pair: "
                      f"{us / ours:.1f}x")
                compared.append({"dtype": dtype, "target": figure["target"], "engine": engine,
                                 "threads": args.threads, "usPerPair": us, "times": us / ours})
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(compared, file, indent=1)


if __name__ == "__main__":
    main()
