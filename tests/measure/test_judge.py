"""kcc run, judge, report and compare through the real program: verdicts, exit codes, equal bytes."""

import json
import xml.etree.ElementTree

import jsonschema
import pytest

import pairs

HEAD = """
apiVersion: kcc/v1
kind: KernelContract
metadata: {name: judged, version: 1.0.0}
spec:
"""


def write(tmp_path, clauses, spec=""):
    path = tmp_path / "contract.yaml"
    path.write_text(HEAD + spec + "  numerical:\n" + "".join(f"    - {clause}\n" for clause in clauses))
    return path


@pytest.fixture
def pair(tmp_path):
    train, infer, *_ = pairs.logits_pair(tmp_path, noise=0.05)
    return train, infer


@pytest.mark.parametrize(
    "clauses, code, verdict",
    [
        (["{id: N-1, metric: max_kl, atMost: 1, level: L3}"], 0, "satisfied"),
        (["{id: N-1, metric: max_kl, atMost: 1e-9, level: L3}"], 1, "violated"),
        (["{id: N-1, metric: max_kl, atMost: 1, minSamples: {requests: 99}, level: L3}"], 3, "inconclusive"),
        (["{id: N-1, metric: max_kl, atMost: 1, slices: [none], level: L3}"], 3, "inconclusive"),
        (["{id: N-1, metric: max_latency_ms, atMost: 1, level: L3}"], 3, "inconclusive"),
        (["{id: N-1, metric: max_kl, atMost: 1e-9, level: L1}", "{id: N-2, metric: max_tv, atMost: 0.9, level: L3}"], 1, "violated"),
    ],
)
def test_the_exit_code_is_the_verdict(kcc, tmp_path, pair, clauses, code, verdict):
    contract = write(tmp_path, clauses, '  slices: [{name: none, where: prompt_tokens > 99}]\n')
    done = kcc("run", contract, "--train", f"trace:{pair[0]}", "--infer", pair[1], "--json")
    assert done.code == code, done.out + done.err
    assert json.loads(done.out)["verdict"] == verdict


def test_invalid_input_and_broken_evidence_have_their_own_codes(kcc, tmp_path, pair):
    contract = write(tmp_path, ["{id: N-1, metric: max_kll, atMost: 1, level: L3}"])
    assert kcc("run", contract, "--train", pair[0], "--infer", pair[1]).code == 2
    contract = write(tmp_path, ["{id: N-1, metric: max_kl, atMost: 1, level: L3}"])
    assert kcc("run", contract, "--train", tmp_path / "nowhere", "--infer", pair[1]).code == 4
    assert kcc("run", contract, "--train", "magic:x", "--infer", pair[1]).code == 2
    wrong = write(tmp_path, ["{id: N-1, metric: max_kl, atMost: 1, level: L3}"], "  assumptions: {temperature: 0.5}\n")
    done = kcc("run", wrong, "--train", pair[0], "--infer", pair[1], "--json")
    assert done.code == 4
    assert json.loads(done.out)["verdict"] == "error"


def test_fail_on_lets_lower_levels_pass(kcc, tmp_path, pair):
    contract = write(tmp_path, ["{id: N-1, metric: max_kl, atMost: 1e-9, level: L1}", "{id: N-2, metric: max_tv, atMost: 0.9, level: L2}"])
    run = ["run", contract, "--train", pair[0], "--infer", pair[1]]
    assert kcc(*run).code == 1
    assert kcc(*run, "--fail-on", "L2").code == 0


def test_reports_are_the_same_bytes_and_fit_their_schema(kcc, tmp_path, pair):
    contract = write(
        tmp_path,
        [
            "{id: N-1, metric: p99_kl, atMost: 1e-4, slices: [all, safety], level: L3}",
            "{id: N-2, metric: mean_tv, atMost: 0.02, exceedance: 10%, level: L2}",
        ],
        "  slices: [{name: safety, where: \"'safety' in tags\"}]\n",
    )
    folders = []
    for name, flags in (("a", ["--threads", 1]), ("b", ["--threads", 2]), ("c", ["--target", "scalar"])):
        folder = tmp_path / name
        done = kcc("run", contract, "--train", pair[0], "--infer", pair[1], "--report", folder, "--sarif", *flags)
        assert done.code == 1, done.err
        folders.append({path.name: path.read_bytes() for path in folder.iterdir()})
    assert set(folders[0]) == {"report.json", "report.html", "report.md", "junit.xml", "report.sarif"}
    assert folders[0] == folders[1] == folders[2]

    report = json.loads(folders[0]["report.json"])
    jsonschema.validate(report, json.loads(kcc("schema", "--report").out))
    assert [clause["id"] for clause in report["clauses"]] == ["N-1", "N-2"]
    suites = xml.etree.ElementTree.fromstring(folders[0]["junit.xml"])
    assert len(suites.findall(".//testcase")) == 3
    assert len(suites.findall(".//failure")) == sum(
        row["verdict"] == "violated" for clause in report["clauses"] for row in clause["slices"]
    )
    lines = contract.read_text().splitlines()
    sarif = json.loads(folders[0]["report.sarif"])
    for result in sarif["runs"][0]["results"]:
        line = result["locations"][0]["physicalLocation"]["region"]["startLine"]
        assert result["ruleId"] in lines[line - 1]

    # A stored report renders again to the same bytes.
    done = kcc("report", tmp_path / "a" / "report.json", "-o", tmp_path / "again", "--sarif")
    assert done.code == 0, done.err
    assert {p.name: p.read_bytes() for p in (tmp_path / "again").iterdir()} == folders[0]


