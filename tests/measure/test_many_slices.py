"""A report of very many slices: it grows with what it shows, and hides no verdict."""

import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SLICES, CLAUSES = 150, 28


def contract(path):
    names = json.dumps(["all", *(f"tenant-{i}" for i in range(SLICES))])
    lines = ["apiVersion: kcc/v1", "kind: KernelContract", "metadata: {name: many, version: 1.0.0}", "spec:",
             "  decision: {about: evaluation-set}", "  slices:"]  # fmt: skip
    lines += [f"    - {{name: tenant-{i}, where: \"'t{i}' in tags\"}}" for i in range(SLICES)]
    lines += ["  numerical:"]
    for i in range(CLAUSES):
        limit = 1e-9 if i + 1 == CLAUSES else 50 + i  # the last alone is violated, everywhere
        lines.append(f"    - {{id: N-{i}, metric: mean_kl, atMost: {limit}, level: L2, slices: {names}}}")
    path.write_text("\n".join(lines) + "\n")


def test_limits_are_kept_and_said(kcc, tmp_path):
    contract(tmp_path / "c.yaml")
    rows = [{"id": f"r{i}", "tags": [f"t{i}"], "prompt": [1, 2], "output": [3, 4]} for i in range(SLICES)]
    (tmp_path / "r.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for name, noise in (("train", 0), ("infer", 0.1)):
        toy = f"exec:{sys.executable} {ROOT}/tests/kernel/toy.py none --noise {noise}"
        assert kcc("score", toy, "--requests", tmp_path / "r.jsonl", "-o", tmp_path / name).code == 0
    done = kcc("run", tmp_path / "c.yaml", "--train", tmp_path / "train", "--infer", tmp_path / "infer",
               "--report", tmp_path / "report")  # fmt: skip
    assert done.code == 1, done.err
    pairs = (SLICES + 1) * CLAUSES
    assert f"on {SLICES + 1} of {pairs:,} clause–slice pairs" in done.out
    assert f"… and {SLICES + 1 - 100} further slices not satisfied, {SLICES + 1 - 100} of them violated" in done.out

    text = (tmp_path / "report/report.json").read_text()
    report = json.loads(text)
    assert sum(len(clause["slices"]) for clause in report["clauses"]) == pairs
    assert report["totals"]["pairs"]["violated"] == SLICES + 1
    assert report["slicesWithoutDetail"] == SLICES + 1 - 100
    for table in ("quantities", "histograms"):
        assert all(len(slices) <= 100 and "all" in slices for slices in report[table].values())
    assert len(report["curves"]) == 100

    page = (tmp_path / "report/report.html").read_text()
    shown = json.loads(page.split('id="report">', 1)[1].split("</script>", 1)[0])
    assert sum(len(clause["slices"]) for clause in shown["clauses"]) == 4000
    assert all(clause["slices"] for clause in shown["clauses"])
    assert len(shown["clauses"][-1]["slices"]) == SLICES + 1  # nothing violated is left out
    assert shown["totals"] == report["totals"] and shown["headline"] == report["headline"]
    assert f"this page shows 4,000 of {pairs:,} clause–slice pairs" in page
    assert f"in report.json alone are {pairs - 4000} satisfied" in page

    # Read back, it is shown the same.
    assert kcc("report", tmp_path / "report", "-o", tmp_path / "again").code == 0
    for name in ("report.json", "report.html", "report.md", "junit.xml"):
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "report" / name).read_bytes(), name
