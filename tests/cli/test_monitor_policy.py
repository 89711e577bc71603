"""Monitor policies on the command line: the commands that know contracts and promotion policies know them too."""

import json
import pathlib

import jsonschema
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SERVING = ROOT / "policies/monitor-serving.yaml"
TRAINING = ROOT / "policies/monitor-training.yaml"
PROMOTION = ROOT / "policies/promotion.yaml"
FP8 = ROOT / "contracts/fp8-serving.yaml"


@pytest.fixture
def changed(tmp_path):
    """The shipped policy with some texts replaced, each of which it holds."""

    def make(*replacements):
        text = SERVING.read_text()
        for old, new in replacements:
            assert old in text, old
            text = text.replace(old, new)
        path = tmp_path / "changed.yaml"
        path.write_text(text)
        return path

    return make


def test_check_knows_monitor_policies(kcc):
    good = kcc("check", "--strict", SERVING, TRAINING)
    assert (good.code, good.err) == (0, "")
    assert "serving-monitor 1.0.0, a monitor policy: 3 kernels, 1 per 10^6 requests" in good.out
    data = kcc("check", "--json", SERVING).json["files"][0]
    assert (data["kind"], data["valid"], data["diagnostics"]) == ("MonitorPolicy", True, [])


def test_check_lists_all_mistakes_in_one_run(kcc, changed):
    bad = changed(
        ("kind: MonitorPolicy", "kind: MonitorPolcy"),
        ("1 per 10^6 requests", "1 per 30d"),
        ("[2, 3, 10]", "[3, 2]"),
        ("target: high-precision", "target: high-precison"),
        ("role: fallback", "role: guard"),
    )
    outcome = kcc("check", bad)
    assert outcome.code == 2
    for words in (
        "did you mean 'MonitorPolicy'?",
        "add 'auditedRate: 5 per s', or write '1 per 10^6 requests' ",
        "[shifts-not-rising]",
        "did you mean 'high-precision'?",
        "no kernel has the role fallback",
    ):
        assert words.strip() in outcome.err, words
    assert f"{bad}:" in outcome.err and "invalid: 6 errors" in outcome.err


def test_warnings_fail_only_with_strict(kcc, changed):
    unwise = changed(("rate: 5%, probeRate: 5%", "rate: 0, probeRate: 0"), ("serve-safest", "fail-open"))
    outcome = kcc("check", unwise)
    assert outcome.code == 0 and "3 warnings" in outcome.out
    for code in ("[nothing-audited]", "[never-released]", "[fail-open]"):
        assert code in outcome.err
    assert kcc("check", "--strict", unwise).code == 2


@pytest.mark.parametrize("policy", [SERVING, TRAINING], ids=["serving", "training"])
def test_fmt_keeps_the_policy_and_its_comments(kcc, policy):
    assert kcc("fmt", policy).out == policy.read_text()
    assert kcc("fmt", "--check", policy).code == 0


def test_fmt_writes_one_spelling(kcc, changed):
    ugly = changed(
        ("1 per 10^6 requests", "1 per 1e6 requests"),
        ("{rate: 5%, probeRate: 5%}", "{probeRate: 0.05,   rate: 0.05, sessionFilter: 1024KiB}"),
    )
    assert kcc("diff", SERVING, ugly).out.startswith("the same policy, sha256:")
    assert kcc("fmt", "-i", ugly).code == 0
    assert ugly.read_text() == SERVING.read_text()


def test_diff_says_what_became_looser(kcc, changed):
    eager = changed(("10^6", "10^5"), ("clean: 3000", "clean: 300"), ("serve-safest", "fail-closed"))
    outcome = kcc("diff", SERVING, eager)
    assert outcome.code == 1 and "the new policy is looser" in outcome.out
    assert "falseAlarms raised from 1 per 10^6 requests to 1 per 10^5 requests" in outcome.out
    data = kcc("diff", "--json", SERVING, eager).json
    assert data["after"]["kind"] == "MonitorPolicy"
    assert [row["loosens"] for row in data["changes"]] == [True, True, False]
    assert kcc("diff", eager, SERVING).code == 1, "panic"
    mixed = kcc("diff", PROMOTION, SERVING)
    assert mixed.code == 2 and "one is a promotion policy and the other a monitor policy" in mixed.err


@pytest.mark.parametrize("policy", [SERVING, TRAINING], ids=["serving", "training"])
def test_the_schema_accepts_what_check_accepts(kcc, policy):
    schema = json.loads(kcc("schema", "--monitor").out)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    canonical = kcc("fmt", "--json", policy).json
    validator.validate(canonical)
    for change in (
        lambda spec: spec.update(falseAlarms="seldom"),
        lambda spec: spec["overrides"].append({"level": "L2"}),
        lambda spec: spec["kernels"][0].update(roll="infer"),
        lambda spec: spec.pop("panic"),
        lambda spec: spec.update(shifts=[0.5]),
    ):
        wrong = json.loads(json.dumps(canonical))
        change(wrong["spec"])
        assert not validator.is_valid(wrong)


def test_explain_takes_a_part(kcc):
    whole = kcc("explain", SERVING)
    assert whole.code == 0
    assert [line for line in whole.out.splitlines() if not line.startswith(" ")][-4:] == ["alarms", "audit", "routes", "release"]
    one = kcc("explain", SERVING, "routes")
    assert "a numerical violation of level L2 orders guard, to high-precision" in one.out
    assert "an observability violation of level L3 orders rollback, to reference" in one.out
    assert "e-SR" not in one.out
    assert kcc("explain", "--ids", SERVING).out.split() == ["alarms", "audit", "routes", "release"]
    wrong = kcc("explain", SERVING, "canary")
    assert wrong.code == 2 and "there is no part 'canary'" in wrong.err
    parts = kcc("explain", "--json", SERVING, "release").json["parts"]
    assert [row["part"] for row in parts] == ["release"]
    assert {row["about"] for row in parts[0]["words"]} == {"rule", "error", "hard clauses", "probation"}


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["promote", "explain", SERVING, FP8], "is a monitor policy, and a promotion policy is wanted"),
        (["schema", "--monitor", "--policy"], "--policy"),
        (["judge", SERVING, "none"], "unknown kind 'MonitorPolicy'"),
    ],
)
def test_wrong_use_is_said(kcc, arguments, message):
    outcome = kcc(*arguments)
    assert outcome.code in (2, 4)
    assert message in outcome.err + outcome.out
