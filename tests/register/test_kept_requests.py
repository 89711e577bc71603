"""Requests that a run keeps in a register, on both backends: which, how much of each, and for how long."""

import hashlib
import json

import pytest
from kept_requests import INFER, POLICY, TRAIN, WHO, asked, judge, stored  # noqa: F401


def test_texts_are_kept_only_where_they_are_asked_for(kcc, uri, judge, tmp_path, asked):
    assert judge("--store", "full", "--store-text", "--store-sample", "1").code == 1
    record = stored(kcc, uri, tmp_path)[asked[1][0]["id"]]
    assert record["fields"]["user"] == "somebody" and record["sampled"] is True


def test_nothing_is_kept_by_default_and_none_flagged_where_all_holds(kcc, uri, judge, tmp_path):
    assert judge().code == 1
    assert "kept 0 requests" in judge("--store", "full", infer=TRAIN + "&page=8").out
    assert stored(kcc, uri, tmp_path) == {}


def evidence_of(kcc, uri, tmp_path):
    """The last evaluation's body, its summary and its report, as bytes."""
    entry = kcc("register", "list", "evaluations", "--register", uri, "--json").json["entries"][0]
    body = kcc("register", "log", "--last", "1000", "--register", uri, "--json").json["events"][int(entry["id"]) - 1]["body"]
    files = []
    for key in ("summary", "report"):
        path = tmp_path / f"{key}.out"
        path.unlink(missing_ok=True)
        assert kcc("register", "blob", body[key], "-o", path, "--register", uri).code == 0
        files.append(path.read_bytes())
    return body, *files


@pytest.mark.parametrize("store", ["none", "hashes", "full"])
def test_summaries_and_reports_say_no_more_of_requests_than_is_kept(kcc, uri, judge, tmp_path, asked, store):
    report = tmp_path / "report"
    assert judge("--store", store, "--report", report).code == 1
    name = asked[1][0]["id"]
    body, summary, stored_report = evidence_of(kcc, uri, tmp_path)
    assert body["requestsKept"] == store and json.loads(stored_report)["worstKept"] == store
    for data in (summary, stored_report):
        assert (name.encode() in data) == (store == "full")
        assert (hashlib.sha256(name.encode()).hexdigest().encode() in data) == (store == "hashes")
    worst = json.loads(stored_report)["worst"]
    assert bool(worst) == (store != "none")
    for row in worst:
        assert "context" not in row and (row["token"] >= 0) == (store == "full") and row["position"] >= 0
    # The report that was asked for has all of it; the stored copies have digests of their own, and are judged alike.
    whole = json.loads((report / "report.json").read_text())
    assert whole["worst"] and "worstKept" not in whole and whole["clauses"] == json.loads(stored_report)["clauses"]
    path = tmp_path / "again.kccs"
    path.write_bytes(summary)
    again = kcc("judge", tmp_path / "c.yaml", path, "--json")
    assert again.code == 1 and again.json["verdict"] == "violated"
    assert again.json["clauses"] == whole["clauses"]
    assert kcc("register", "verify", "--register", uri).code == 0
    if store == "full":
        assert judge("--store", "full", "--store-text").code == 1
        assert "worstKept" not in json.loads(evidence_of(kcc, uri, tmp_path)[2])


def test_a_policy_decides_and_the_command_line_is_told(kcc, uri, judge, tmp_path, asked):
    assert judge().code == 1
    triple = kcc("register", "list", "triples", "--register", uri, "--json").json["entries"][0]["id"]
    policy = tmp_path / "p.yaml"
    policy.write_text(POLICY % "store: hashes, retention: 30d")
    started = kcc("promote", "start", "x", "--lane", "l", "--policy", policy, "--candidate", triple, "--register", uri, *WHO)
    assert started.code == 0, started.err
    done = judge()
    assert "kept 2 requests, as policy p 1.0.0 of promotion x says: digests of the token ids" in done.out
    assert done.err == ""
    assert {record["store"] for record in stored(kcc, uri, tmp_path).values()} == {"hashes"}
    told = judge("--store", "full")
    assert "warning: --store is not followed: policy p 1.0.0 of promotion x" in told.err
    assert {record["store"] for record in stored(kcc, uri, tmp_path).values()} == {"hashes"}


def started(kcc, uri, tmp_path, name, requests, lane=None):
    """Starts a promotion of the only triple whose policy says this of requests; gives the digest of the policy's text."""
    triple = kcc("register", "list", "triples", "--register", uri, "--json").json["entries"][0]["id"]
    policy = tmp_path / f"policy-{name}.yaml"
    policy.write_text((POLICY % requests).replace("name: p,", f"name: {name},"))
    done = kcc("promote", "start", name, "--lane", lane or name, "--policy", policy, "--candidate", triple, "--register", uri, *WHO)
    assert done.code == 0, done.err
    return "sha256:" + hashlib.sha256(policy.read_bytes()).hexdigest()


