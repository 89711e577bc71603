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


BAD_LINES = pytest.mark.parametrize(
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
        ("x" * (2**24 + 9), "<stdin>:2", "longer than the limit"),
        ('{"time_ms":1,"request":"x","kernel":"fp8","one_record":true,"train":{"reward":1}}', "<stdin>:2:61", "leave one of them"),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else None,
)  # fmt: skip


@BAD_LINES
def test_strictly_a_bad_line_ends_the_run_and_nothing_of_it_is_kept(run, tmp_path, line, place, message):
    log = tmp_path / "log"
    outcome = run([LINES[0], line + "\n", LINES[2]], "--log", log, "--strict")
    assert outcome.code == 2
    assert place in outcome.err and message in outcome.err, outcome.err
    assert len(log.read_text().splitlines()) == 2  # the start and the good line
    assert run([LINES[0], LINES[2]], "--log", log, "--skip-folded", "--strict").code == 0


@BAD_LINES
@pytest.mark.parametrize("from_file", [False, True])
def test_the_run_goes_on_after_a_bad_line(kcc, tmp_path, line, place, message, from_file):
    log, lines = tmp_path / "log", tmp_path / "<stdin>"
    lines.write_text("".join([LINES[0], line + "\n", LINES[2]]))
    given = [lines] if from_file else []
    outcome = kcc("monitor", "run", CONTRACT, *given, "--policy", POLICY, "--log", log, "--json",
                  stdin="" if from_file else lines.read_text())  # fmt: skip
    assert outcome.code == 2  # nothing is worse
    assert place in outcome.err and message in outcome.err, outcome.err
    assert "the run goes on" in outcome.err and "1 line could not be read" in outcome.err
    rows = [json.loads(row) for row in outcome.out.splitlines()]
    (unread,) = [row for row in rows if "unread" in row]
    assert (unread["number"], unread["line"]) == (2, 2) and message in unread["unread"]["reason"]
    assert rows[-1]["status"]["unread"] == 1 and rows[-1]["status"]["observations"] == 3
    decisions = [json.loads(row) for row in log.read_text().splitlines()[1:]]
    assert [row["handling"] for row in decisions] == ["counted", "unread", "counted"]
    assert decisions[1]["unread"] == unread["unread"] and "observation" not in decisions[1]
    validator = jsonschema.Draft202012Validator(json.loads(kcc("schema", "--event").out))
    for row in decisions:
        validator.validate(row)
    assert replay(kcc, log).code == 0


def test_the_kernel_of_a_bad_line_is_known_where_the_line_names_it(run, tmp_path):
    log = tmp_path / "log"
    run(['{"kernel":"bf16","odd":1}\n', '{"kernel":"bf17"}\n', '{"kernel":"bf16"\n'], "--log", log)
    unread = [json.loads(row)["unread"] for row in log.read_text().splitlines()[1:]]
    assert [row.get("kernel") for row in unread] == ["bf16", None, None]


def test_a_flood_of_bad_lines_is_counted_and_not_named_line_by_line(run, tmp_path):
    outcome = run(["x\n"] * 500)
    assert outcome.code == 2
    assert outcome.err.count("error:") == 20
    assert "500 lines could not be read (the first 20 are named above)" in outcome.err


