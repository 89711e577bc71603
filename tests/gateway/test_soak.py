"""A minute of the soak (`make soak` runs half an hour)."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_a_minute_of_everything_going_wrong(kcc_path, tmp_path):
    report = tmp_path / "soak.json"
    done = subprocess.run([sys.executable, ROOT / "tools/soak.py", "--seconds", "60", "--clients", "16", "--json", report], text=True,
                          capture_output=True, timeout=240, env=os.environ | {"KCC_BINARY": str(kcc_path)}, check=False)  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    seen = json.loads(report.read_text())
    assert seen["failed"] == [] and seen["clients"]["scripted"]["right"] > 500 and seen["counts"]["retried"] > 0
