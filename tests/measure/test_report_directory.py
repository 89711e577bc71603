"""--report DIR is one thing: one writer, one run, nothing of an earlier one after a failure, and other people's files untouched."""

import json
import os
import pathlib
import re
import shutil
import signal
import struct
import subprocess
import time

import pytest

import pairs

ROOT = pathlib.Path(__file__).resolve().parents[2]
OURS = {"report.json", "report.html", "report.md", "junit.xml"}
CONTRACT = """
apiVersion: kcc/v1
kind: KernelContract
metadata: {name: directory, version: 1.0.0}
spec:
  decision: {about: evaluation-set}
  numerical:
    - {id: N-1, metric: max_kl, atMost: LIMIT, level: L3}
"""


@pytest.fixture
def world(kcc, kcc_path, tmp_path):
    """A pair of traces, two contracts, and a directory with somebody's notes and a satisfied report."""

    class World:
        out = tmp_path / "out"
        train, infer, *_ = pairs.logits_pair(tmp_path, noise=0.05)

        def contract(self, limit):
            path = tmp_path / f"contract-{limit}.yaml"
            path.write_text(CONTRACT.replace("LIMIT", limit))
            return path

        def run(self, limit="1", infer=None, *more):
            return kcc("run", self.contract(limit), "--train", self.train, "--infer", infer or self.infer, "--report", self.out, *more)

        def start(self, infer):
            """The same in the background."""
            command = [kcc_path, "run", self.contract("1"), "--train", self.train, "--infer", infer, "--report", self.out]
            return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

        def files(self):
            return {path.name for path in self.out.iterdir()}

        def says(self, word):
            return [path.name for path in self.out.iterdir() if word in path.read_text(errors="replace")]

    world = World()
    assert world.run().code == 0
    assert world.says("satisfied")
    (world.out / "notes.txt").write_text("mine")
    return world


@pytest.fixture
def gate(tmp_path):
    """A kernel that says that it was started, waits until it is let go, and fails."""
    started, go = tmp_path / "started", tmp_path / "go"
    os.mkfifo(go)
    script = tmp_path / "gate.sh"
    script.write_text(f'#!/bin/sh\n: > {started}\nread -r _ < {go}\nexit 3\n')
    script.chmod(0o755)

    class Gate:
        uri = f"exec:{script}"

        def wait(self, run):
            deadline = time.monotonic() + 30
            while not started.exists():
                assert run.poll() is None, run.communicate()
                assert time.monotonic() < deadline
                time.sleep(0.01)

        def open(self):
            with open(go, "w") as out:
                out.write("\n")

    return Gate()


def test_a_later_run_replaces_all_of_an_earlier_one(world, kcc):
    assert world.run("1", None, "--sarif").code == 0
    assert world.files() == OURS | {"report.sarif", "notes.txt"}
    assert world.run("1e-9").code == 1
    assert world.files() == OURS | {"notes.txt"}, "a SARIF file of the run before would be of another verdict"
    report = json.loads((world.out / "report.json").read_text())
    assert set(report["files"]) == OURS - {"report.json"}
    assert kcc("report", world.out).code == 0


def test_every_format_of_the_page_has_its_switch_and_its_file(world, kcc):
    """The page is held to the table of formats by report_formats_test.cc."""
    rows = re.findall(r"^\| `(\w+)` \| (?:`([\w.]+)`|none) \| .* \| (.*) \|$", (ROOT / "docs/report.md").read_text(), re.M)
    assert {"json", "html", "terminal"} <= {name for name, _, _ in rows}
    switches = [f"--{name}" for name, _, notes in rows if notes.startswith("with `--")]
    assert "--sarif" in switches
    for command in ("judge", "run", "report"):
        text = kcc(command, "--help").out
        assert all(re.search(rf"^ +{switch} ", text, re.M) for switch in switches), command
    assert world.run("1", None, *switches).code == 0
    assert world.files() == {file for _, file, _ in rows if file} | {"notes.txt"}
    usual = {file for name, file, _ in rows if file and f"--{name}" not in switches}
    assert world.run().code == 0
    assert world.files() == usual | {"notes.txt"} == OURS | {"notes.txt"}


