"""report.json against its schema, junit.xml by standard parsers, and bytes that do not change."""

import json
import os
import pathlib
import subprocess
import xml.etree.ElementTree as ElementTree

import jsonschema
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SAMPLES = ["violated", "convergent", "large", "hostile", "empty"]


@pytest.fixture(scope="module")
def validator():
    schema = json.loads((ROOT / "docs" / "report.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.mark.parametrize("sample", SAMPLES)
def test_report_json_validates_against_the_published_schema(samples, validator, sample):
    report = json.loads((samples / sample / "report.json").read_text())
    assert [error.message for error in validator.iter_errors(report)] == []


def test_the_schema_refuses_what_is_not_a_report(samples, validator):
    report = json.loads((samples / "violated" / "report.json").read_text())
    wrong = [
        {**report, "verdict": "fine"},
        {**report, "kccReport": 2},
        {key: value for key, value in report.items() if key != "action"},
        {**report, "health": "good"},
        {**report, "clauses": [{**report["clauses"][0], "slices": [{"slice": "all"}]}]},
    ]
    for document in wrong:
        assert not validator.is_valid(document)


@pytest.mark.parametrize("sample", SAMPLES)
def test_junit_says_what_the_json_says(samples, sample):
    report = json.loads((samples / sample / "report.json").read_text())
    suites = ElementTree.parse(samples / sample / "junit.xml").getroot()
    totals = report["totals"]["pairs"]
    assert suites.tag == "testsuites"
    assert int(suites.get("failures")) == totals["violated"] == len(suites.findall(".//failure"))
    assert int(suites.get("errors")) == totals["error"] == len(suites.findall(".//testcase/error"))
    assert int(suites.get("skipped")) == totals["inconclusive"] == len(suites.findall(".//skipped"))
    assert int(suites.get("tests")) == sum(totals.values()) == len(suites.findall(".//testcase"))
    for suite in suites:
        assert int(suite.get("tests")) == len(suite.findall("testcase"))
    names = [(case.get("classname"), case.get("name")) for case in suites.iter("testcase")]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("sample", SAMPLES)
def test_sarif_is_json_with_resolvable_rules(samples, sample):
    log = json.loads((samples / sample / "report.sarif").read_text())
    run = log["runs"][0]
    rules = run["tool"]["driver"]["rules"]
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert (result["kind"] == "open") == (result["level"] == "none")


def test_the_same_evidence_gives_the_same_bytes(samples, tmp_path):
    build = pathlib.Path(os.environ.get("KCC_BUILD", ROOT / "build" / "release"))
    subprocess.run([build / "tests/kcc_report_sample_files", tmp_path], check=True)
    files = sorted(path.relative_to(samples) for path in samples.rglob("*") if path.is_file())
    assert len(files) > 30
    for path in files:
        assert (samples / path).read_bytes() == (tmp_path / path).read_bytes(), path
