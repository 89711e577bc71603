"""Metrics that a contract defines itself (spec.metrics), through the real program, from check to report."""

import json
import re

import jsonschema
import numpy as np
import pytest

from kcc.trace import write_trace

METRICS = """\
    - {name: tool_errors, from: tool_errors, direction: lower, min: 0, doc: failed tool calls}
    # what is left of a request's time
    - {name: queue_ms, of: request, from: "latency_ms - ttft_ms - decode_ms", unit: ms, direction: lower}
    - {name: surprise, of: token, from: -token.logprob, unit: nat, direction: lower, min: 0}
"""
CONTRACT = (
    """\
apiVersion: kcc/v1
kind: KernelContract
metadata: {name: own, version: 1.0.0}
spec:
  metrics:
"""
    + METRICS
    + """\
  slices:
    - {name: late, where: token.position >= 3}
    - {name: hard, where: difficulty == 'hard'}
  numerical:
    - {id: N-1, metric: mean_surprise, atMost: 2, slices: [all, late], level: L3}
    - {id: N-2, metric: mean_train_surprise, atMost: 2, level: L3}
  runtime:
    - {id: R-1, metric: rate_tool_errors, atMost: 50%, slices: [all, hard], level: L2}
    - {id: R-2, metric: p95_queue_ms, atMost: 20ms, level: L2}
    - {id: R-3, metric: max_train_queue_ms, atMost: 20ms, level: L2}
    - {id: R-4, metric: max_queue_ms, atMost: 20, exceedance: 50%, window: 2 requests, level: L2}
"""
)
COUNT, TOKENS = 6, 5


def trace(directory, name, *, change=lambda rows: None, logprob=-1.0):
    rows = [
        {"id": f"r{i}", "prompt_tokens": 1, "output_tokens": TOKENS, "latency_ms": 100.0, "ttft_ms": 30.0, "ordinal": i,
         "decode_ms": 60.0, "tool_errors": i % 2, "difficulty": "hard" if i < 2 else "easy"}
        for i in range(COUNT)
    ]  # fmt: skip
    change(rows)
    tensors = {
        "request": np.repeat(np.arange(COUNT, dtype=np.int32), TOKENS),
        "position": np.tile(np.arange(1, TOKENS + 1, dtype=np.int32), COUNT),
        "token": np.zeros(COUNT * TOKENS, dtype=np.int32),
        "logprob": np.full(COUNT * TOKENS, logprob, dtype=np.float32),
    }
    info = {"kernelFingerprint": name, "vocabSize": 8, "evidence": "sampled-token", "sampledBy": "dataset"}
    write_trace(directory / name, info, rows, tensors)
    return directory / name


@pytest.fixture
def pair(tmp_path):
    return trace(tmp_path, "train", logprob=-0.5), trace(tmp_path, "infer")


@pytest.fixture
def contract(tmp_path):
    path = tmp_path / "own.yaml"
    path.write_text(CONTRACT)
    return path


def verdicts(report):
    return {(clause["id"], row["slice"]): row["verdict"] for clause in report["clauses"] for row in clause["slices"]}


def test_check_fmt_and_schema_know_them(kcc, contract, tmp_path):
    outcome = kcc("check", contract)
    assert (outcome.code, outcome.err) == (0, "")
    formatted = kcc("fmt", contract).out
    assert re.search(r"# what is left of a request's time\n    - \{?name: queue_ms", formatted)
    again = tmp_path / "again.yaml"
    again.write_text(formatted)
    canonical = kcc("fmt", "--json", contract).json
    assert kcc("fmt", "--json", again).json == canonical
    assert [row["name"] for row in canonical["spec"]["metrics"]] == ["queue_ms", "surprise", "tool_errors"]
    validator = jsonschema.Draft202012Validator(json.loads(kcc("schema").out))
    validator.validate(canonical)
    del canonical["spec"]["metrics"]  # without them their metrics are unknown names
    assert not validator.is_valid(canonical)


