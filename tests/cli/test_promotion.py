"""Promotion policies on the command line: the commands tell documents apart by their kind."""

import json
import pathlib

import jsonschema
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
POLICY = ROOT / "policies/promotion.yaml"
FP8 = ROOT / "contracts/fp8-serving.yaml"
FLEET = ROOT / "contracts/heterogeneous-fleet.yaml"
LAB = ROOT / "contracts/lab.yaml"


@pytest.fixture
def without_clean(tmp_path):
    lines = POLICY.read_text().splitlines(keepends=True)
    path = tmp_path / "no-clean.yaml"
    path.write_text("".join(line for line in lines if not line.strip().startswith("clean:")))
    return path


def test_check_knows_policies_and_their_mistakes(kcc, tmp_path):
    good = kcc("check", POLICY)
    assert (good.code, good.err) == (0, "")
    assert "a promotion policy: offline, shadow, canary and full" in good.out
    data = kcc("check", "--json", POLICY).json["files"][0]
    assert (data["kind"], data["valid"]) == ("PromotionPolicy", True)
    bad = tmp_path / "bad.yaml"
    bad.write_text(POLICY.read_text().replace("traffic: 10%", "traffic: 1%").replace("kind: Prom", "kind: Prum"))
    outcome = kcc("check", bad)
    assert outcome.code == 2
    assert "did you mean 'PromotionPolicy'?" in outcome.err and "[steps-not-rising]" in outcome.err


def test_strict_asks_for_reasons_a_date_and_decidable_clauses(kcc, without_clean):
    for contract in (FP8, FLEET):
        outcome = kcc("check", "--strict", contract, POLICY)
        assert (outcome.code, outcome.err) == (0, ""), outcome.err
    lab = kcc("check", "--strict", "--policy", POLICY, LAB)
    assert lab.code == 2
    assert "[no-why]" in lab.err and "[no-review-date]" in lab.err and "[undecidable-clause]" not in lab.err
    assert kcc("check", LAB).code == 0
    for contract, clauses in ((FP8, ["O-1", "O-2", "O-3"]), (FLEET, ["R-1"]), (LAB, ["N-1", "N-2", "S-1", "O-1"])):
        outcome = kcc("check", "--strict", "--json", "--policy", without_clean, contract)
        found = [row["message"] for row in outcome.json["files"][0]["diagnostics"] if row["code"] == "undecidable-clause"]
        assert [row.split("'")[1] for row in found] == clauses
        assert outcome.code == 2


def test_fmt_keeps_the_policy_and_its_comments(kcc, tmp_path):
    assert kcc("fmt", POLICY).out == POLICY.read_text()
    assert kcc("fmt", "--check", POLICY).code == 0
    ugly = tmp_path / "ugly.yaml"
    ugly.write_text(POLICY.read_text().replace("[L2, L3]", "[L3,   L2]").replace("168h", "10080m"))
    assert kcc("fmt", "-i", ugly).code == 0
    assert ugly.read_text() == POLICY.read_text()


def test_diff_says_what_became_looser(kcc, without_clean, tmp_path):
    assert kcc("diff", POLICY, POLICY).out.startswith("the same policy, sha256:")
    assert kcc("diff", POLICY, without_clean).code == 0
    looser = kcc("diff", without_clean, POLICY)
    assert looser.code == 1 and "the new policy is looser" in looser.out
    data = kcc("diff", "--json", without_clean, POLICY).json
    assert data["looser"] and data["after"]["kind"] == "PromotionPolicy"
    mixed = kcc("diff", POLICY, FP8)
    assert mixed.code == 2 and "one is a contract and the other a promotion policy" in mixed.err


def test_the_schema_accepts_what_check_accepts(kcc):
    schema = json.loads(kcc("schema", "--policy").out)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    canonical = kcc("fmt", "--json", POLICY).json
    validator.validate(canonical)
    canonical["spec"]["canary"]["steps"][0]["trafic"] = 0.5
    assert not validator.is_valid(canonical)
    assert kcc("schema", "--policy", "--report").code == 2


def test_explain_takes_a_stage(kcc):
    whole = kcc("explain", POLICY)
    assert whole.code == 0
    assert [line for line in whole.out.splitlines() if not line.startswith(" ")][-4:] == ["offline", "shadow", "canary", "full"]
    one = kcc("explain", POLICY, "canary")
    assert "10% of live requests" in one.out and "shadow" not in one.out
    assert kcc("explain", "--ids", POLICY).out.split() == ["offline", "shadow", "canary", "full"]
    wrong = kcc("explain", POLICY, "N-1")
    assert wrong.code == 2 and "there is no stage 'N-1'" in wrong.err
    assert [row["stage"] for row in kcc("explain", "--json", POLICY).json["stages"]][2] == "canary"


def test_promote_explain_names_what_a_stage_cannot_decide(kcc, without_clean):
    good = kcc("promote", "explain", POLICY, FP8)
    assert (good.code, good.err) == (0, "")
    assert "excludes a rate above 0.0009981 at confidence 0.95" in good.out
    bad = kcc("promote", "explain", without_clean, FP8)
    assert bad.code == 1 and "cannot decide" in bad.out and "[undecidable-clause]" in bad.err
    data = kcc("promote", "explain", "--json", without_clean, FP8).json
    assert not data["decidable"]
    assert {row["stage"]: row["undecidable"] for row in data["stages"]}["shadow"] == ["O-1", "O-2", "O-3"]


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["promote"], "A subcommand is required"),
        (["promote", "explain", FP8, POLICY], "is a contract, and a promotion policy is wanted"),
        (["promote", "explain", POLICY, POLICY], "unknown kind 'PromotionPolicy'"),
        (["promote", "explain", POLICY, "none.yaml"], "none.yaml"),
        (["promote", "explain", POLICY], "CONTRACT"),
        (["check", "--policy", FP8, FP8], "a promotion policy is wanted"),
    ],
)
def test_wrong_use_is_said(kcc, arguments, message):
    outcome = kcc(*arguments)
    assert outcome.code in (2, 4)
    assert message in outcome.err + outcome.out