def broken(world, tmp_path):
    """Ways in which a run fails: before, while and instead of reading the evidence."""
    nan = tmp_path / "nan"
    shutil.copytree(world.infer, nan)
    part = sorted(nan.glob("*.safetensors"))[-1]
    part.write_bytes(part.read_bytes()[:-4] + struct.pack("<f", float("nan")))
    engine = tmp_path / "engine.sh"
    engine.write_text("#!/bin/sh\nexit 3\n")
    engine.chmod(0o755)
    return {"no trace": tmp_path / "nowhere", "a NaN in the last row": nan, "an engine that dies": f"exec:{engine}"}


@pytest.mark.parametrize("how", ["no trace", "a NaN in the last row", "an engine that dies"])
def test_a_failed_run_leaves_nothing_that_says_satisfied(world, tmp_path, how):
    done = world.run("1", broken(world, tmp_path)[how])
    assert done.code == 4 and "satisfied" not in done.out, done.err
    assert world.files() == {"notes.txt"}
    assert (world.out / "notes.txt").read_text() == "mine"


def test_an_invalid_contract_and_a_missing_summary_leave_nothing_either(world, kcc, tmp_path):
    assert world.run("nonsense").code == 2
    assert world.files() == {"notes.txt"}
    assert world.run().code == 0
    assert kcc("judge", world.contract("1"), tmp_path / "none.kccs", "--report", world.out).code == 4
    assert world.files() == {"notes.txt"}


def test_a_run_whose_output_is_lost_takes_its_report_back(world, kcc_path):
    command = [kcc_path, "run", world.contract("1"), "--train", world.train, "--infer", world.infer, "--report", world.out]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 4 and "standard output" in done.stderr
    assert world.files() == {"notes.txt"}


def test_an_error_verdict_is_reported_as_such(world, kcc):
    contract = world.contract("1")
    contract.write_text(contract.read_text().replace("  numerical:", "  assumptions: {temperature: 0.5}\n  numerical:"))
    assert kcc("run", contract, "--train", world.train, "--infer", world.infer, "--report", world.out).code == 4
    assert json.loads((world.out / "report.json").read_text())["verdict"] == "error"
    assert "⚠️ error" in (world.out / "report.md").read_text()
    assert kcc("report", world.out).code == 0


def test_a_second_writer_is_refused_and_the_first_is_not_disturbed(world, gate, kcc):
    first = world.start(gate.uri)
    gate.wait(first)
    begun = time.monotonic()
    second = world.run()
    assert second.code == 4 and "another run is writing its report" in second.err and str(world.out) in second.err
    assert time.monotonic() - begun < 5
    rendered = kcc("report", pathlib.Path(ROOT / "fuzz/corpus/report/empty.json"), "-o", world.out)
    assert rendered.code == 4 and "another run" in rendered.err
    assert world.files() == {"notes.txt", ".kcc-report.lock"}
    gate.open()
    assert (first.communicate(timeout=30), first.returncode)[1] == 4
    assert world.files() == {"notes.txt"}
    assert world.run().code == 0


def test_concurrent_runs_leave_one_whole_report(world, kcc_path, kcc):
    commands = [[kcc_path, "run", world.contract(limit), "--train", world.train, "--infer", world.infer, "--report", world.out, *more]
                for limit, more in (("1", ["--sarif"]), ("1e-9", []), ("1", []), ("1e-9", ["--sarif"]))]  # fmt: skip
    for _ in range(5):
        runs = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for command in commands]
        codes = []
        for run in runs:
            _, err = run.communicate(timeout=60)
            codes.append(run.returncode)
            assert run.returncode in (0, 1) or "another run" in err, err
        assert any(code in (0, 1) for code in codes)
        done = kcc("report", world.out)
        assert done.code == 0, done.err
        assert ".kcc-report.lock" not in world.files()


