"""kcc author and kcc calibrate through the real program."""

import json
import sys

import numpy as np
import pytest

from conftest import ROOT
from kernels import bf16, fp8, write_pair

sys.path.insert(0, str(ROOT / "python"))
from kcc.trace import write_safetensors  # noqa: E402

HALF = 60


@pytest.mark.parametrize("evidence", ["logits", "top-k", "sampled-token"])
@pytest.mark.parametrize("seed", [1, 2, 4])
def test_a_contract_from_one_half_accepts_the_other_and_rejects_a_worse_kernel(kcc, tmp_path, evidence, seed):
    first = write_pair(tmp_path / "first", range(HALF), bf16, seed, evidence=evidence)
    second = write_pair(tmp_path / "second", range(HALF, 2 * HALF), bf16, seed, evidence=evidence)
    worse = write_pair(tmp_path / "worse", range(HALF, 2 * HALF), fp8, seed, evidence=evidence)
    contract = tmp_path / "contract.yaml"
    done = kcc("author", "--evidence", first, "-o", contract, "--name", "two-halves")
    assert done.code == 0, done.out + done.err

    assert kcc("check", "--strict", contract).code == 0
    held_out, broken = (pair.split(":") for pair in (second, worse))
    about = [] if evidence != "sampled-token" else ["--about", "evaluation-set"]
    good = kcc("run", contract, "--train", held_out[0], "--infer", held_out[1], *about, "--json")
    assert good.code == 0, good.out
    bad = kcc("run", contract, "--train", broken[0], "--infer", broken[1], *about, "--json")
    assert bad.code == 1, bad.out

    # The same in one go: the held-out half and the worse kernel put the proposal to the test.
    done = kcc("author", "--evidence", first, "--conforming", second, "--violating", worse, "--json")
    assert done.code == 0, done.err
    assert done.json["test"]["state"] == "calibrated"
    assert done.json["test"]["headroom"] > 1
    assert done.json["test"]["rejection"] > 1
    for clause in done.json["clauses"]:
        assert clause["origin"] == "evidence"
        assert clause["why"].startswith("evidence: ")


def test_held_out_halves_are_accepted_about_as_often_as_promised(kcc, tmp_path):
    """Forty kernel pairs: at 95% confidence and a margin of 1.5 a rejection is an exception."""
    accepted = 0
    for seed in range(100, 140):
        first = write_pair(tmp_path / f"{seed}a", range(40), bf16, seed, tokens=8)
        second = write_pair(tmp_path / f"{seed}b", range(40, 80), bf16, seed, tokens=8)
        done = kcc("author", "--evidence", first, "--conforming", second, "--json")
        accepted += done.json["test"]["state"] == "untested"
    assert accepted >= 37


def test_a_proposal_that_cannot_tell_them_apart_is_reported(kcc, tmp_path):
    first = write_pair(tmp_path / "first", range(HALF), bf16)
    same = write_pair(tmp_path / "second", range(HALF, 2 * HALF), bf16)
    done = kcc("author", "--evidence", first, "--violating", same, "--json")
    assert done.code == 1
    assert done.json["test"]["state"] == "vacuous"


def test_margin_and_confidence_loosen(kcc, tmp_path):
    pair = write_pair(tmp_path / "pair", range(HALF), bf16)

    def thresholds(*flags):
        rows = kcc("author", "--evidence", pair, "--json", *flags).json["clauses"]
        return {row["metric"]: row["threshold"] for row in rows}

    plain = thresholds()
    wide = thresholds("--margin", "3")
    sure = thresholds("--confidence", "0.999")
    assert wide["mean_kl"] == pytest.approx(2 * plain["mean_kl"], rel=0.1)
    assert sure["mean_kl"] > plain["mean_kl"]
    assert wide["mean_top5_overlap"] < plain["mean_top5_overlap"]


def test_several_pieces_of_evidence_give_the_worst_limit(kcc, tmp_path):
    mild = write_pair(tmp_path / "a", range(HALF), bf16)
    rough = write_pair(tmp_path / "b", range(HALF), fp8)
    done = kcc("author", "--evidence", mild, rough, "--json")
    assert done.code == 0
    alone = kcc("author", "--evidence", rough, "--json")
    assert done.json["clauses"] == alone.json["clauses"]