def test_of_policies_that_disagree_what_all_of_them_allow_is_kept(kcc, uri, judge, tmp_path):
    assert judge().code == 1
    started(kcc, uri, tmp_path, "a", "store: full, retention: 90d, text: true")
    assert {record["store"] for record in judged_records(kcc, uri, judge, tmp_path).values()} == {"full"}
    started(kcc, uri, tmp_path, "b", "store: hashes, retention: 30d")
    done = judge("--store", "full", "--store-text")
    said = "policy a 1.0.0 of promotion a and b 1.0.0 of promotion b"
    either = said in done.out or "policy b 1.0.0 of promotion b and a 1.0.0 of promotion a" in done.out
    assert either and "digests of the token ids of flagged requests, for 720h" in done.out, done.out
    assert "--store is not followed" in done.err
    expires = [event["body"]["expires"] for event in kcc("register", "log", "--last", "99", "--register", uri, "--json").json["events"]
               if event["kind"] == "request.stored" and event["body"]["store"] == "hashes"]  # fmt: skip
    assert len(expires) == 2 and len(set(expires)) == 1
    # One that keeps nothing is not outvoted, and one that is over has no say.
    started(kcc, uri, tmp_path, "c", "store: none")
    assert "kept" not in judge("--store", "full").out
    assert kcc("promote", "abort", "c", "--register", uri, *WHO).code in (0, 1)
    assert "kept 2 requests" in judge().out


def judged_records(kcc, uri, judge, tmp_path):
    assert judge().code == 1
    return stored(kcc, uri, tmp_path)


def test_a_policy_that_is_gone_stops_the_record_only_while_it_decides(kcc, uri, judge, tmp_path):
    """What a policy under way allows is not guessed; of a promotion that is over nobody asks."""
    assert judge().code == 1
    digest = started(kcc, uri, tmp_path, "a", "store: hashes")
    gone = kcc("register", "gc", "--redact", digest, "--reason", "a slip", "--register", uri, *WHO)
    assert gone.code == 0, gone.err
    events = kcc("register", "verify", "--json", "--register", uri).json["events"]
    done = judge("--store", "full")
    assert done.code == 2 and f"the policy {digest} of this promotion is no longer stored" in done.err, done.err
    assert kcc("register", "verify", "--json", "--register", uri).json["events"] == events, "and nothing was recorded"
    # The promotion was over before its policy went.
    other = tmp_path / "other.db"
    assert kcc("register", "init", "--register", other).code == 0
    run = lambda *more: kcc("run", tmp_path / "c.yaml", "--train", TRAIN, "--infer", INFER, "--requests", tmp_path / "r.jsonl",
                            "--register", other, *WHO, *more)  # noqa: E731  # fmt: skip
    assert run().code == 1
    digest = started(kcc, other, tmp_path, "b", "store: none")
    assert kcc("promote", "abort", "b", "--register", other, *WHO).code in (0, 1)
    assert kcc("register", "gc", "--redact", digest, "--reason", "a slip", "--register", other, *WHO).code == 0
    assert "kept 2 requests, as --store says" in run("--store", "full").out


def test_retention_removes_records_and_leaves_their_events(kcc, uri, judge, tmp_path, asked):
    assert judge("--store", "full", "--store-for", "30d").code == 1
    gc = lambda *more: kcc("register", "gc", "--register", uri, "--actor", "ann", *more)  # noqa: E731
    assert "nothing to remove" in gc("--time", "2026-12-18T08:29:59Z").out
    gone = gc("--time", "2026-12-18T08:30:00Z")
    assert gone.out.count("retention") == 2, gone.out
    assert stored(kcc, uri, tmp_path) == {}
    assert kcc("register", "verify", "--register", uri).code == 0
    name = asked[1][0]["id"]
    lost = kcc("replay", name, "--register", uri, "--train", TRAIN, "--infer", INFER)
    assert lost.code == 2 and "was removed" in lost.err
    # It may come again, and go by --requests-before.
    assert judge("--store", "full").code == 1
    assert len(stored(kcc, uri, tmp_path)) == 2
    assert "nothing to remove" in gc("--time", "2036-01-01").out
    assert gc("--requests-before", "2026-11-19", "--time", "2026-11-20").out.count("retention") == 2
    assert kcc("register", "verify", "--register", uri).code == 0
    # A third time with a limit, which counts: the second one, without, is over.
    assert judge("--store", "full", "--store-for", "30d").code == 1
    assert gc("--time", "2026-12-18T08:30:00Z").out.count("retention") == 2


def test_a_shorter_retention_of_a_stored_record_takes_effect(kcc, uri, judge, tmp_path):
    gc = lambda *more: kcc("register", "gc", "--register", uri, "--actor", "ann", *more)  # noqa: E731
    told = lambda: kcc("register", "log", "--register", uri).out.count("request.stored")  # noqa: E731
    assert judge("--store", "full").code == 1
    assert "nothing to remove" in gc("--time", "2036-01-01").out
    assert told() == 2
    later = ["--actor", "ann", "--time", "2026-11-20T08:30:00Z"]
    assert judge("--store", "full", "--store-for", "30d", who=later).code == 1
    assert told() == 4
    # A longer one, or none, does not take back what was promised.
    for more in (["--store-for", "90d"], []):
        assert judge("--store", "full", *more, who=later).code == 1
    assert told() == 4
    assert "nothing to remove" in gc("--time", "2026-12-20T08:29:59Z").out
    # It was stored on the 18th, whatever was said of it since.
    early = gc("--requests-before", "2026-11-19", "--dry-run", "--time", "2026-11-21")
    assert early.out.count("retention") == 2, early.out + early.err
    assert gc("--time", "2026-12-20T08:30:00Z").out.count("retention") == 2
    assert stored(kcc, uri, tmp_path) == {}
    assert kcc("register", "verify", "--register", uri).code == 0