def test_judging_a_stored_summary_equals_running(kcc, tmp_path, pair):
    contract = write(tmp_path, ["{id: N-1, metric: p99_kl, atMost: 1e-4, level: L3}"])
    summary = tmp_path / "s.kccs"
    ran = kcc("run", contract, "--train", pair[0], "--infer", pair[1], "--summary", summary, "--json")
    judged = kcc("judge", contract, summary, "--traces", f"{pair[0]}:{pair[1]}", "--json")
    assert judged.out == ran.out and judged.code == ran.code
    # Without the traces, what stands around the worst tokens is missing, and a percentile is known to a bucket.
    alone, whole = json.loads(kcc("judge", contract, summary, "--json").out), json.loads(ran.out)
    for row in whole["worst"]:
        assert row.pop("context") and row.pop("tags")
    shown, exact = (report["clauses"][0]["slices"][0] for report in (alone, whole))
    low, high = shown["interval"]
    assert low <= exact["value"] <= high and exact["interval"] == [exact["value"]] * 2
    assert exact["smallestPassing"] == exact["value"] <= shown["smallestPassing"]
    for report in (alone, whole):
        for key in ("value", "interval", "reason", "smallestPassing", "deviation", "severity"):
            del report["clauses"][0]["slices"][0][key]
        for key in ("inputs", "next", "worstPair"):  # follow from the traces' names and from what they show
            report.pop(key, None)
        del report["clauses"][0]["slices"][0]["other"]["reason"], report["health"]
    assert alone == whole
    other = kcc("judge", contract, summary, "--traces", f"{pair[1]}:{pair[0]}")
    assert other.code == 2 and "not measured from" in other.err
    # A threshold that the summary did not count is decided from the histogram or left open.
    for threshold, codes in (("1e-12", {1}), ("1", {0}), ("3.7e-4", {0, 1, 3})):
        other = write(tmp_path, [f"{{id: N-1, metric: p99_kl, atMost: {threshold}, level: L3}}"])
        assert kcc("judge", other, summary).code in codes


def test_compare_says_what_changed(kcc, tmp_path):
    reports = []
    for name, noise in (("before", 0.01), ("after", 0.5)):
        root = tmp_path / name
        root.mkdir()
        train, infer, *_ = pairs.logits_pair(root, noise=noise)
        contract = write(tmp_path, ["{id: N-1, metric: p99_kl, atMost: 0.01, level: L3}"])
        kcc("run", contract, "--train", train, "--infer", infer, "--report", root / "out")
        reports.append(root / "out" / "report.json")
    worse = kcc("compare", *reports)
    assert worse.code == 1 and "regressed" in worse.out and "N-1" in worse.out
    better = kcc("compare", *reversed(reports), "--json")
    assert better.code == 0
    assert json.loads(better.out)
    assert kcc("compare", reports[0], reports[0]).code == 0


@pytest.mark.parametrize("key, lie", [("verdict", "satisfied"), ("convergent", True), ("health", 0), ("action", "none")])
def test_an_edited_conclusion_is_caught_on_reading(kcc, tmp_path, pair, key, lie):
    contract = write(tmp_path, ["{id: N-1, metric: max_kl, atMost: 1e-9, level: L3}"])
    assert kcc("run", contract, "--train", pair[0], "--infer", pair[1], "--report", tmp_path / "out").code == 1
    path = tmp_path / "out" / "report.json"
    honest = tmp_path / "honest.json"
    honest.write_bytes(path.read_bytes())
    path.write_text(json.dumps({**json.loads(path.read_text()), key: lie}))
    for arguments in (["report", path], ["report", path, "-o", tmp_path / "again"], ["compare", honest, path], ["compare", path, honest]):
        done = kcc(*arguments)
        assert done.code == 2 and f".{key} is" in done.err and "edited" in done.err, (arguments, done.err)
        assert not done.out
    assert not (tmp_path / "again" / "report.json").exists()
