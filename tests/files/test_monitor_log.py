"""The decision log and the state of kcc monitor when the disk fails, when the program is killed, and beside another writer: what was told
is in the log, and whoever goes on ends with the log and the state of a run that nothing happened to."""

import os
import random
import re
import signal
import subprocess
import time

import outputs
import pytest

EXAMPLE = outputs.ROOT / "examples/monitor"
CONTRACT, POLICY = EXAMPLE / "contract.yaml", EXAMPLE / "policy.yaml"
LINES = (EXAMPLE / "observations.jsonl").read_text().splitlines(keepends=True)[:400]  # until after the guard
LOG, STATE = "d.jsonl", "d.state"
REASONS = {"ENOSPC": "No space left on device", "FULL": "No space left on device", "EIO": "Input/output error"}
WRITES = ("write", "pwrite")
KINDS = ("ENOSPC", "FULL", "EIO", "SHORT")
TOLD = re.compile(r"^(\d+) .*\n", re.M)


class Watch:
    """kcc monitor run on one input, whose log and state are all that lies in a directory."""

    def __init__(self, kcc_path, tmp_path):
        self.directory, self.observations = tmp_path / "out", tmp_path / "observations.jsonl"
        self.directory.mkdir()
        self.observations.write_text("".join(LINES))
        self.begin = [str(kcc_path), "monitor", "run", str(CONTRACT)]
        self.end = ["--policy", str(POLICY), "--log", str(self.directory / LOG), "--state", str(self.directory / STATE),
                    "--sync", "20", "--save", "50"]  # fmt: skip
        begun = time.monotonic()
        done = self.run()
        self.seconds = time.monotonic() - begun
        assert done.returncode == 1, done.stderr  # guarded at its end
        self.whole, left = outputs.read(self.directory)
        assert set(self.whole) == {LOG, STATE} and left == []
        self.empty()

    def empty(self):
        for path in self.directory.iterdir():
            path.unlink()

    def start(self, env=None, stdin=subprocess.DEVNULL):
        command = [*self.begin, *([] if stdin == subprocess.PIPE else [str(self.observations), "--skip-folded"]), *self.end]
        return subprocess.Popen(command, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=outputs.ROOT,
                                env=os.environ | (env or {}))  # fmt: skip

    def run(self, env=None):
        process = self.start(env)
        out, err = process.communicate(timeout=60)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def check_left(self, told, story, killed=False):
        """What stands there after a run that was stopped, and a run that goes on from it."""
        seen, left = outputs.read(self.directory)
        log = seen.get(LOG, b"")
        assert self.whole[LOG].startswith(log), f"{story}\nthe log is not the beginning of the whole one"
        assert killed or left == [], story
        assert max(map(int, TOLD.findall(told)), default=0) <= max(0, log.count(b"\n") - 1), f"{story}\nwhat was told is not in the log"
        cut = len(log) - log.rfind(b"\n") - 1
        again = self.run()
        assert again.returncode == 1, f"{story}\nthe next run: {again.stderr}"
        assert (f"cut after {cut} bytes" in again.stderr) == (cut > 0), f"{story}\nthe next run: {again.stderr}"
        assert outputs.read(self.directory) == (self.whole, []), f"{story}\nthe next run ends with another log or state"


@pytest.fixture
def watch(kcc_path, tmp_path):
    return Watch(kcc_path, tmp_path)


def calls(watch, faults, tmp_path):
    log = tmp_path / "calls"
    assert watch.run(faults(watch.directory, log=log)).returncode == 1
    return log.read_text().split()


def check(watch, faults, kind, at):
    watch.empty()
    done = watch.run(faults(watch.directory, kind, at))
    story = f"{kind} at call {at}: exit code {done.returncode}\n{done.stderr}"
    if done.returncode == 1:
        assert outputs.read(watch.directory) == (watch.whole, []), story
        return
    assert done.returncode == 4 and kind != "SHORT", story
    assert REASONS[kind] in done.stderr and str(watch.directory) in done.stderr, story
    watch.check_left(done.stdout, story)


