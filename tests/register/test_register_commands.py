"""kcc register, as people and scripts use it, on both backends."""

import json

import pytest
from made_export import compact, digest, write_export

MODEL = "sha256:" + "1" * 64
WHO = ["--actor", "ann", "--time", "2026-11-18T08:30:00Z"]


@pytest.fixture
def run(kcc, uri):
    """run("list", "models") -> Outcome, on the register."""
    return lambda *words, **more: kcc("register", *words, "--register", uri, **more)


@pytest.fixture
def judged(kcc, uri):
    done = kcc("run", "examples/contract.yaml", "--train", "examples/traces/train", "--infer", "examples/traces/infer",
               "--register", uri, "--model", MODEL, *WHO)  # fmt: skip
    assert done.code == 1, done.err
    assert "recorded as evaluation 6" in done.out
    return done


def test_a_run_is_recorded_with_its_evidence(kcc, run, judged, tmp_path):
    log = run("log", "--json").json["events"]
    kinds = [event["kind"] for event in log]
    assert kinds == ["model.added", "kernel.added", "kernel.added", "contract.added", "triple.added", "evaluation.recorded"]
    assert {(event["actor"], event["time"]) for event in log} == {("ann", 1794990600000)}
    body = log[5]["body"]
    assert (body["verdict"], body["stage"]) == ("violated", "offline")
    trace = kcc("trace", "info", "examples/traces/infer", "--json").json["identity"]
    assert body["evidence"][0]["infer"] == trace
    assert body["triple"] == log[4]["body"]["triple"] == digest(compact(
        {key: log[4]["body"][key] for key in ("contract", "infer", "model", "train")}).encode())  # fmt: skip
    # The contract's digest is that of its canonical form, which is stored under it.
    for key, name in (("report", "report.json"), ("summary", "s.kccs")):
        assert run("blob", body[key], "-o", tmp_path / name).code == 0
    assert kcc("report", tmp_path / "report.json").out.startswith(judged.out[:200])
    again = kcc("judge", "examples/contract.yaml", tmp_path / "s.kccs", "--json").json
    assert again["verdict"] == "violated"
    canonical = kcc("fmt", "--json", "examples/contract.yaml").json
    assert run("blob", body and log[3]["body"]["contract"], "-o", tmp_path / "c.json").code == 0
    assert json.loads((tmp_path / "c.json").read_text()) == canonical
    assert run("verify").code == 0


def test_a_second_run_adds_the_evaluation_alone(kcc, run, judged, uri):
    done = kcc("judge", "examples/contract.yaml", "/dev/null", "--register", uri)
    assert done.code != 0  # nothing is recorded of what was not judged
    kcc("run", "examples/contract.yaml", "--train", "examples/traces/train", "--infer", "examples/traces/train",
        "--register", uri, "--model", MODEL, *WHO)  # fmt: skip
    kinds = [event["kind"] for event in run("log", "--from", "7", "--json").json["events"]]
    assert kinds == ["triple.added", "evaluation.recorded"]


def test_a_fingerprint_that_stands_for_two_builds_is_warned_of(kcc, run, uri):
    assert run("add", "kernel", "infer-build-1", "--engine", "another", *WHO).code == 0
    done = kcc("run", "examples/contract.yaml", "--train", "examples/traces/train", "--infer", "examples/traces/infer",
               "--register", uri, "--model", MODEL)  # fmt: skip
    assert "its fingerprint does not tell its builds apart" in done.err


def test_the_page_shows_words_of_others_as_words(run, uri, tmp_path):
    bad = "<script>alert(1)</script>"
    assert run("add", "incident", bad, "--what", '"><img src=x onerror=alert(1)>', *WHO).code == 0
    page = tmp_path / "page.html"
    assert run("page", "-o", page).code == 0
    first = page.read_bytes()
    assert bad.encode() not in first
    assert b"<img" not in first
    assert b"&lt;script&gt;alert(1)" in first
    assert run("page", "-o", page).code == 0
    assert page.read_bytes() == first


def test_what_cannot_be_recorded_says_why(kcc, run, uri):
    sides = ["--train", "examples/traces/train", "--infer", "examples/traces/infer"]
    done = kcc("run", "examples/contract.yaml", *sides, "--register", uri)
    assert done.code == 4 or done.code == 2
    assert "do not say which model they are of; name it with --model" in done.err
    assert run("head").out.startswith("0:")
    missing = kcc("run", "examples/contract.yaml", *sides, "--register", "none.db")
    assert (missing.code, missing.out) == (4, "")  # before anything is measured


def test_entries_are_added_listed_and_shown(run, uri):
    assert run("add", "model", MODEL, "--name", "qwen", *WHO).out == f"event 1: model.added model {MODEL}\n"
    assert run("add", "kernel", "k1", "--engine", "vllm", "--quantisation", "fp8", *WHO).code == 0
    assert run("add", "kernel", "k2", *WHO).code == 0
    assert run("add", "contract", "contracts/minimal.yaml", *WHO).code == 0
    contract = run("list", "contracts", "--json").json["entries"][0]["id"]
    assert run("add", "triple", "--model", MODEL, "--train", "k1", "--infer", "k2", "--contract", contract, *WHO).code == 0
    triple = run("list", "triples", "--of", contract, "--json").json["entries"][0]["id"]
    assert run("add", "incident", "I-1", "--what", "answers repeat", "--triple", triple, *WHO).code == 0
    assert "open: answers repeat" in run("list", "incidents").out
    assert run("add", "incident", "I-1", "--close", "--what", "rolled back", "--actor", "ben").code == 0
    assert "closed: rolled back" in run("list", "incidents").out
    shown = run("show", "kernel", "k1")
    assert '"engine": "vllm"' in shown.out
    assert run("show", "triple", triple[7:15]).out == run("show", "triples", triple).out
    assert run("list", "kernels", "--last", "1").out.startswith("k2")
    assert run("class", "contracts/minimal.yaml").out == run("class", contract[:20]).out
    assert "never judged" in run("class", contract).out
    assert run("log", "--last", "2", "--json").json["events"][-1]["actor"] == "ben"
    assert [event["sequence"] for event in run("log", "--kind", "kernel.added", "--json").json["events"]] == [2, 3]
    assert run("rebuild", "--json").json == {"kccRegister": 1, "entries": 6}
    assert run("verify").code == 0