def test_a_mistake_is_shown_with_its_place(kcc, contract):
    contract.write_text(CONTRACT.replace("latency_ms - ttft_ms", "latency_ms - tags"))
    outcome = kcc("check", contract)
    assert outcome.code == 2
    assert f"{contract}:8:" in outcome.out + outcome.err
    assert "'tags' is a list of text" in outcome.out + outcome.err
    contract.write_text(CONTRACT.replace("p95_queue_ms", "p95_queu_ms"))
    outcome = kcc("check", contract)
    assert "did you mean 'p95_queue_ms'?" in outcome.out + outcome.err


def test_metrics_and_explain_say_what_they_are(kcc, contract):
    def words(*arguments):
        return " ".join(kcc(*arguments).out.split())  # lines are wrapped

    listed = words("metrics", "--contract", contract)
    assert "Of the contract own" in listed and "latency_ms - ttft_ms - decode_ms" in listed
    assert "queue_ms" not in kcc("metrics").out
    names = kcc("metrics", "--names", "--contract", contract).out.split()
    assert {"p95_queue_ms", "mean_train_surprise", "p99_kl"} <= set(names)
    rows = {row["id"]: row for row in kcc("metrics", "--json", "--contract", contract).json["quantities"]}
    assert rows["surprise"]["unit"] == "nat" and rows["surprise"]["evidence"] == "token-fields"
    one = words("metrics", "--contract", contract, "p95_tool_errors")
    assert "failed tool calls" in one and "0 or more" in one
    explained = words("explain", contract, "R-2")
    assert "queue_ms, per request, in ms, of the inference kernel: latency_ms - ttft_ms - decode_ms" in explained
    assert "spec.metrics" in explained
    assert "a value outside is an error" in words("explain", contract, "N-1")


def test_diff_calls_a_changed_definition_looser(kcc, contract, tmp_path):
    other = tmp_path / "other.yaml"
    other.write_text(CONTRACT.replace("- decode_ms", "- decode_ms - 5"))
    outcome = kcc("diff", contract, other)
    assert outcome.code == 1
    assert "metric queue_ms" in outcome.out and "definition changed" in outcome.out
    assert kcc("diff", contract, contract).code == 0


def test_run_judges_both_sides_slices_and_windows(kcc, contract, pair, tmp_path):
    outcome = kcc("run", contract, "--train", pair[0], "--infer", pair[1], "--report", tmp_path / "report")
    report = json.loads((tmp_path / "report" / "report.json").read_text())
    assert outcome.code == 0, outcome.out + outcome.err
    assert set(verdicts(report).values()) == {"satisfied"}
    values = {(clause["id"], row["slice"]): row["value"] for clause in report["clauses"] for row in clause["slices"]}
    assert values["N-1", "late"] == 1 and values["N-2", "all"] == 0.5
    assert values["R-1", "hard"] == 0.5 and values["R-2", "all"] == 10
    assert report["labels"]["queue_ms"] == {
        "unit": "ms", "direction": "lower", "level": "request", "definition": "latency_ms - ttft_ms - decode_ms",
    }  # fmt: skip
    assert report["quantities"]["train_surprise"]["all"]["mean"] == 0.5
    r2 = next(clause for clause in report["clauses"] if clause["id"] == "R-2")
    assert (r2["quantity"], r2["aggregate"]) == ("queue_ms", "p95")
    # Read back, a report says the same.
    again = tmp_path / "again"
    assert kcc("report", tmp_path / "report" / "report.json", "-o", again).code == 0
    assert json.loads((again / "report.json").read_text())["labels"] == report["labels"]
    schema = json.loads(kcc("schema", "--report").out)
    jsonschema.Draft202012Validator(schema).validate(report)


