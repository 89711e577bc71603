"""kcc monitor run and replay through the program: the example's story, restarts, tampering, bad input."""

import json
import os
import pathlib
import random
import signal
import subprocess

import jsonschema
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples/monitor"
CONTRACT = EXAMPLE / "contract.yaml"
POLICY = EXAMPLE / "policy.yaml"
LINES = (EXAMPLE / "observations.jsonl").read_text().splitlines(keepends=True)


@pytest.fixture
def run(kcc):
    """run(lines, *flags): kcc monitor run of the example's contract and policy."""
    return lambda lines, *flags: kcc("monitor", "run", CONTRACT, "--policy", POLICY, *flags, stdin="".join(lines))


def replay(kcc, log, *flags):
    return kcc("monitor", "replay", log, "--contract", CONTRACT, "--policy", POLICY, *flags)


def changes(outcome):
    rows = [json.loads(line) for line in outcome.out.splitlines()]
    return [row["change"] for row in rows if "change" in row], rows[-1]["status"]


def kinds(outcome):
    return [change["kind"] for change in changes(outcome)[0]]


def test_the_story_is_alarm_guard_release_and_probation(run):
    outcome = run(LINES, "--json")
    assert (outcome.code, outcome.err) == (0, "")
    found, status = changes(outcome)
    order = [change["kind"] for change in found]
    assert order.index("alarm") < order.index("guard") < order.index("release") < order.index("probation-end")
    routes = [change["kernel"] for change in found if change["kind"] == "route"]
    assert routes == ["bf16", "fp8"]
    assert status["serves"] == "fp8"
    fp8 = status["kernels"][0]
    assert (fp8["name"], fp8["state"]) == ("fp8", "serving")
    assert fp8["audited"] > 400


def test_it_ends_with_1_while_a_kernel_is_guarded(run):
    outcome = run(LINES[:360])
    assert outcome.code == 1
    assert "guard: fp8" in outcome.out and "bf16 serves" in outcome.out and "guarded" in outcome.out


def test_nothing_happens_while_nothing_is_wrong(run):
    outcome = run(LINES[:300], "--json")
    assert outcome.code == 0 and kinds(outcome) == []
    assert run([], "--json").code == 0


def test_silence_releases_nothing(run):
    guarded = LINES[:360]
    year = 365 * 86_400_000
    silent = [json.dumps({"time_ms": year + i, "request": f"s{i}", "kernel": kernel}) + "\n"
              for i in range(2000) for kernel in ("fp8", "bf16")]  # fmt: skip
    outcome = run(guarded + silent, "--json")
    assert outcome.code == 1
    found, status = changes(outcome)
    assert "release" not in [change["kind"] for change in found]
    assert status["kernels"][0]["state"] == "guarded" and status["unaudited"] >= 4000


def test_a_satisfied_verdict_has_observations_behind_it(run):
    _, status = changes(run(LINES, "--json"))
    for kernel in status["kernels"]:
        for clause in kernel["clauses"]:
            assert clause["verdict"] != "satisfied" or clause["observations"] > 50
    assert all(clause["verdict"] == "inconclusive" for clause in status["kernels"][2]["clauses"])  # never seen


def test_a_log_replays_to_the_byte(kcc, run, tmp_path):
    log = tmp_path / "d.jsonl"
    outcome = run(LINES, "--log", log)
    head = outcome.out.splitlines()[-1].split()[-1]
    again = replay(kcc, log, "--head", head)
    assert again.code == 0, again.out
    assert f"{len(LINES)} decisions decided again" in again.out
    assert replay(kcc, log, "--json").json["equal"] is True
    assert replay(kcc, log, "--head", "sha256:" + "0" * 64).code == 1
    schema = json.loads(kcc("schema", "--event").out)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    for line in log.read_text().splitlines():
        validator.validate(json.loads(line))


