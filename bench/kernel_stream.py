#!/usr/bin/env python3
"""Full logits through two exec kernels: how much memory and disk a run takes that would fill both.

    bench/kernel_stream.py [--tokens 100000] [--vocab 32000] [--scratch DIR]

Fails if kcc's resident memory passes 1 GiB, or if a temporary file or a side's directory is larger than one
batch. The kernels write prepared rows, so the time is kcc's and the file system's.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
GIB = 1 << 30


def kernel(vocab, noise):
    """The program under `exec:`: one block of rows, handed out for every request."""
    sys.path.insert(0, str(ROOT / "python"))
    import numpy as np

    from kcc.kernels.protocol import serve

    class Prepared:
        def __init__(self):
            rng = np.random.default_rng(1)
            self.block = rng.normal(size=(64, vocab)).astype(np.float32)
            self.block += noise * rng.normal(size=self.block.shape).astype(np.float32) * (noise > 0)

        def hello(self):
            return {"fingerprint": f"prepared noise={noise}", "vocabSize": vocab, "evidence": "logits", "semantics": "raw"}

        def score(self, requests, file):
            for request in requests:
                left = len(request.tokens) - request.prompt_tokens
                while left > 0:
                    file.append(self.block[: min(left, 64)])
                    left -= 64

    serve(Prepared())


def disk_use(folder):
    """(largest file, largest side) in bytes, now."""
    largest, sides = 0, {}
    for base, _, names in os.walk(folder):
        for name in names:
            try:
                size = os.stat(os.path.join(base, name)).st_size
            except FileNotFoundError:
                continue
            largest = max(largest, size)
            side = "train" if "/train" in base else "infer"
            sides[side] = sides.get(side, 0) + size
    return largest, max(sides.values(), default=0)


def resident_peak(pid):
    try:
        for line in open(f"/proc/{pid}/status"):
            if line.startswith("VmHWM"):
                return int(line.split()[1]) * 1024
    except (FileNotFoundError, ProcessLookupError):
        pass
    return 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tokens", type=int, default=100_000)
    parser.add_argument("--vocab", type=int, default=32_000)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--scratch")
    parser.add_argument("--kernel", type=float, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.kernel is not None:
        return kernel(args.vocab, args.kernel)

    per_request = 500
    with tempfile.TemporaryDirectory(dir=args.scratch) as folder:
        folder = pathlib.Path(folder)
        scratch = folder / "scratch"
        scratch.mkdir()
        with open(folder / "r.jsonl", "w") as out:
            for i in range(args.tokens // per_request):
                out.write(json.dumps({"id": str(i), "prompt": [1], "output": [(i + t) % args.vocab for t in range(per_request)]}) + "\n")
        me = f"exec:{sys.executable} {__file__} --vocab {args.vocab} --kernel"
        started = time.monotonic()
        run = subprocess.Popen([os.environ.get("KCC_BINARY", ROOT / "build/kcc"), "measure", f"{me} 0", f"{me} 0.01", "--requests", folder / "r.jsonl",
                                "--batch", str(args.batch), "--scratch", scratch, "-o", folder / "s.kccs", "--json"],
                               stdout=subprocess.PIPE, text=True)
        memory = file = side = 0
        while run.poll() is None:
            memory = max(memory, resident_peak(run.pid))
            now_file, now_side = disk_use(scratch)
            file, side = max(file, now_file), max(side, now_side)
            time.sleep(0.01)
        seconds = time.monotonic() - started
        said = json.loads(run.stdout.read())
        assert run.returncode == 0 and said["tokens"] == args.tokens and said["complete"], said
        assert not list(scratch.iterdir())
    batch = args.batch * per_request * (args.vocab * 4 + 12) + (1 << 20)  # and its requests
    whole = args.tokens * args.vocab * 4
    print(f"{args.tokens} tokens, V = {args.vocab}: {whole / 1e9:.1f} GB a side in {seconds:.1f} s "
          f"({2 * whole / seconds / 1e9:.2f} GB/s both)")
    print(f"kcc's resident memory {memory / 1e6:.0f} MB, largest file {file / 1e6:.0f} MB, "
          f"largest side {side / 1e6:.0f} MB; one batch is {batch / 1e6:.0f} MB")
    assert 0 < memory < GIB, "more than 1 GiB of memory"
    assert 0 < file <= batch and side <= batch, "more on disk than one batch"


if __name__ == "__main__":
    main()