def test_a_slow_infer_violates_and_train_is_not_blamed(kcc, contract, tmp_path):
    train = trace(tmp_path, "train", logprob=-0.5)
    infer = trace(tmp_path, "infer", logprob=-3.0, change=lambda rows: [row.update(latency_ms=200.0) for row in rows])
    outcome = kcc("run", contract, "--train", train, "--infer", infer, "--json")
    found = verdicts(outcome.json)
    assert outcome.code == 1
    assert found["N-1", "all"] == found["N-1", "late"] == "violated" and found["N-2", "all"] == "satisfied"
    assert found["R-2", "all"] == found["R-4", "all"] == "violated" and found["R-3", "all"] == "satisfied"


def test_what_is_not_recorded_is_inconclusive(kcc, contract, tmp_path):
    train = trace(tmp_path, "train")
    infer = trace(tmp_path, "infer", change=lambda rows: rows[3].pop("decode_ms"))
    found = verdicts(kcc("run", contract, "--train", train, "--infer", infer, "--json").json)
    assert found["R-2", "all"] == "inconclusive" and found["R-4", "all"] == "inconclusive"
    assert found["R-3", "all"] == "satisfied"


def test_a_value_outside_the_declared_range_is_an_error(kcc, contract, tmp_path):
    train = trace(tmp_path, "train")
    infer = trace(tmp_path, "infer", change=lambda rows: rows[5].update(tool_errors=-4))
    outcome = kcc("run", contract, "--train", train, "--infer", infer, "--json")
    found = verdicts(outcome.json)
    assert found["R-1", "all"] == "error" and found["R-1", "hard"] == "satisfied"
    reasons = [row["reason"] for clause in outcome.json["clauses"] for row in clause["slices"]]
    assert any("a value of tool_errors is -4" in reason for reason in reasons)


def test_shards_merge_to_the_same_bytes_and_other_definitions_do_not(kcc, contract, pair, tmp_path):
    def measure(name, *arguments, by=contract):
        out = tmp_path / name
        outcome = kcc("measure", *pair, "--contract", by, "-o", out, *arguments)
        assert outcome.code == 0, outcome.err
        return out

    whole = measure("whole.kccs")
    parts = [measure(f"{i}.kccs", "--shard", f"{i}/2") for i in (1, 2)]
    merged = tmp_path / "merged.kccs"
    assert kcc("merge", *parts, "-o", merged).code == 0
    assert merged.read_bytes() == whole.read_bytes()
    assert measure("threads.kccs", "--threads", "3").read_bytes() == whole.read_bytes()
    assert kcc("judge", contract, whole).code == 0

    other = tmp_path / "other.yaml"
    other.write_text(CONTRACT.replace("- decode_ms", "- decode_ms - 5"))
    outcome = kcc("merge", parts[0], measure("other.kccs", "--shard", "2/2", by=other), "-o", tmp_path / "no.kccs")
    assert outcome.code != 0 and "different plans" in outcome.err
    # Judged under another definition the same values show nothing, though they are within the threshold.
    outcome = kcc("judge", other, whole, "--json")
    assert outcome.code == 3
    assert verdicts(outcome.json)["R-2", "all"] == "inconclusive"
    assert verdicts(outcome.json)["R-4", "all"] == "inconclusive"
    reasons = [row["reason"] for clause in outcome.json["clauses"] for row in clause["slices"]]
    assert any("another definition of 'queue_ms'" in reason for reason in reasons)


def test_contracts_without_them_are_measured_as_before(kcc, pair, tmp_path):
    plain = tmp_path / "plain.yaml"
    plain.write_text(CONTRACT[: CONTRACT.index("  metrics:")] + "  runtime:\n    - {id: R-1, metric: p95_latency_ms, atMost: 400, level: L2}\n")
    unused = tmp_path / "unused.yaml"
    unused.write_text(plain.read_text().replace("spec:\n", "spec:\n  metrics:\n    - {name: x, from: x, direction: lower}\n"))
    files = []
    for path in (plain, unused):
        files.append(tmp_path / f"{path.stem}.kccs")
        assert kcc("measure", *pair, "--contract", path, "-o", files[-1]).code == 0
    assert files[0].read_bytes() == files[1].read_bytes()
    assert "unused-metric" in kcc("check", "--json", unused).out