def test_a_killed_run_leaves_nothing_that_says_satisfied(world, gate):
    run = world.start(gate.uri)
    gate.wait(run)
    run.send_signal(signal.SIGKILL)
    run.communicate(timeout=30)
    assert run.returncode == -signal.SIGKILL  # and the supervisor ends the program behind the gate
    assert world.files() == {"notes.txt", ".kcc-report.lock"}
    assert world.says("satisfied") == []
    assert world.run().code == 0
    assert world.files() == OURS | {"notes.txt"}


def test_somebody_elses_file_is_neither_removed_nor_replaced(world):
    (world.out / "junit.xml").write_text('<?xml version="1.0" encoding="utf-8"?><testsuites><testsuite name="pytest"/></testsuites>')
    before = (world.out / "junit.xml").read_text()
    done = world.run()
    assert done.code == 2 and "junit.xml" in done.err and "was not written by kcc" in done.err
    assert world.files() == {"notes.txt", "junit.xml"} and (world.out / "junit.xml").read_text() == before
    assert world.says("satisfied") == []


def test_a_report_of_an_earlier_kcc_goes_too(world, kcc):
    path = world.out / "report.json"
    report = json.loads(path.read_text())
    del report["files"]
    path.write_text(json.dumps(report, indent=2))
    done = kcc("report", world.out)
    assert done.code == 0 and "were not checked" in done.err
    assert world.run("1", world.out / "nowhere").code == 4
    assert world.files() == {"notes.txt"}


@pytest.mark.parametrize("name", sorted(OURS - {"report.json"}))
def test_an_edited_or_missing_sibling_is_caught(world, kcc, name):
    assert kcc("report", world.out).code == 0
    path = world.out / name
    text = path.read_text()
    path.write_text(text.replace("satisfied", "violated") if name != "junit.xml" else text + "\n")
    for arguments in (["report", world.out], ["compare", world.out, world.out]):
        done = kcc(*arguments)
        assert done.code == 2 and name in done.err and "edited or replaced" in done.err, done.err
    path.unlink()
    done = kcc("report", world.out)
    assert done.code == 4 and name in done.err
    # The file alone is still a report.
    assert kcc("report", world.out / "report.json").code == 0


def test_rendering_again_replaces_a_report_or_leaves_none(world, kcc, tmp_path):
    stored = (world.out / "report.json").read_bytes()
    again = tmp_path / "again"
    for source in (world.out, world.out / "report.json"):
        assert kcc("report", source, "-o", again).code == 0
        assert (again / "report.json").read_bytes() == stored
    assert kcc("report", tmp_path / "none.json", "-o", again).code == 4
    assert list(again.iterdir()) == []
    # Into its own directory: mended where it is sound, left alone where it is not.
    (world.out / "report.md").write_text((world.out / "report.md").read_text() + "edited")
    assert kcc("report", world.out / "report.json", "-o", world.out).code == 0
    assert kcc("report", world.out).code == 0 and (world.out / "report.json").read_bytes() == stored
    (world.out / "report.json").write_bytes(stored.replace(b'"convergent": true', b'"convergent": false'))
    assert kcc("report", world.out / "report.json", "-o", world.out).code == 2
    assert OURS <= world.files()
    assert kcc("report", "-", "-o", world.out, stdin=stored.decode()).code == 0
    assert (world.out / "report.json").read_bytes() == stored


def test_a_directory_that_cannot_be_written_is_said_before_the_work(world, kcc, tmp_path):
    (tmp_path / "file").write_text("")
    for out, words in ((tmp_path / "file", "is a file, not a directory"), (tmp_path / "file" / "below", "Not a directory"),
                       ("/proc/self/fdinfo", "cannot write into the report directory")):  # fmt: skip
        world.out = out
        done = world.run("1", tmp_path / "nowhere")
        assert done.code in (2, 4) and words in done.err and str(out) in done.err, done.err
        assert "nowhere" not in done.err
    done = kcc("report", tmp_path)
    assert done.code == 4 and "holds no report.json" in done.err


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
@pytest.mark.parametrize("mode", [0o000, 0o555])
def test_a_directory_without_permission_is_said(world, tmp_path, mode):
    world.out = tmp_path / "sealed"
    world.out.mkdir(mode=mode)
    done = world.run()
    assert done.code == 4 and "Permission denied" in done.err and "sealed" in done.err
