"""However kcc ends, the program of an exec kernel and everything it started end too."""

import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def runs(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_until(condition, seconds=10):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


def children_of(pid):
    """Everything below a process, by /proc."""
    parents = {}
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except (FileNotFoundError, ProcessLookupError):
                pass
    below, found = {pid}, set()
    while below:
        below = {child for child, parent in parents.items() if parent in below}
        found |= below
    return found


@pytest.mark.parametrize("fault,end", [("daemon", None), ("daemon-crash", None), ("daemon-hang", signal.SIGTERM),
                                       ("daemon-hang", signal.SIGINT), ("daemon-hang", signal.SIGKILL)])  # fmt: skip
def test_nothing_is_left(kcc_path, tmp_path, fault, end):
    (tmp_path / "r.jsonl").write_text('{"id": "a", "prompt": [1], "output": [2]}\n')
    pids = tmp_path / "pids"
    kernel = f"exec:{sys.executable} {ROOT}/tests/kernel/toy.py {fault} --pid-file {pids}"
    command = [kcc_path, "score", kernel, "--requests", tmp_path / "r.jsonl", "-o", tmp_path / "out"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as kcc:
        try:
            if end is not None:
                wait_until(lambda: pids.exists() and len(pids.read_text().split()) == 2)
                below = children_of(kcc.pid)
                kcc.send_signal(end)
            code = kcc.wait(timeout=30)
        finally:
            kcc.kill()  # so that a failure is not a hang
    assert code == {None: {"daemon": 0}.get(fault, 4)}.get(end, -(end or 0))
    left = [int(pid) for pid in pids.read_text().split()] + ([] if end is None else list(below))
    assert len(left) >= 2
    if end == signal.SIGKILL:  # the supervisor does it, a moment later
        wait_until(lambda: not any(map(runs, left)))
    assert not any(map(runs, left))


def test_a_killed_supervisor_takes_the_program_along(kcc_path, tmp_path):
    (tmp_path / "r.jsonl").write_text('{"id": "a", "prompt": [1], "output": [2]}\n')
    pids = tmp_path / "pids"
    kernel = f"exec:{sys.executable} {ROOT}/tests/kernel/toy.py hang --pid-file {pids}"
    command = [kcc_path, "score", kernel, "--requests", tmp_path / "r.jsonl", "-o", tmp_path / "out"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as kcc:
        wait_until(lambda: pids.exists() and pids.read_text().endswith("\n"))
        program = int(pids.read_text())
        (supervisor,) = children_of(kcc.pid) - {program}
        os.kill(supervisor, signal.SIGKILL)
        _, err = kcc.communicate(timeout=30)
    assert kcc.returncode == 4 and "killed its supervisor" in err
    wait_until(lambda: not runs(program))


def test_a_parent_that_ignores_sigchld_changes_nothing(kcc_path, tmp_path):
    (tmp_path / "r.jsonl").write_text('{"id": "a", "prompt": [1], "output": [2]}\n')
    for fault, code in (("none", 0), ("crash", 4)):
        kernel = f"exec:{sys.executable} {ROOT}/tests/kernel/toy.py {fault}"
        done = subprocess.run([kcc_path, "score", kernel, "--requests", tmp_path / "r.jsonl", "-o", tmp_path / fault],
                              capture_output=True, text=True, timeout=30, check=False,
                              preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))  # fmt: skip
        assert done.returncode == code, done.stderr
    assert "was ended by signal 11 (SIGSEGV)" in done.stderr
