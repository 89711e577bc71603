"""kcc run, measure and score on exec kernels through the real program: same reports, nothing left."""

import json
import os
import pathlib
import signal
import subprocess
import time

import pytest

from engines import toy, write_requests

CONTRACT = """
apiVersion: kcc/v1
kind: KernelContract
metadata: {name: engines, version: 1.0.0}
spec:
  decision: {about: evaluation-set}
  assumptions: {tokensMax: 64}
  slices:
    - {name: odd, where: "'odd' in tags"}
  numerical:
    - {id: N-1, metric: p99_kl, atMost: 0.01, slices: [all, odd], level: L3}
    - {id: N-2, metric: mean_tv, atMost: 0.2, exceedance: 5%, level: L2}
"""


@pytest.fixture
def contract(tmp_path):
    path = tmp_path / "contract.yaml"
    path.write_text(CONTRACT)
    return path


@pytest.fixture
def requests(tmp_path):
    return write_requests(tmp_path / "r.jsonl", 15, 11)


@pytest.fixture
def scratch(tmp_path):
    path = tmp_path / "scratch"
    path.mkdir()
    return path


def without_percentiles(part):
    """Traces at hand show a percentile itself, engines the bucket that holds it."""
    if isinstance(part, list):
        for clause in part:
            for row in clause["slices"] if clause["aggregate"].startswith("p") else []:
                for key in ("value", "interval", "reason", "smallestPassing", "severity"):
                    row.pop(key, None)
                row["other"].pop("reason", None)
    return part


def test_reports_are_the_same_for_every_batch_size_and_for_traces(kcc, tmp_path, contract, requests, scratch):
    train, infer = toy(), toy("none --noise 0.02")
    summaries, reports = set(), set()
    for batch in (1, 7, 100):
        out = tmp_path / f"s{batch}.kccs"
        done = kcc("run", contract, "--train", train, "--infer", infer, "--requests", requests, "--batch", batch,
                   "--summary", out, "--scratch", scratch, "--report", tmp_path / f"report{batch}")
        assert done.code in (0, 1), done.err
        summaries.add(out.read_bytes())
        reports.add((tmp_path / f"report{batch}/report.json").read_bytes())
        assert list(scratch.iterdir()) == []
    assert len(summaries) == 1 and len(reports) == 1

    for name, kernel in (("train", train), ("infer", infer)):
        done = kcc("score", kernel, "--requests", requests, "-o", tmp_path / name, "--json", "--batch", 4)
        assert done.code == 0, done.err
        assert done.json["requests"] == 15
    engines = json.loads(reports.pop())
    for sides in ((tmp_path / "train", tmp_path / "infer"), (tmp_path / "train", infer), (train, tmp_path / "infer")):
        done = kcc("run", contract, "--train", sides[0], "--infer", sides[1], "--json")
        assert done.code in (0, 1), done.err
        for key in ("verdict", "clauses", "quantities", "health"):
            assert without_percentiles(done.json[key]) == without_percentiles(engines[key]), (sides, key)
        # Two traces can also show what stands around a worst token.
        where = ("quantity", "slice", "value", "request", "position", "token")
        worst = [[[row[key] for key in where] for row in report["worst"]] for report in (done.json, engines)]
        assert worst[0] == worst[1], sides


def test_a_large_noise_is_violated(kcc, tmp_path, contract, requests):
    done = kcc("run", contract, "--train", toy(), "--infer", toy("none --noise 0.5"), "--requests", requests)
    assert done.code == 1, done.err


