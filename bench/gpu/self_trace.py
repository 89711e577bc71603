#!/usr/bin/env python3
"""The CUDA backend's lines for contracts/kcc-self.yaml, in the form of bench/self_trace.cc, on rows
that come from a file of float32 logits: [2, rows, vocab], train then infer.

    python3 bench/gpu/self_trace.py LOGITS.npy > cuda.txt
    python3 bench/gpu/self_trace.py LOGITS.npy --reference > reference.txt
"""

import argparse
import pathlib
import sys

import numpy as np
import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
from kcc import cuda  # noqa: E402


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("logits")
    parser.add_argument("--reference", action="store_true", help="float64 on the CPU instead")
    options = parser.parse_args()
    train, infer = (torch.from_numpy(side) for side in np.load(options.logits))
    if options.reference:
        log_q = torch.log_softmax(infer.double(), -1)
        token = log_q.argmax(-1)
        logprob = log_q.gather(1, token.unsqueeze(1)).squeeze(1)
    else:
        token = infer.argmax(-1).int()
        drift = cuda.measure(train.cuda(), infer.cuda(), tokens=token).check()
        logprob = drift["logprob"].cpu()
    for i, (at, value) in enumerate(zip(token.tolist(), logprob.tolist())):
        print(i, at, repr(value), "peaked" if value > -1e-3 else "flat")


if __name__ == "__main__":
    main()