def lossy(lines, every):
    """The lines, of which some became unreadable."""
    return [line[: len(line) // 2] + "\n" if i % every == 3 else line for i, line in enumerate(lines)]


def test_with_bad_lines_too_a_restart_gives_the_same_log(kcc, run, tmp_path):
    lines = lossy(LINES, 50)
    whole = tmp_path / "whole"
    run(lines, "--log", whole)
    assert replay(kcc, whole).code == 0
    log, state = tmp_path / "log", tmp_path / "state"
    for end in (0, 90, 500, len(lines)):
        run(lines[:end], "--log", log, "--state", state, "--save", "40", "--skip-folded")
    assert log.read_bytes() == whole.read_bytes()


def verdicts(outcome, kernel="fp8"):
    (status,) = [row for row in changes(outcome)[1]["kernels"] if row["name"] == kernel]
    return {(row["clause"], row["slice"]): row["verdict"] for row in status["clauses"]}


def test_losing_lines_satisfies_and_releases_nothing(run):
    healthy = LINES[:200]
    assert verdicts(run(healthy, "--json"))["N-1", "all"] == "satisfied"
    outcome = run(lossy(healthy, 5), "--json")
    assert outcome.code == 2 and verdicts(outcome)["N-1", "all"] == "inconclusive"
    # Of what is bad every line is lost: the kernel must not look good by those that are left.
    bad = [line if "kl" not in line or max(json.loads(line)["tokens"]["kl"]) < 0.5 else "{\n" for line in LINES[:420]]
    assert verdicts(run(bad, "--json"))["N-1", "all"] == "inconclusive"
    whole, lost = run(LINES, "--json"), run(LINES[:360] + lossy(LINES[360:], 4), "--json")
    assert "release" in kinds(whole) and "release" not in kinds(lost)


@pytest.fixture
def events(kcc, tmp_path):
    """events(lines, bound, *flags): a run under a clause on event_conformance alone."""

    def fold(lines, bound, *flags, metric="event_conformance"):
        contract = tmp_path / "events.yaml"
        contract.write_text(
            "apiVersion: kcc/v1\nkind: KernelContract\nmetadata: {name: events, version: 1.0.0}\nspec:\n  observability:\n"
            f"    - {{id: O-3, metric: {metric}, atLeast: {bound}, level: L2}}\n"
        )
        return kcc("monitor", "run", contract, "--policy", POLICY, "--json", *flags, stdin="".join(lines))

    return fold


def test_lines_that_conform_satisfy_a_clause_on_events_and_silence_does_not(events):
    assert verdicts(events(LINES[:200], 0.9))["O-3", "all"] == "satisfied"
    assert verdicts(events([], 0.9))["O-3", "all"] == "inconclusive"
    assert verdicts(events(LINES[:200], 0.9), "reference")["O-3", "all"] == "inconclusive"


def test_lines_that_do_not_conform_violate_it(events):
    outcome = events(lossy(LINES[:300], 4), 0.9)
    assert outcome.code == 1 and "alarm" in kinds(outcome)
    assert verdicts(outcome)["O-3", "all"] == "violated"
    typed = [line.replace('"prompt_tokens":8', '"latency_ms":"8"') for line in LINES[:300]]
    assert verdicts(events(typed, 0.9))["O-3", "all"] == "violated"


def test_what_conforms_is_what_the_published_schema_takes(kcc, events):
    """Every known field with values of every kind: kcc and the JSON Schema tell the same of each."""
    schema = json.loads(kcc("schema", "--observation").out)
    validator = jsonschema.Draft202012Validator(schema)
    fields = sorted(name for name in schema["$defs"]["fields"]["properties"] if name != "id")
    assert {"latency_ms", "tags", "seed", "failed", "replay_signature"} <= set(fields)
    values = [None, True, 0, 1, -1, 1.5, -0.5, 2**31, 2**53, 2**53 + 1, -(2**53) - 1, 2**63, 1e300, "", "1", "x", [], ["a"],
              [1], {}, {"a": 1}]  # fmt: skip
    asked = []  # field, value, line, whether the schema takes it
    for field in [*fields, "of_my_own"]:
        for value in values:
            record = "asked" if len(asked) % 2 else "infer"
            line = {"time_ms": len(asked), "request": f"r{len(asked)}", "kernel": "fp8", record: {field: value}}
            asked.append((field, repr(value), json.dumps(line) + "\n", validator.is_valid(line)))

    def refuted(lines):
        """How many of the lines are an exceedance where none is allowed."""
        kernel = changes(events(lines, 1))[1]["kernels"][0]
        return kernel["clauses"][0]["alarms"]

    for by in (0, 1):
        for name in {row[by] for row in asked}:
            rows = [row for row in asked if row[by] == name]
            assert refuted([row[2] for row in rows]) == sum(not row[3] for row in rows), name
    assert 0 < sum(row[3] for row in asked) < len(asked)


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
        if line.name in ("all_keys", "unaudited", "zeros", "escapes", "one_record"):
            validator.validate(json.loads(line.read_text()))
    for wrong in ({}, {"time_ms": 1, "request": "r", "kernel": "k", "audted": True},
                  {"time_ms": 1, "request": "r", "kernel": "k", "tokens": {"kl": ["x"]}},
                  {"time_ms": 1, "request": "r", "kernel": "k", "infer": {"id": "x"}},
                  {"time_ms": 1, "request": "r", "kernel": "k", "one_record": True, "train": {}},
                  {"time_ms": 1, "request": "r", "kernel": "k", "infer": {"latency_ms": "5"}}):  # fmt: skip
        assert not validator.is_valid(wrong)


def test_what_is_null_is_absent_for_the_schema_and_for_kcc(kcc, run):
    validator = jsonschema.Draft202012Validator(json.loads(kcc("schema", "--observation").out))
    nulls = {key: None for key in ("session", "probe", "audited", "one_record", "infer", "train", "asked", "tokens", "values",
                                   "outputs")}  # fmt: skip
    for line in (nulls, {"tokens": {"position": None, "kl": None, "logprob": {"infer": None}, "own": {}, "masked": None}},
                 {"infer": {"id": None}, "values": {"mean_kl": None}, "one_record": True, "train": None}):  # fmt: skip
        line = {"time_ms": 1, "request": "r", "kernel": "fp8", **line}
        validator.validate(line)
        assert run([json.dumps(line) + "\n"], "--strict").code == 0


def test_an_observation_of_one_record_is_logged_and_replayed(kcc, tmp_path):
    """Without its key the log would say that train has no word, and the slice would not be vouched for."""
    log = tmp_path / "log"
    lines = [json.dumps({"time_ms": i, "request": f"r{i}", "kernel": "fp8", "audited": True, "one_record": True,
                         "infer": {"tags": ["arithmetic"]}, "tokens": {"position": [0], "kl": [0.1]}}) + "\n"
             for i in range(150)]  # fmt: skip
    fold = lambda lines, *flags: kcc("monitor", "run", CONTRACT, "--policy", POLICY, "--json", *flags, stdin="".join(lines))  # noqa: E731
    assert verdicts(fold(lines, "--log", log))["N-1", "arithmetic"] == "satisfied"
    assert replay(kcc, log).code == 0
    assert verdicts(fold([], "--log", log))["N-1", "arithmetic"] == "satisfied"
    alone = [line.replace('"one_record": true, ', "") for line in lines]
    assert verdicts(fold(alone))["N-1", "arithmetic"] == "inconclusive"


def test_the_example_is_what_its_script_writes():
    written = subprocess.run(["python3", EXAMPLE / "make_observations.py"], capture_output=True, text=True, check=True)
    assert written.stdout == "".join(LINES)
