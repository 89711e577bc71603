"""kcc promote advance --watch: it follows what others write, waits without a busy loop, and ends."""

import queue
import resource
import signal
import subprocess
import threading
import time

import pytest

FIXED = "f3e7896a"  # the beginning of the triple's digest
POLICY = """
apiVersion: kcc/v1
kind: PromotionPolicy
metadata: {name: p, version: 1.0.0}
spec:
  offline: {%s}
  full: {}
"""


class Watched:
    def __init__(self, kcc, kcc_path, uri, folder, offline=""):
        self.kcc, self.path, self.uri, self.folder = kcc, kcc_path, uri, folder
        (folder / "policy.yaml").write_text(POLICY % offline)
        self.judge()
        done = self.promote("start", "p", "--lane", "chat", "--policy", folder / "policy.yaml", "--candidate", FIXED, "--actor", "ann")
        assert done.code == 0, done.err

    def promote(self, *words):
        return self.kcc("promote", *words, "--register", self.uri)

    def judge(self, infer="fixed"):
        done = self.kcc("run", "examples/contract.yaml", "examples/traces/train", f"examples/traces/{infer}",
                        "--model", "tiny-1", "--register", self.uri)  # fmt: skip
        assert "recorded as evaluation" in done.out, done.err

    def watch(self, *more):
        """A running watch, and its lines as they come."""
        process = subprocess.Popen(
            [self.path, "promote", "advance", "p", "--watch", "--interval", "0.2", *more, "--register", self.uri],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # fmt: skip
        lines = queue.Queue()

        def read():
            for line in process.stdout:
                lines.put(line)

        threading.Thread(target=read, daemon=True).start()
        return process, lines


@pytest.fixture
def watched(kcc, kcc_path, uri, tmp_path):
    return lambda offline="": Watched(kcc, kcc_path, uri, tmp_path, offline)


def until(lines, words, seconds=60):
    """The first line with these words."""
    end = time.monotonic() + seconds
    while True:
        line = lines.get(timeout=max(0.01, end - time.monotonic()))
        if words in line:
            return line


def test_it_sees_what_others_record_and_ends_with_the_promotion(watched):
    w = watched()
    process, lines = w.watch()
    until(lines, "there is no evidence of this stage yet")
    w.judge()
    until(lines, "offline → full")
    assert process.poll() is None  # full, and not settled yet
    assert w.promote("abort", "p", "--why", "enough", "--actor", "ann").code == 0
    assert process.wait(60) == 1  # rolled back


def test_a_deadline_passes_while_nobody_writes(watched):
    w = watched("deadline: 2s, onDeadline: reject")
    process, lines = w.watch()
    assert "the deadline of 2s passed" in until(lines, "offline → rejected")
    assert process.wait(60) == 1


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_waiting(watched, how):
    w = watched()
    process, lines = w.watch()
    until(lines, "it waits")
    process.send_signal(how)
    assert process.wait(60) == -how
    assert w.kcc("register", "verify", "--register", w.uri).code == 0


def test_it_waits_without_work_and_stops_at_its_time(watched):
    w = watched()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.time()
    end = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(began + 4))
    process, lines = w.watch("--until", end)
    assert process.wait(60) == 3
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert time.time() - began >= 2.5
    # Twenty looks at the head, and the start of the program.
    assert used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime < 1
    assert "it waits" in lines.get(timeout=10)
    assert lines.empty()  # nothing is said twice


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--watch", "--time", "2026-11-18T08:00:00Z"], "from the clock"),
        (["--until", "2026-11-18"], "--watch"),
        (["--watch", "--until", "soon"], "soon"),
        (["--watch", "--interval", "0"], "--interval"),
    ],
)
def test_what_is_asked_wrongly_is_told(watched, more, says):
    w = watched()
    done = w.promote("advance", "p", *more)
    assert (done.code, says in done.err) == (2, True), done.err
