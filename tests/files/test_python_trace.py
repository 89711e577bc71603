"""kcc.trace.write_trace: a trace appears whole or not at all, and leftovers of a killed writer go with the next one."""

import os
import signal
import subprocess
import sys

import numpy as np
import outputs
import pytest
from kcc import trace

COLUMNS = {"request": np.zeros(1, np.int32), "position": np.ones(1, np.int32), "token": np.ones(1, np.int32), "logits": np.zeros((1, 4), np.float32)}
REQUESTS = [{"id": "a", "prompt_tokens": 1, "output_tokens": 1}]


def write(path):
    return trace.write_trace(path, {"vocabSize": 4}, REQUESTS, COLUMNS)


def test_a_trace_that_fails_leaves_nothing(tmp_path, monkeypatch):
    def fail(path, tensors):
        raise OSError("full")

    monkeypatch.setattr(trace, "write_safetensors", fail)
    with pytest.raises(OSError, match="full"):
        write(tmp_path / "t")
    assert os.listdir(tmp_path) == []


def test_what_exists_is_not_replaced(tmp_path, kcc):
    assert kcc("trace", "info", write(tmp_path / "below" / "t")).code == 0
    with pytest.raises(FileExistsError):
        write(tmp_path / "below" / "t")
    assert os.listdir(tmp_path / "below") == ["t"]


@pytest.mark.parametrize("next_writer", ["Python", "the program"])
def test_a_killed_writer(tmp_path, kcc, inputs, next_writer):
    program = f"""
import os, signal, sys
sys.path[:0] = {sys.path!r}
import test_python_trace
from kcc import trace
trace.write_safetensors = lambda path, tensors: os.kill(os.getpid(), signal.SIGKILL)
test_python_trace.write({str(tmp_path / "t")!r})
"""
    done = subprocess.run([sys.executable, "-c", program], check=False, cwd=outputs.ROOT / "tests/files")
    assert done.returncode == -signal.SIGKILL
    (left,) = os.listdir(tmp_path)
    assert outputs.TEMPORARY.fullmatch(left)
    if next_writer == "Python":
        write(tmp_path / "t")
        assert os.listdir(tmp_path) == ["t"]
    else:
        assert kcc("measure", inputs / "train", inputs / "infer", "-o", tmp_path / "s.kccs").code == 0
        assert os.listdir(tmp_path) == ["s.kccs"]
