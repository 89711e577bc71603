"""fmt, diff, schema, metrics and explain, each through the program."""

import json
import stat

import jsonschema
import pytest


def digest(kcc, text):
    return kcc("check", "--json", "-", stdin=text).json["files"][0]["digest"]


def comments(text):
    return sorted(line[line.index("#") :].strip() for line in text.splitlines() if "#" in line)


def test_fmt_keeps_meaning_and_comments_and_settles(kcc, contracts):
    for path in contracts:
        source = path.read_text()
        once = kcc("fmt", path)
        assert (once.code, once.err) == (0, ""), path
        assert digest(kcc, once.out) == digest(kcc, source)
        assert comments(once.out) == comments(source)
        assert kcc("fmt", "-", stdin=once.out).out == once.out, path


def test_fmt_puts_comments_where_they_belong(kcc):
    source = """\
# head

apiVersion: kcc/v1  # the language
kind: KernelContract
metadata: {name: c, version: 1.0.0}
spec:
  escalation:
    # the gate
    L3: rollback  # at once
  slices:
    # long ones
    - {name: long, where: prompt_tokens > 9}  # more than nine
  numerical:
    # about N-2
    - id: N-2   # an id
      metric: p99_kl   # a metric
      atMost: 0.1
      level: L1
      slices: [long]
      why: "not # a comment"
    # about N-1
    - {id: N-1, metric: p95_kl, level: L1, atMost: 0.1}
# tail
"""
    lines = kcc("fmt", "-", stdin=source).out.splitlines()

    def above(comment, text):
        at = lines.index(next(line for line in lines if line.strip() == comment))
        following = next(line for line in lines[at:] if not line.strip().startswith("#"))
        assert text in following

    assert lines[0] == "# head" and lines[-1] == "# tail"
    assert any(line.startswith("apiVersion: kcc/v1") and "# the language" in line for line in lines)
    above("# the gate", "L3: rollback")
    assert any("L3: rollback" in line and line.endswith("# at once") for line in lines)
    above("# long ones", "name: long")
    assert any("name: long" in line and line.endswith("# more than nine") for line in lines)
    above("# about N-2", "id: N-2")
    above("# about N-1", "id: N-1")
    assert sum("not # a comment" in line for line in lines) == 1


def test_fmt_drops_comments_only_when_asked(kcc, contracts):
    assert "#" not in kcc("fmt", "--drop-comments", contracts[-1]).out


def test_fmt_in_place_replaces_atomically_and_keeps_the_mode(kcc, tmp_path, minimal):
    path = tmp_path / "c.yaml"
    path.write_text("# note\n" + minimal.replace("atMost: 0.01", "atMost: 1.0e-2"))
    path.chmod(0o640)
    before = path.stat()
    outcome = kcc("fmt", "-i", path)
    assert (outcome.code, outcome.out, outcome.err) == (0, "", "")
    assert path.stat().st_ino != before.st_ino
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert path.read_text().startswith("# note\n") and "atMost: 0.01" in path.read_text()
    assert [entry.name for entry in tmp_path.iterdir()] == ["c.yaml"]
    settled = path.stat()
    assert kcc("fmt", "-i", path).code == 0
    assert path.stat().st_ino == settled.st_ino, "an unchanged file is left alone"


def test_fmt_writes_nothing_on_error(kcc, tmp_path, minimal):
    path = tmp_path / "c.yaml"
    path.write_text(minimal.replace("p99_kl", "p99_kll"))
    before = path.read_bytes()
    assert kcc("fmt", "-i", path).code == 2
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["c.yaml"]


def test_fmt_check_names_what_would_change(kcc, tmp_path, minimal):
    tidy, untidy = tmp_path / "tidy.yaml", tmp_path / "untidy.yaml"
    untidy.write_text(minimal.replace("atMost: 0.01", "atMost:   1.0e-2"))
    tidy.write_text(kcc("fmt", untidy).out)
    outcome = kcc("fmt", "--check", tidy, untidy)
    assert (outcome.code, outcome.out) == (1, f"{untidy}\n")
    assert kcc("fmt", "--check", tidy).code == 0
    rows = [json.loads(line) for line in kcc("fmt", "--check", "--json", tidy, untidy).out.splitlines()]
    assert [row["formatted"] for row in rows] == [True, False]


def test_fmt_json_is_the_form_that_is_digested(kcc, minimal):
    data = kcc("fmt", "--json", "-", stdin=minimal).json
    assert data == kcc("fmt", "--json", "-", stdin=kcc("fmt", "-", stdin=minimal).out).json


@pytest.mark.parametrize(
    ("old", "new", "code", "kind"),
    [
        ("atMost: 0.01", "atMost: 0.02", 1, "looser"),
        ("atMost: 0.01", "atMost: 0.005", 0, "tighter"),
        ("{id: N-1, metric: p99_kl, atMost: 0.01, level: L2}", "{id: N-2, metric: p95_tv, atMost: 0.1, level: L2}", 1, "gone"),
        ("id: N-1", "id: N-2", 0, "other"),
        ("level: L2}", "level: L2}\n    - {id: N-2, metric: p95_tv, atMost: 0.1, level: L2}", 0, "new"),
        ("version: 1.0.0", "version: 1.0.1", 0, "other"),
        ("evaluation-set}", "evaluation-set}\n  ", 0, None),
    ],
    ids=["raised", "lowered", "replaced", "renamed", "added", "version", "layout"],
)
def test_diff_says_what_changed_and_whether_it_is_looser(kcc, tmp_path, minimal, old, new, code, kind):
    before = tmp_path / "before.yaml"
    before.write_text(minimal)
    changed = minimal.replace(old, new)
    outcome = kcc("diff", before, "-", stdin=changed)
    assert (outcome.code, outcome.err) == (code, "")
    data = kcc("diff", "--json", before, "-", stdin=changed).json
    assert data["looser"] is (code == 1)
    assert data["same"] is (kind is None)
    if kind is None:
        assert "the same contract" in outcome.out and data["changes"] == []
    else:
        assert any(line.startswith(kind) for line in outcome.out.splitlines())
        assert kind in [change["kind"] for change in data["changes"]]
        words = "the new contract is looser" if code == 1 else "nothing is looser"
        assert words in outcome.out


