"""kcc schema --trace: the published page, the traces that come with kcc, and what kcc trace verify says of records."""

import json
import pathlib
import shutil

import jsonschema

ROOT = pathlib.Path(__file__).resolve().parents[2]
TRACES = [ROOT / "examples/traces/train", ROOT / "examples/traces/infer"]


def validator(kcc):
    schema = json.loads(kcc("schema", "--trace").out)
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def test_the_page_is_what_is_printed(kcc):
    assert kcc("schema", "--trace").out == (ROOT / "docs/trace.schema.json").read_text()


def test_the_examples_keep_to_it(kcc):
    valid = validator(kcc)
    for trace in TRACES:
        valid.validate(json.loads((trace / "trace.json").read_text()))
        for line in (trace / "requests.jsonl").read_text().splitlines():
            valid.validate(json.loads(line))


def test_what_it_refuses(kcc):
    valid = validator(kcc)
    info = json.loads((TRACES[0] / "trace.json").read_text())
    for wrong in ({}, {"id": ""}, {"id": "r", "latency_ms": -1}, {"id": "r", "refused": 0}, {**info, "semantic": "raw"},
                  {**info, "evidence": "all"}, {key: value for key, value in info.items() if key != "temperature"}):  # fmt: skip
        assert not valid.is_valid(wrong), wrong
    assert valid.is_valid({**info, "modelDigest": None}) and valid.is_valid({"id": 7, "mine": {"a": 1}, "tags": None})


def test_a_record_that_does_not_keep_to_it_is_named_and_counted(kcc, tmp_path):
    """Judged and verified: the trace is sound, and its clause on events is violated."""
    infer = tmp_path / "infer"
    shutil.copytree(TRACES[1], infer)
    lines = [json.loads(line) for line in (infer / "requests.jsonl").read_text().splitlines()]
    lines[3]["latency_ms"] = "12"
    (infer / "requests.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert kcc("trace", "verify", TRACES[1], "--json").json["notConforming"] == 0
    found = kcc("trace", "verify", infer, "--json").json
    assert found["notConforming"] == 1
    assert found["firstNotConforming"] == {"request": lines[3]["id"], "fault": "'latency_ms' must be a number from 0 to 2^53"}
    assert "1 record does not keep to kcc schema --trace; the first" in kcc("trace", "verify", infer).out
    contract = tmp_path / "events.yaml"
    contract.write_text(
        "apiVersion: kcc/v1\nkind: KernelContract\nmetadata: {name: events, version: 1.0.0}\nspec:\n  observability:\n"
        "    - {id: O-3, metric: event_conformance, atLeast: 1, level: L2}\n"
    )
    judged = [kcc("run", contract, "--train", TRACES[0], "--infer", side, "--json") for side in (TRACES[1], infer)]
    assert [outcome.code for outcome in judged] == [0, 1]
    (row,) = judged[1].json["clauses"][0]["slices"]
    assert row["verdict"] == "violated" and f"1 of {len(lines)} records do not keep to it" in row["reason"]
