#!/usr/bin/env python3
"""Import speed: logits of NumPy beside a plain copy of the same file, and recorded responses.

    import_bench.py KCC_PROGRAM [--json FILE]

Each import is verified (kcc trace info counts the tokens) before its time is told; best of three.
"""

import argparse
import json
import pathlib
import shutil
import subprocess
import tempfile
import time

import numpy as np

VOCAB, TOKENS, RESPONSES = 32000, 2048, 2000


def best(work, runs=3):
    seconds = []
    for _ in range(runs):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kcc")
    parser.add_argument("--json", help="also write the figures to this file")
    args = parser.parse_args()

    def kcc(*arguments):
        return subprocess.run([args.kcc, *map(str, arguments)], check=True, capture_output=True,
                              text=True).stdout

    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        random = np.random.default_rng(7)
        rows = random.standard_normal((64, VOCAB)).astype(np.float32)
        source = folder / "rows.npz"
        np.savez(source, token=random.integers(0, VOCAB, TOKENS).astype(np.int32),
                 logits=np.tile(rows, (TOKENS // 64, 1)))
        gigabytes = source.stat().st_size / 1e9
        copy = best(lambda: shutil.copyfile(source, folder / "copy"))
        npy = best(lambda: kcc("import", "npy", source, "-o", folder / "npy", "--fingerprint", "x",
                               "--replace"))
        assert str(TOKENS) in kcc("trace", "info", folder / "npy")

        sample = pathlib.Path("tests/data/import/vllm/completions_output.jsonl")
        lines = sample.read_text(encoding="utf-8").splitlines()
        responses = folder / "responses.jsonl"
        with responses.open("w", encoding="utf-8") as file:
            for i in range(RESPONSES):
                record = json.loads(lines[i % len(lines)])
                record["id"] = f"response-{i}"
                file.write(json.dumps(record) + "\n")
        megabytes = responses.stat().st_size / 1e6
        vllm = best(lambda: kcc("import", "vllm", responses, "-o", folder / "vllm", "--fingerprint",
                                "x", "--vocab-size", "200000", "--replace"))

    print(f"npy: {gigabytes / npy:.2f} GB/s of logits; copying the file {gigabytes / copy:.2f} GB/s")
    print(f"vllm: {RESPONSES / vllm:.0f} responses/s, {megabytes / vllm:.1f} MB/s of JSON")
    if args.json:
        figures = {"npyGBps": gigabytes / npy, "copyGBps": gigabytes / copy,
                   "vllmResponsesPerSecond": RESPONSES / vllm, "vllmMBps": megabytes / vllm}
        pathlib.Path(args.json).write_text(json.dumps(figures, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
