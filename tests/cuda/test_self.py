"""kcc's own backends as kernels under contracts/kcc-self.yaml, judged by the program itself."""

import pathlib
import subprocess

import numpy as np
import pytest

from kcc.trace import write_trace

ROOT = pathlib.Path(__file__).resolve().parents[2]


def self_trace(kcc_path, directory, backend, spoil=0.0):
    program = pathlib.Path(kcc_path).resolve().parents[2] / "bench" / "self_trace"
    done = subprocess.run([program, backend], capture_output=True, text=True)
    if done.returncode == 77 and backend.startswith("avx"):
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines()]
    columns = {
        "request": np.arange(len(rows), dtype=np.int32),
        "position": np.ones(len(rows), dtype=np.int32),
        "token": np.array([int(row[1]) for row in rows], dtype=np.int32),
        "logprob": np.array([float(row[2]) for row in rows], dtype=np.float32) + np.float32(spoil),
    }
    lines = [{"id": f"row{i:04d}", "prompt_tokens": 1, "output_tokens": 1, "ordinal": i,
              "tags": [row[3]], "kernel_fingerprint": f"kcc-{backend}"} for i, row in enumerate(rows)]
    info = {"vocabSize": 4000, "evidence": "sampled-token", "kernelFingerprint": f"kcc-{backend}"}
    return write_trace(directory, info, lines, columns)


@pytest.mark.parametrize("backend, spoil, code", [
    ("scalar", 0, 0), ("avx2", 0, 0), ("avx512", 0, 0), ("scalar", -1e-4, 1)])
def test_the_fast_backend_measures_what_the_reference_measures(kcc, kcc_path, tmp_path, backend,
                                                               spoil, code):
    train = self_trace(kcc_path, tmp_path / "train", "reference")
    infer = self_trace(kcc_path, tmp_path / "infer", backend, spoil)
    done = kcc("run", ROOT / "contracts/kcc-self.yaml", "--train", train, "--infer", infer)
    assert done.code == code, done.out + done.err
    assert ("✗ N-1" in done.out) == (spoil != 0), done.out