def test_summaries_are_evidence_too(kcc, tmp_path):
    pair = write_pair(tmp_path / "a", range(HALF), bf16)
    assert kcc("measure", *pair.split(":"), "-o", tmp_path / "s.kccs").code == 0
    done = kcc("author", "--evidence", tmp_path / "s.kccs", "--json")
    assert done.code == 0, done.err
    assert {row["metric"] for row in done.json["clauses"]} >= {"mean_kl", "mean_abs_log_ratio"}
    # Without the windows of the traces a clause per request cannot be proposed, and that is said.
    assert any("max_logit_span" in note for note in done.json["notes"])


def test_tolerances_become_clauses_that_guarantee_them(kcc, tmp_path):
    flags = ["--reward-drift", "0.02", "--reward-max", "1", "--gradient-bias", "0.5"]
    flags += ["--advantage-max", "4", "--score-norm-max", "8"]
    contract = tmp_path / "c.yaml"
    done = kcc("author", *flags, "-o", contract, "--json")
    assert done.code == 0, done.err
    assert [row["origin"] for row in done.json["clauses"]] == ["bound", "bound"]
    assert kcc("check", contract).code == 0
    for row, quantity, budget in zip(done.json["clauses"], ("reward_drift", "gradient_bias"), (0.02, 0.5)):
        implied = kcc("explain", contract, row["id"], "--json").json["clauses"][0]["implies"]
        value = next(line["atMost"] for line in implied if line["quantity"] == quantity)
        assert 0.999 * budget < value <= budget


def test_evidence_beyond_what_is_tolerated_is_rejected(kcc, tmp_path):
    pair = write_pair(tmp_path / "a", range(HALF), fp8)
    done = kcc("author", "--evidence", pair, "--reward-drift", "1e-6", "--reward-max", "1", "--json")
    assert done.code == 1
    assert done.json["test"]["state"] == "rejects-conforming"


def llama(path, layers=1, width=16, hidden=24, vocab=40, seed=1):
    rng = np.random.default_rng(seed)

    def matrix(rows, columns):
        return (rng.normal(0, 0.3, (rows, columns)) / np.sqrt(columns)).astype(np.float32)

    tensors = {"model.embed_tokens.weight": matrix(vocab, width), "model.norm.weight": np.ones(width, np.float32)}
    for layer in range(layers):
        at = f"model.layers.{layer}."
        for name in "qkvo":
            tensors[f"{at}self_attn.{name}_proj.weight"] = matrix(width, width)
        tensors[f"{at}mlp.gate_proj.weight"] = matrix(hidden, width)
        tensors[f"{at}mlp.up_proj.weight"] = matrix(hidden, width)
        tensors[f"{at}mlp.down_proj.weight"] = matrix(width, hidden)
        for name in ("input_layernorm", "post_attention_layernorm"):
            tensors[f"{at}{name}.weight"] = np.ones(width, np.float32)
    write_safetensors(path, tensors)
    return path


FACTS = ["--heads", "2", "--context", "8", "--rms-min", "0.5", "--rms-max", "2"]


def test_a_checkpoint_gives_a_ceiling_that_grows_with_the_error(kcc, tmp_path):
    model = llama(tmp_path / "model.safetensors")

    def ceiling(words):
        done = kcc("author", "--checkpoint", model, *FACTS, "--infer-kernel", words, "--json")
        assert done.code == 0, done.err
        (clause,) = done.json["clauses"]
        assert clause["origin"] == "envelope"
        assert "model.safetensors, 1 layer of width 16" in clause["why"]
        return clause["threshold"]

    bf, int8 = ceiling("store=bf16 accumulate=f32"), ceiling("weights=int8 store=bf16 accumulate=f32")
    assert 0 < ceiling("accumulate=f32") < bf < int8 < ceiling("weights=int4 store=bf16 accumulate=f32")
    exact = kcc("author", "--checkpoint", model, *FACTS)
    assert exact.code == 2 and "described as exact" in exact.err


