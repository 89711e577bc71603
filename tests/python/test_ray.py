"""Shards measured as Ray tasks give the bytes of one process.

Run with the program under test: KCC_BINARY=build/release/apps/kcc/kcc pytest tests/python
"""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest

import run_docs
from kcc import ray as kcc_ray
from kcc.trace import write_trace

BINARY = str(run_docs.kcc_binary())  # as every other test finds it; without one they all fail


def needs_ray():
    return pytest.importorskip("ray", reason="Ray is not installed: pip install ray")


def write_kernel(directory, noise, requests=13, tokens=4, vocab=32):
    """A small scored trace with full logits; `noise` tells the two kernels apart."""
    rows = requests * tokens
    base = np.random.default_rng(1).normal(0, 3, (rows, vocab))
    extra = np.random.default_rng(2).normal(0, noise, (rows, vocab)) if noise else 0
    tensors = {
        "request": np.repeat(np.arange(requests, dtype=np.int32), tokens),
        "position": np.tile(np.arange(1, tokens + 1, dtype=np.int32), requests),
        "token": (np.arange(rows) % vocab).astype(np.int32),
        "logits": (base + extra).astype(np.float32),
    }
    lines = [{"id": f"r{r}", "prompt_tokens": 1, "output_tokens": tokens} for r in range(requests)]
    info = {"kernelFingerprint": f"kernel-{noise}", "vocabSize": vocab}
    return write_trace(directory, info, lines, tensors)


@pytest.fixture()
def traces(tmp_path):
    return write_kernel(tmp_path / "train", 0.0), write_kernel(tmp_path / "infer", 0.01)


def single_process(traces, output):
    train, infer = map(str, traces)
    kcc_ray.run_command(kcc_ray.measure_command(BINARY, train, infer, str(output)))
    return output.read_bytes()


def test_command_line_names_the_shard_and_the_contract():
    command = kcc_ray.measure_command("kcc", "a", "b", "s.kccs", "c.yaml", (2, 7), 3)
    assert command == [
        "kcc", "measure", "a", "b", "--threads", "3", "-o", "s.kccs",
        "--contract", "c.yaml", "--shard", "2/7",
    ]
    with pytest.raises(ValueError, match="counts from 1"):
        kcc_ray.measure_command("kcc", "a", "b", "s", shard=(0, 3))


def test_a_failing_command_is_an_error_with_its_words(tmp_path):
    command = [sys.executable, "-c", "import sys; sys.exit('no such trace')"]
    with pytest.raises(kcc_ray.KccError, match="no such trace") as caught:
        kcc_ray.run_command(command)
    assert caught.value.returncode == 1


def test_shards_merged_in_any_order_are_the_bytes_of_one_process(traces, tmp_path):
    whole = single_process(traces, tmp_path / "whole.kccs")
    train, infer = map(str, traces)
    parts = [kcc_ray.measure_shard(BINARY, train, infer, None, i, 3, 1) for i in (1, 2, 3)]
    for order in ((0, 1, 2), (2, 0, 1)):
        merged = tmp_path / "merged.kccs"
        kcc_ray.merge_parts(BINARY, [parts[i] for i in order], str(merged))
        assert merged.read_bytes() == whole


RAY_RUN = """
import sys, ray
from kcc import ray as kcc_ray
binary, train, infer, gone, output, lost = sys.argv[1:]
ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
kcc_ray.measure(train, infer, output=output, shards=4, kcc_binary=binary)
try:
    kcc_ray.measure(train, gone, output=lost, shards=2, kcc_binary=binary)
except kcc_ray.KccError as error:
    print("refused:", error)
ray.shutdown()
"""


def run_ray(arguments):
    """Ray (2.60) now and then aborts its driver by a failed check of its own: hence a process of its
    own, and again if that, and nothing else, is what happened."""
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", RAY_RUN, *map(str, arguments)], capture_output=True, text=True,
                              timeout=300, env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)})
        if not (done.returncode == -signal.SIGABRT and "a bug in Ray" in done.stderr):
            break
    return done


def test_four_ray_tasks_give_the_bytes_of_one_process(traces, tmp_path):
    needs_ray()
    whole = single_process(traces, tmp_path / "whole.kccs")
    done = run_ray([BINARY, *traces, tmp_path / "gone", tmp_path / "ray.kccs", tmp_path / "x.kccs"])
    assert done.returncode == 0, done.stderr
    assert "refused:" in done.stdout
    assert (tmp_path / "ray.kccs").read_bytes() == whole
    assert not (tmp_path / "x.kccs").exists()