def test_schema_accepts_every_contract_that_check_accepts(kcc, contracts):
    schema = json.loads(kcc("schema").out)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    for path in contracts:
        validator.validate(kcc("fmt", "--json", path).json)
    assert not validator.is_valid({"apiVersion": "kcc/v1"})
    good = {
        "apiVersion": "kcc/v1",
        "kind": "KernelContract",
        "metadata": {"name": "c", "version": "1.0.0"},
        "spec": {"numerical": [{"id": "N-1", "metric": "p99_kl", "atMost": 0.1, "level": "L1"}]},
    }
    validator.validate(good)
    good["spec"]["numerical"][0]["metric"] = "p99_klx"
    assert not validator.is_valid(good)


def test_metrics_lists_every_quantity_three_ways(kcc):
    data = kcc("metrics", "--json").json
    ids = [row["id"] for row in data["quantities"]]
    assert len(ids) == len(set(ids)) > 50
    table = kcc("metrics").out
    markdown = kcc("metrics", "--markdown").out
    names = kcc("metrics", "--names").out.split()
    for row in data["quantities"]:
        assert f"\n  {row['id']} " in table
        assert f"`{row['id']}`" in markdown
        name = row["id"] if row["level"] == "population" else f"p99_{row['id']}"
        assert name in names
    assert len(names) == len(set(names))


@pytest.mark.parametrize("name", ["kl", "p99_kl", "train_latency_ms", "p95_train_latency_ms", "ece_gap"])
def test_metrics_explains_one(kcc, name):
    outcome = kcc("metrics", name)
    assert outcome.code == 0 and outcome.out.startswith(name + "\n")
    assert "quantity" in kcc("metrics", "--json", name).json


EXPLAINED = """\
apiVersion: kcc/v1
kind: KernelContract
metadata: {name: words, version: 2.0.0}
spec:
  slices:
    - {name: long, where: "prompt_tokens>=8192"}
    - {name: late, where: "token.position >= 4096"}
  numerical:
    - {id: N-1, metric: mean_kl, atMost: 2e-3, exceedance: 7%, slices: [all, long], level: L2, action: freeze}
    - {id: N-2, metric: mean_kl, atMost: 1e-3, slices: [late], level: L3, why: a reason}
    - {id: N-3, metric: p999_abs_log_ratio, atMost: 0.1, level: L1, stages: [offline], confidence: 99%}
  observability:
    - {id: O-1, metric: trace_field_coverage, atLeast: 1, fields: [seed, id], level: L3}
  escalation:
    overrides: [{family: observability, level: L3, action: rollback}]
"""


def test_explain_says_what_each_clause_means(kcc):
    def words(clause):
        data = kcc("explain", "--json", "-", clause, stdin=EXPLAINED).json
        rows = {}
        for row in data["clauses"][0]["words"]:
            rows.setdefault(row["about"], []).append(row["text"])
        return rows

    soft = words("N-1")
    assert soft["requires"] == [
        "the mean of kl over the tokens, taken in each request, is at most 0.002 nat"
    ]
    assert soft["strictness"] == ["soft: up to 7% of the windows may breach it"]
    assert soft["slices"] == ["all: every request", "long: requests where prompt_tokens >= 8192"]
    assert "freeze" in soft["if violated"][0] and "clause itself" in soft["if violated"][0]
    assert "KL(train || infer)" in soft["quantity"][0]
    assert "caution" not in soft
    hard = words("N-2")
    assert hard["slices"] == ["late: tokens where token.position >= 4096"]
    assert "hard" in hard["strictness"][0] and "never certify" in hard["caution"][0]
    assert hard["why"] == ["a reason"] and "fallback" in hard["if violated"][0]
    tail = words("N-3")
    assert "99.9th percentile of abs_log_ratio" in tail["requires"][0]
    assert tail["stages"] == ["judged in offline only"] and "99%" in tail["speaks of"][0]
    field = words("O-1")
    assert "seed and id" in field["requires"][0] or "id and seed" in field["requires"][0]
    assert "rollback" in field["if violated"][0] and "override" in field["if violated"][0]


def test_explain_covers_the_shipped_contracts(kcc, contracts):
    for path in contracts:
        ids = kcc("explain", "--ids", path).out.split()
        text = kcc("explain", path)
        assert text.code == 0 and max(map(len, text.out.splitlines())) <= 120
        for clause in ids:
            assert f"\n{clause}  " in text.out


def test_explain_suggests_a_clause(kcc, contracts):
    outcome = kcc("explain", contracts[0], "N-11")
    assert outcome.code == 2 and "no clause 'N-11'; did you mean" in outcome.err