@pytest.mark.parametrize(
    "arguments, code, words",
    [
        ([], 2, "--evidence"),
        (["--evidence", "nonsense"], 2, "TRAIN:INFER"),
        (["--evidence", "a:b:c"], 2, "TRAIN:INFER"),
        (["--evidence", "nowhere:nowhere"], 4, "nowhere"),
        (["--evidence", "nowhere.kccs"], 4, "nowhere.kccs"),
        (["--reward-drift", "0.1"], 2, "--reward-max"),
        (["--reward-drift", "0.1", "--reward-max", "1", "--margin", "0.5"], 2, "--margin"),
        (["--checkpoint", "x.safetensors"], 2, "--heads"),
        (["--infer-kernel", "store=bf16"], 2, "--checkpoint"),
        (["--checkpoint", "x.safetensors", *FACTS, "--infer-kernel", "stoer=bf16"], 2, "did you mean 'store'"),
        (["--checkpoint", "README.md", *FACTS], 2, "not a safetensors file"),
    ],
)
def test_bad_input_says_what_to_do(kcc, arguments, code, words):
    done = kcc("author", *arguments)
    assert done.code == code, done.err
    assert words in done.err


# ---- calibrate

CONTRACT = """\
apiVersion: kcc/v1
kind: KernelContract
metadata: {{name: calibrated, version: 1.0.0}}
spec:
  decision: {{about: evaluation-set}}
  numerical:
    - {{id: N-1, metric: mean_kl, atMost: {kl}, level: L2}}
    - {{id: N-2, metric: max_logit_span, atMost: 100, level: L2}}
"""


@pytest.fixture(scope="module")
def evidence(tmp_path_factory):
    root = tmp_path_factory.mktemp("evidence")
    return {
        "good": write_pair(root / "good", range(20), bf16),
        "bad": write_pair(root / "bad", range(20), fp8),
    }


def mean_kl(kcc, tmp_path, pair):
    contract = tmp_path / "probe.yaml"
    contract.write_text(CONTRACT.format(kl=1e9))
    train, infer = pair.split(":")
    report = json.loads(kcc("run", contract, "--train", train, "--infer", infer, "--json").out)
    return report["clauses"][0]["slices"][0]["value"]


def test_the_three_states(kcc, tmp_path, evidence):
    good, bad = (mean_kl(kcc, tmp_path, evidence[name]) for name in ("good", "bad"))
    assert good < bad / 4
    contract = tmp_path / "c.yaml"
    flags = ["--conforming", evidence["good"], "--violating", evidence["bad"]]

    contract.write_text(CONTRACT.format(kl=2 * good))
    done = kcc("calibrate", contract, *flags, "--json")
    assert done.code == 0
    assert done.json["state"] == "calibrated"
    assert done.json["headroom"] == pytest.approx(2)
    assert done.json["rejection"] == pytest.approx(bad / (2 * good))
    pairs = {row["clause"]: row for row in done.json["pairs"]}
    assert pairs["N-1"]["conforming"] == pytest.approx(0.5)
    assert (pairs["N-1"]["rejects"], pairs["N-2"]["rejects"]) == (1, 0)

    contract.write_text(CONTRACT.format(kl=2 * bad))
    vacuous = kcc("calibrate", contract, *flags)
    assert vacuous.code == 1
    assert "calibrated 1.0.0 is vacuous" in vacuous.out

    contract.write_text(CONTRACT.format(kl=good / 2))
    strict = kcc("calibrate", contract, *flags, "--json")
    assert strict.code == 1
    assert strict.json["state"] == "rejects-conforming"


def test_the_same_evidence_cannot_be_told_apart(kcc, tmp_path, evidence):
    for kl, state in ((1e9, "vacuous"), (1e-12, "rejects-conforming")):
        contract = tmp_path / "c.yaml"
        contract.write_text(CONTRACT.format(kl=kl))
        done = kcc("calibrate", contract, "--conforming", evidence["good"], "--violating", evidence["good"], "--json")
        assert (done.code, done.json["state"]) == (1, state)


def test_missing_evidence_is_inconclusive(kcc, tmp_path, evidence):
    contract = tmp_path / "c.yaml"
    contract.write_text(CONTRACT.format(kl=1e9).replace("mean_kl", "mean_latency_ms"))
    done = kcc("calibrate", contract, "--conforming", evidence["good"], "--violating", evidence["bad"], "--json")
    assert (done.code, done.json["state"]) == (3, "inconclusive")


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["contracts/minimal.yaml"], "--conforming"),
        (["contracts/minimal.yaml", "--conforming", "x:y"], "--violating"),
        (["contracts/minimal.yaml", "--conforming", "x", "--violating", "y"], "TRAIN:INFER"),
    ],
)
def test_calibrate_refuses_bad_input(kcc, arguments, words):
    done = kcc("calibrate", *arguments)
    assert done.code == 2
    assert words in done.err
