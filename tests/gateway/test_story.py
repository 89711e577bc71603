"""make gateway-demo: it tells its story to the end, in the order it promises, and leaves nothing running."""

import os
import pathlib
import re
import signal
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEMO = [sys.executable, ROOT / "tools/gateway_demo.py"]


def left_running(folder):
    """Processes whose command names the folder, or whose parent was the demo: those of its own group."""
    found = subprocess.run(["pgrep", "-f", str(folder)], capture_output=True, text=True, check=False)
    return found.stdout.split()


@pytest.mark.slow
def test_the_gateways_story(tmp_path, kcc_path):
    folder = tmp_path / "demo"
    environment = os.environ | {"KCC_BINARY": str(kcc_path)}
    done = subprocess.run([*DEMO, folder], capture_output=True, text=True, timeout=400, env=environment, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    text = done.stdout
    places = [text.index(part) for part in (
        "the dashboard: http://127.0.0.1:", "fp8 serves, and is satisfied", "a fault: fp8 answers arithmetic wrongly",
        "on arithmetic; bf16 serves", "bf16 serves, for", "the fault is gone", "released by evidence", "fp8 serves, for", "done. Every client")]  # fmt: skip
    assert places == sorted(places)
    requests = int(re.search(r"alarm after .* about (\d+) requests", text)[1])
    assert requests < 300, "within a few hundred audited requests"
    served = dict(pair.rsplit(" ", 1) for pair in re.search(r"got its answer: (.*)", text)[1].split(", "))
    assert set(served) == {"fp8", "bf16"} and all(int(count) >= 10 for count in served.values())
    assert left_running(folder) == []


def test_what_it_started_ends_when_it_is_ended(tmp_path, kcc_path):
    folder = tmp_path / "demo"
    environment = os.environ | {"KCC_BINARY": str(kcc_path)}
    with subprocess.Popen([*DEMO, folder], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment) as demo:
        while "the dashboard" not in demo.stdout.readline():
            assert demo.poll() is None, demo.stderr.read()
        demo.send_signal(signal.SIGTERM)
        out, err = demo.communicate(timeout=100)
        assert demo.returncode == 143, out + err
    assert left_running(folder) == []