@pytest.mark.parametrize("state", [True, False])
def test_restarts_at_random_points_give_the_same_log(run, tmp_path, state):
    whole = tmp_path / "whole.jsonl"
    run(LINES, "--log", whole)
    rng = random.Random(7 + state)
    for attempt in range(2):
        log = tmp_path / f"log{attempt}"
        flags = ["--log", log] + (["--state", tmp_path / f"state{attempt}", "--save", "50"] if state else [])
        cuts = sorted(rng.sample(range(1, len(LINES)), 4))
        for begin, end in zip([0, *cuts], [*cuts, len(LINES)]):
            outcome = run(LINES[begin:end], *flags)
            assert outcome.code in (0, 1)
            assert begin == 0 or f"going on after {begin} observations" in outcome.err
        assert log.read_bytes() == whole.read_bytes(), cuts


def test_a_state_without_a_log_goes_on_too(run, tmp_path):
    state = tmp_path / "state"
    run(LINES[:500], "--state", state)
    rest = run(LINES, "--state", state, "--skip-folded", "--json")
    whole = run(LINES, "--json")
    assert changes(rest)[1] == changes(whole)[1]
    assert kinds(whole)[-len(kinds(rest)) :] == kinds(rest)


def test_kill_9_loses_nothing_that_was_decided(run, kcc_path, tmp_path):
    log, state = tmp_path / "log", tmp_path / "state"
    command = [kcc_path, "monitor", "run", CONTRACT, "--policy", POLICY, "--log", log, "--state", state]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    process.stdin.writelines(LINES[:400])
    process.stdin.flush()
    assert process.stdout.readline()  # the alarm was told, so that it is in the log
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdin.close()
    process.stdout.close()
    with open(log, "ab") as file:
        file.write(b'{"previous":"sha256:12')  # as if it was killed in the middle of a line
    outcome = run(LINES, "--log", log, "--state", state, "--skip-folded")
    assert "the last line was cut after 22 bytes and was dropped" in outcome.err
    whole = tmp_path / "whole"
    run(LINES, "--log", whole)
    assert log.read_bytes() == whole.read_bytes()


def test_a_full_disk_leaves_a_log_that_goes_on(run, kcc_path, tmp_path):
    log, state = tmp_path / "log", tmp_path / "state"
    limited = f"ulimit -f 20; trap '' XFSZ; exec {kcc_path} monitor run {CONTRACT} --policy {POLICY} --log {log} --state {state}"
    outcome = subprocess.run(["bash", "-c", limited], input="".join(LINES), capture_output=True, text=True)
    assert outcome.returncode == 4 and "cannot write" in outcome.stderr
    assert not state.exists()  # it would be ahead of the log
    assert run(LINES, "--log", log, "--state", state, "--skip-folded").code == 0
    whole = tmp_path / "whole"
    run(LINES, "--log", whole)
    assert log.read_bytes() == whole.read_bytes()


def test_a_tampered_log_is_named(kcc, run, tmp_path):
    log = tmp_path / "log"
    run(LINES[:360], "--log", log)
    lines = log.read_text().splitlines(keepends=True)

    def difference(changed):
        copy = tmp_path / "copy"
        copy.write_text("".join(changed))
        outcome = replay(kcc, copy)
        assert outcome.code == 1
        return outcome.out

    value = lines[11].replace(":[0.0", ":[0.1", 1)
    assert value != lines[11]
    assert "copy:13: the chain is broken" in difference(lines[:11] + [value] + lines[12:])
    assert "copy:21: the chain is broken" in difference(lines[:20] + lines[21:])
    assert "copy:31: the chain is broken" in difference(lines[:30] + [lines[29]] + lines[30:])
    last = lines[-1].replace('"serves":"bf16"', '"serves":"fp8"')
    assert last != lines[-1]
    assert "copy:361:" in difference(lines[:-1] + [last]) and '"serves":"bf16"' in difference(lines[:-1] + [last])
    assert "copy:1:" in difference([lines[0].replace("full", "wide")] + lines[1:])
    assert "copy:2: the chain is broken" in difference([lines[0].replace("full", "canary")] + lines[1:])
    assert "is cut after" in difference(lines + ['{"previous"'])
    assert "the log is empty" in difference([])
    other = tmp_path / "other.yaml"
    other.write_text(POLICY.read_text().replace("10^5", "10^6"))
    outcome = kcc("monitor", "replay", log, "--contract", CONTRACT, "--policy", other)
    assert outcome.code == 1 and "written under the policy" in outcome.out
    outcome = kcc("monitor", "run", CONTRACT, "--policy", other, "--log", log, stdin="")
    assert outcome.code == 2 and "begun by the policy" in outcome.err