def test_promotions_and_approvals_come_as_events(run, judged, tmp_path):
    triple = run("list", "triples", "--json").json["entries"][0]["id"]
    body = {"promotion": "p1", "triple": triple, "from": "proposed", "to": "offline", "cause": "start", "state": {"n": 1}}
    assert run("add", "event", "promotion.changed", "-", stdin=json.dumps(body)).code == 0
    assert run("add", "event", "approval.given", "-", stdin='{"promotion":"p1"}', ).code == 0
    blob = tmp_path / "certificate"
    blob.write_text("certified")
    certificate = json.dumps({"certificate": digest(b"certified"), "triple": triple})
    assert run("add", "event", "certificate.added", "-", stdin=certificate).code == 2
    assert run("add", "event", "certificate.added", "-", "--blob", blob, stdin=certificate).code == 0
    page = tmp_path / "page.html"
    assert run("page", "-o", page).code == 0
    text = page.read_text()
    for part in ("proposed", "approved of <b>p1</b>", "evaluation-6", "N-1", "v-violated"):
        assert part in text


@pytest.mark.parametrize(
    ("words", "stdin", "message"),
    [
        (["add", "model", ""], "", "'model' must be a text"),
        (["add", "model", "m", "--time", "yesterday"], "", "'yesterday' is not a time"),
        (["add", "model", "m", "--time", "2026-13-01"], "", "is not a time"),
        (["add", "model", "m", "--actor", "a\nb"], "", "the actor of an event must be one line"),
        (["add", "contract", "docs/index.md"], "", "error"),
        (["add", "triple", "--model", "m", "--train", "a", "--infer", "b", "--contract", "c"], "", "names model m, which is not"),
        (["add", "incident", "I", "--what", "w", "--close"], "", "there is no incident I"),
        (["add", "event", "model.add", "-"], "{}", "did you mean 'model.added'?"),
        (["add", "event", "model.added", "-"], "{", "not JSON"),
        (["add", "event", "model.added", "-"], "[]", "not an object"),
        (["add", "event", "model.added", "-"], '{"model":"a","model":"b"}', "comes twice"),
        (["list", "tripels"], "", "did you mean 'triples'?"),
        (["list", "zebras"], "", "there are models, kernels,"),
        (["show", "model", "nope"], "", "there is no model 'nope' in the register"),
        (["log", "--kind", "modl.added"], "", "did you mean 'model.added'?"),
        (["log", "--last", "0"], "", "not a number from 1"),
        (["verify", "--head", "12"], "", "'12' is not a head"),
        (["class", "nothing"], "", "there is no contract 'nothing'"),
        (["gc", "--redact", "sha256:12"], "", "is not in the register"),
        (["gc", "--evidence-before", "soon"], "", "is not a time"),
        (["blob", "sha256:12", "-o", "/tmp/never"], "", "is not in the register"),
    ],
)  # fmt: skip
def test_wrong_input_is_exit_code_2(run, words, stdin, message):
    done = run(*words, stdin=stdin)
    assert done.code == 2, done.err
    assert message in done.err
    assert run("head").out.startswith("0:")


def test_export_and_import(kcc, run, judged, new_uri, tmp_path):
    assert run("export", tmp_path / "copy").code == 0
    other = new_uri()
    assert kcc("register", "init", "--register", other).code == 0
    done = kcc("register", "import", tmp_path / "copy", "--json", "--register", other)
    assert done.json["events"] == 6
    assert kcc("register", "head", "--register", other).out == run("head").out
    assert run("export", tmp_path / "copy").code == 2
    # One that other code wrote.
    third = new_uri()
    kcc("register", "init", "--register", third)
    head = write_export(tmp_path / "written", 30, blobs=3)
    assert kcc("register", "import", tmp_path / "written", "--register", third).code == 0
    assert kcc("register", "head", "--register", third).out.strip() == head
    assert kcc("register", "verify", "--head", head, "--register", third).code == 0


def test_gc_and_redaction_leave_events(run, judged, tmp_path):
    report = run("log", "--last", "1", "--json").json["events"][0]["body"]["report"]
    assert run("gc").out == "nothing to remove\n"
    assert "would remove" in run("gc", "--dry-run", "--redact", report).out
    assert run("gc", "--redact", report, "--reason", "a name in it", *WHO).code == 0
    assert run("blob", report, "-o", tmp_path / "r").code == 2
    assert "redaction: a name in it" in run("list", "removals").out
    check = run("verify", "--json")
    assert check.code == 0
    assert check.json["blobsRemoved"] == 1
    assert len(check.json["cannotSee"]) == 3
    kept = run("head").out.strip()
    assert len(run("verify", "--head", kept, "--json").json["cannotSee"]) == 3


def test_init_twice_says_so(run):
    assert "is a register of version 1 already" in run("init").out
    assert run("init", "--json").json["new"] is False