def test_a_few_calls_that_fail(watch, faults, tmp_path):
    made = calls(watch, faults, tmp_path)
    assert {"write", "fsync", "fdatasync"} <= set(made) and {"rename", "renameat2"} & set(made), made
    chosen = random.Random("log")
    for kind in KINDS:
        candidates = [n for n, call in enumerate(made, 1) if kind != "SHORT" or call in WRITES]
        for at in {1, *chosen.sample(candidates, 2)}:
            check(watch, faults, kind, at)
        # A call of each kind, since nearly all are writes of lines.
        for call in sorted(set(made)):
            if kind != "SHORT" or call in WRITES:
                check(watch, faults, kind, chosen.choice([n for n, name in enumerate(made, 1) if name == call]))


@pytest.mark.slow
def test_every_call_that_fails(watch, faults, tmp_path):
    made = calls(watch, faults, tmp_path)
    for at, call in enumerate(made, 1):
        for kind in KINDS:
            if kind != "SHORT" or call in WRITES:
                check(watch, faults, kind, at)


@pytest.mark.parametrize("runs", [10, pytest.param(200, marks=pytest.mark.slow)])
def test_killed_runs(watch, faults, tmp_path, runs):
    """Half of them at a random moment, half before a random call that changes a file; some several times before they end."""
    made = len(calls(watch, faults, tmp_path))
    chosen = random.Random(runs)
    killed = 0
    for i in range(runs):
        watch.empty()
        told = ""
        for _ in range(chosen.randint(1, 3)):
            process = watch.start(faults(watch.directory, "KILL", chosen.randint(1, made)) if i % 2 == 0 else None)
            try:
                told, _ = process.communicate(timeout=60 if i % 2 == 0 else chosen.uniform(0, watch.seconds))
            except subprocess.TimeoutExpired:
                process.kill()
                told, _ = process.communicate()
            assert process.returncode in (1, -signal.SIGKILL), process.returncode
            killed += process.returncode == -signal.SIGKILL
        watch.check_left(told, f"run {i}", killed=True)
    assert killed > 0, "no run was killed in time: the test shows nothing"


@pytest.mark.parametrize("runs", [10, pytest.param(200, marks=pytest.mark.slow)])
def test_two_writers_at_the_same_time(watch, runs):
    """One of them writes; the other is refused, or goes on after it."""
    for i in range(runs):
        watch.empty()
        writers = [watch.start(), watch.start()]
        ended = [(*writer.communicate(timeout=60), writer.returncode) for writer in writers]
        assert all(code == 1 or (code == 2 and "another monitor is writing this log" in err) for _, err, code in ended), ended
        assert 1 in [code for _, _, code in ended], ended
        assert outputs.read(watch.directory) == (watch.whole, []), f"run {i}: {ended}"


def test_beside_a_writer(watch, kcc):
    """While one run holds the log another is refused and changes nothing, and a replay reads what is there."""
    writer = watch.start(stdin=subprocess.PIPE)
    writer.stdin.writelines(LINES[:350])
    writer.stdin.flush()
    told = writer.stdout.readline()  # the alarm
    assert TOLD.match(told), told
    before = (watch.directory / LOG).read_bytes()
    second = watch.run()
    assert second.returncode == 2 and "another monitor is writing this log" in second.stderr and LOG in second.stderr
    replayed = kcc("monitor", "replay", watch.directory / LOG, "--contract", CONTRACT, "--policy", POLICY)
    assert replayed.code == 0 or "is cut after" in replayed.out, replayed.out  # of a line that is being written
    writer.stdin.writelines(LINES[350:])
    out, err = writer.communicate(timeout=60)
    assert writer.returncode == 1, err
    assert watch.whole[LOG].startswith(before) and outputs.read(watch.directory) == (watch.whole, [])


def test_what_is_no_file_is_refused_and_not_waited_for(kcc, tmp_path):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    (tmp_path / "observed.jsonl").write_text("".join(LINES[:3]))
    run = ["monitor", "run", CONTRACT, tmp_path / "observed.jsonl", "--policy", POLICY]
    replay = ["monitor", "replay", "--contract", CONTRACT, "--policy", POLICY]
    for words in ([*run, "--log"], [*run, "--state"], replay):
        for name in ("fifo", "folder"):
            done = kcc(*words, tmp_path / name)
            assert done.code in (2, 4) and str(tmp_path / name) in done.err and len(done.err.splitlines()) == 1, (words, done.err)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fifo", "folder", "observed.jsonl"]
    assert list((tmp_path / "folder").iterdir()) == [] and (tmp_path / "fifo").is_fifo()