@pytest.mark.parametrize(
    ("line", "place", "message"),
    [
        ('{"time_ms":1,"request":"x","kernel":"fp8","audted":true}', "<stdin>:2:43", "did you mean 'audited'?"),
        ('{"time_ms":1,"request":"x","kernel":"fp9"}', "<stdin>:2", "names the kernel 'fp9'"),
        ('{"time_ms":1,"request":"x"', "<stdin>:2:27", "not JSON"),
        ("[]", "<stdin>:2:1", "must be an object"),
        ('{"time_ms":1,"request":"x","kernel":"fp8","values":{"mean_klx":1}}', "<stdin>:2:53", "mean_kl"),
        ('{"time_ms":1,"request":"x","kernel":"fp8","tokens":{"kl":[1]}}', "<stdin>:2:52", "kl does not have one value"),
        ('{"time_ms":1e400,"request":"x","kernel":"fp8"}', "<stdin>:2", "not JSON"),
        ('{"request":"x","kernel":"fp8"}', "<stdin>:2:1", "'time_ms' is missing"),
    ],
)
def test_bad_input_is_named_and_nothing_of_it_is_kept(run, tmp_path, line, place, message):
    log = tmp_path / "log"
    outcome = run([LINES[0], line + "\n", LINES[2]], "--log", log)
    assert outcome.code == 2
    assert place in outcome.err and message in outcome.err, outcome.err
    assert len(log.read_text().splitlines()) == 2  # the start and the good line
    assert run([LINES[0], LINES[2]], "--log", log, "--skip-folded").code == 0


def test_what_cannot_be_written_or_read_is_an_error(kcc, run, tmp_path):
    assert run([], "--log", tmp_path / "no/such/folder").code == 4
    notes = tmp_path / "notes"
    notes.write_text("mine")
    assert run([], "--log", notes).code == 2 and notes.read_text() == "mine"
    assert run([], "--state", notes).code == 2 and notes.read_text() == "mine"
    assert kcc("monitor", "run", CONTRACT, tmp_path / "none.jsonl", "--policy", POLICY).code == 4
    assert kcc("monitor", "run", CONTRACT, "--policy", CONTRACT).code == 2
    assert replay(kcc, tmp_path / "none").code == 4


def test_observations_follow_the_published_schema(kcc):
    for flag, page in (("--observation", "observation.schema.json"), ("--event", "monitor-event.schema.json")):
        assert kcc("schema", flag).out == (ROOT / "docs" / page).read_text()
    schema = json.loads(kcc("schema", "--observation").out)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    for line in LINES:
        validator.validate(json.loads(line))
    for line in (ROOT / "fuzz/corpus/observation").iterdir():
        if line.name in ("all_keys", "unaudited", "zeros", "escapes"):
            validator.validate(json.loads(line.read_text()))
    for wrong in ({}, {"time_ms": 1, "request": "r", "kernel": "k", "audted": True},
                  {"time_ms": 1, "request": "r", "kernel": "k", "tokens": {"kl": ["x"]}},
                  {"time_ms": 1, "request": "r", "kernel": "k", "infer": {"id": "x"}}):  # fmt: skip
        assert not validator.is_valid(wrong)


def test_the_example_is_what_its_script_writes():
    written = subprocess.run(["python3", EXAMPLE / "make_observations.py"], capture_output=True, text=True, check=True)
    assert written.stdout == "".join(LINES)