@pytest.mark.parametrize("arguments,words", [
    (lambda t: ("--train", toy(), "--infer", toy()), "give --requests"),
    (lambda t: ("--train", toy(), "--infer", toy(), "--requests", t / "none.jsonl"), "cannot open"),
    (lambda t: ("--train", "exek:x", "--infer", toy(), "--requests", t / "r.jsonl"), "did you mean 'exec:'"),
    (lambda t: ("--train", "exec:/no/such", "--infer", toy(), "--requests", t / "r.jsonl"), "cannot start '/no/such'"),
    (lambda t: ("--train", toy("crash"), "--infer", toy(), "--requests", t / "r.jsonl"), "SIGSEGV"),
    (lambda t: ("--train", toy("nan"), "--infer", toy("hang"), "--requests", t / "r.jsonl"), "NaN"),
    (lambda t: ("--train", toy("none --vocab 5"), "--infer", toy(), "--requests", t / "r.jsonl"), "vocabulary"),
    (lambda t: ("--train", toy(), "--infer", toy("none --vocab 12"), "--requests", t / "r.jsonl"), "vocab"),
])
def test_what_goes_wrong_is_said(kcc, tmp_path, contract, requests, scratch, arguments, words):
    done = kcc("run", contract, *arguments(tmp_path), "--scratch", scratch)
    assert done.code in (2, 4) and words in done.err, done.err
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize("kernel,words", [
    ("exek:x", "did you mean 'exec:'"),
    ("exec:/no/such", "cannot start '/no/such'"),
    ("openai+http://localhost:1?server=vlm", "vllm"),
    ("lab:trian", "the lab has no kernel 'trian'"),
])
def test_a_mistyped_kernel_is_said_before_a_missing_requests_file(kcc, tmp_path, contract, kernel, words):
    missing = ("--requests", tmp_path / "none.jsonl")
    for arguments in (("score", kernel, "-o", tmp_path / "t"), ("generate", kernel, "-o", tmp_path / "t"),
                      ("run", contract, "--train", kernel, "--infer", toy()),
                      ("run", contract, "--train", toy(), "--infer", kernel)):
        done = kcc(*arguments, *missing)
        assert done.code in (2, 4) and words in done.err and "none.jsonl" not in done.err, done.err
    done = kcc("score", toy(), "-o", tmp_path / "t", *missing)
    assert done.code == 4 and "none.jsonl" in done.err, done.err


def runs(pid):
    """An orphan's zombie, which init has yet to reap, does not count."""
    try:
        state = open(f"/proc/{pid}/stat").read().split()[2]
        return state != "Z" or os.getpgid(int(pid)) == int(pid)
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_nothing_behind(kcc_path, tmp_path, contract, requests, scratch, number):
    pids, seen = tmp_path / "pids", tmp_path / "seen"
    run = subprocess.Popen(
        [kcc_path, "run", contract, "--train", toy(f"with-child --pid-file {pids} --seen {seen}"), "--infer",
         toy(f"deaf --pid-file {pids}"), "--requests", requests, "--scratch", scratch],
        stderr=subprocess.PIPE, text=True,
        # The program leaves alone what was ignored before it, as under nohup, where tests may run too.
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL))
    deadline = time.monotonic() + 30
    while not (seen.exists() and seen.read_text()) and time.monotonic() < deadline:
        assert run.poll() is None, run.stderr.read()
    private = pathlib.Path(seen.read_text()).parent
    assert private.parent == scratch and private.stat().st_mode & 0o777 == 0o700
    run.send_signal(number)
    _, err = run.communicate(timeout=30)
    assert run.returncode == -number and "interrupted" in err
    assert list(scratch.iterdir()) == []
    processes = pids.read_text().split()
    assert len(processes) == 4
    while any(map(runs, processes)):
        assert time.monotonic() < deadline, processes


def test_generated_traces_carry_what_the_program_judged(kcc, tmp_path, requests):
    done = kcc("generate", toy(), "--requests", requests, "--temperature", 0, "--max-tokens", 3, "-o", tmp_path / "g")
    assert done.code == 0, done.err
    lines = [json.loads(line) for line in open(tmp_path / "g/requests.jsonl")]
    assert len(lines) == 15
    assert all(line["output_tokens"] == 3 and line["latency_ms"] == 12.5 and line["refused"] is False for line in lines)
    assert json.loads((tmp_path / "g/trace.json").read_text())["mode"] == "generated"
    done = kcc("generate", toy(), "--requests", requests, "-o", tmp_path / "g")
    assert done.code == 2 and "exists already" in done.err
