#!/usr/bin/env python3
"""docs/results/gpu.md from what bench/gpu/run.sh left in a folder: timing.json, compare.json,
verify.txt. The date is that of timing.json; driver and commit are asked of the machine."""

import datetime
import json
import pathlib
import subprocess
import sys


def ask(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stdout.strip() or "unknown"


def main():
    folder = pathlib.Path(sys.argv[1])
    timing = json.loads((folder / "timing.json").read_text())
    compare = json.loads((folder / "compare.json").read_text())
    date = datetime.date.fromtimestamp((folder / "timing.json").stat().st_mtime)
    driver = ask("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")
    print("# The drift engine on a GPU: figures\n")
    print(f"{timing['device']}, driver {driver}, PyTorch {compare['torch']}, {date}, commit "
          f"{ask('git', 'rev-parse', '--short', 'HEAD')}. Medians of device events after warm-up; "
          f"copy {timing['copy_tbs']:.2f} TB/s, read {timing['read_tbs']:.2f} TB/s.\n")
    print("| rows, vocabulary, format | ms | TB/s | one read, ms | share of it |\n|---|---|---|---|---|")
    for row in timing["rows"]:
        share = 100 * row["floor_ms"] / row["ms"]
        print(f"| {row['name']} | {row['ms']:.3f} | {row['gigabytes'] / row['ms']:.2f} | "
              f"{row['floor_ms']:.3f} | {share:.0f} % |")
    print("\n| T = 4,096, V = 128,256, BF16 | ms |\n|---|---|")
    for name, value in compare["ms"].items():
        print(f"| {name} | {value:.3f} |")
    step = compare.get("step")
    if step:
        plain = step["forward_backward_ms"]
        print(f"\nA training step of {step['parameters'] / 1e9:.2f} B parameters at 8 x 2,048: forward "
              f"{step['forward_ms']:.1f} ms, forward and backward {plain:.1f} ms; with measuring "
              f"{step['with_measure_ms']:.1f} ms ({100 * (step['with_measure_ms'] / plain - 1):+.1f} %), "
              f"on a side stream {step['with_measure_side_stream_ms']:.1f} ms; measuring alone "
              f"{step['measure_ms']:.2f} ms. With `kcc.Monitor` judging a contract on both sides' logits, begun before "
              f"the backward pass and finished after it was started, {step['with_monitor_ms']:.1f} ms "
              f"({100 * compare['monitor_share']:+.1f} %); in one call before it {step['with_monitor_at_once_ms']:.1f} ms.")
    print("\n```\n" + (folder / "verify.txt").read_text().strip() + "\n```")


if __name__ == "__main__":
    main()
