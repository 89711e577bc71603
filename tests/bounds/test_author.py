"""kcc author and kcc calibrate through the real program."""

import json
import sys

import numpy as np
import pytest

from conftest import ROOT
from kernels import bf16, fp8, narrowed, write_pair

sys.path.insert(0, str(ROOT / "python"))
from kcc.trace import write_safetensors, write_trace  # noqa: E402

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

    outcome = kcc("check", contract)
    assert (outcome.code, outcome.err) == (0, "")
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


def fine(values):
    """An arithmetic whose span stays below the margins of all but few tokens."""
    return narrowed(values, 16)


def logits_of(trace):
    """Of a trace that write_pair made, [tokens, vocabulary]."""
    data = (trace / "tokens-00000.safetensors").read_bytes()
    size = int.from_bytes(data[:8], "little")
    entry = json.loads(data[8 : 8 + size])["logits"]
    begin, end = (8 + size + offset for offset in entry["data_offsets"])
    return np.frombuffer(data[begin:end], np.float32).reshape(entry["shape"]).astype(np.float64)


@pytest.mark.parametrize(
    ("rate", "metric", "tail"),
    [("0.3", "p90_logit_span", 0.1), ("0.05", "p99_logit_span", 0.01), ("0.004", "p999_logit_span", 0.001),
     ("0.001", "max_logit_span", 0)],
)  # fmt: skip
def test_a_flip_rate_becomes_a_span_from_the_margins(kcc, tmp_path, rate, metric, tail):
    pair = write_pair(tmp_path / "pair", range(200), fine)
    done = kcc("author", "--evidence", pair, "--flip-rate", rate, "--json")
    assert done.code == 0, done.err
    rows = {row["metric"]: row for row in done.json["clauses"] if row["origin"] in ("tolerance", "margins")}
    assert set(rows) == {"flip_rate", metric}, done.json
    assert rows["flip_rate"]["threshold"] == float(rate) and rows["flip_rate"]["level"] == "L3"
    train = np.sort(logits_of(tmp_path / "pair/train"), axis=1)
    margins = train[:, -1] - train[:, -2]
    threshold = rows[metric]["threshold"]
    # As many tokens are in doubt as the rate leaves, and hardly fewer: a bucket is 1/128 wide.
    allowed = float(rate) - tail
    assert np.mean(margins <= threshold) <= allowed
    assert np.mean(margins <= threshold * 1.02) > allowed - 2 / len(margins)
    assert rows[metric]["why"].startswith("margins: ") and rows[metric]["level"] == "L2"


def test_whatever_keeps_the_span_keeps_the_flip_rate(kcc, tmp_path):
    """The drift that flips the most for its span: the best token down by half of it, the next one up."""
    pair = write_pair(tmp_path / "pair", range(100), fine)
    contract = tmp_path / "c.yaml"
    kcc("author", "--evidence", pair, "--flip-rate", "0.05", "-o", contract)
    span = next(row["threshold"] for row in kcc("author", "--evidence", pair, "--flip-rate", "0.05", "--json").json[
        "clauses"] if row["metric"] == "p99_logit_span")
    for factor, satisfied in ((0.999, True), (2.0, False)):

        def worst(logits, factor=factor):
            order = np.argsort(-logits, axis=1)
            moved = logits.copy()
            rows = np.arange(len(logits))
            moved[rows, order[:, 0]] -= factor * span / 2
            moved[rows, order[:, 1]] += factor * span / 2
            return moved

        train = logits_of(tmp_path / "pair/train").astype(np.float32)
        columns = {"request": np.repeat(np.arange(100, dtype=np.int32), 12),
                   "position": np.tile(np.arange(5, 17, dtype=np.int32), 100),
                   "token": np.zeros(1200, np.int32)}  # fmt: skip
        lines = [{"id": f"r{i}", "prompt_tokens": 5, "output_tokens": 12} for i in range(100)]
        folder = tmp_path / f"worst-{factor}"
        for side, logits in (("train", train), ("infer", worst(train.astype(np.float64)).astype(np.float32))):
            info = {"vocabSize": 97, "evidence": "logits", "sampledBy": "dataset", "kernelFingerprint": side}
            write_trace(folder / side, info, lines, {**columns, "logits": logits})
        judged = kcc("run", contract, "--train", folder / "train", "--infer", folder / "infer", "--json").json
        verdict = {clause["metric"]: clause["slices"][0]["verdict"] for clause in judged["clauses"]}
        wanted = "satisfied" if satisfied else "violated"
        assert (verdict["p99_logit_span"], verdict["flip_rate"]) == (wanted, wanted), factor


def test_margins_that_are_not_known_give_no_span(kcc, tmp_path):
    def asked(*flags):
        done = kcc("author", "--flip-rate", "0.01", "--json", *flags)
        metrics = [row["metric"] for row in done.json["clauses"] if row["origin"] in ("tolerance", "margins")]
        return metrics, " ".join(done.json["notes"])

    assert asked() == (["flip_rate"], "no clause on logit_span for the flip rate: margins come from --evidence")
    for evidence in ("top-k", "sampled-token"):
        pair = write_pair(tmp_path / evidence, range(HALF), bf16, evidence=evidence)
        metrics, notes = asked("--evidence", pair)
        assert metrics == ["flip_rate"] and "does not bound margins and span" in notes
    both = [write_pair(tmp_path / "a", range(HALF), fine), write_pair(tmp_path / "b", range(HALF), fine, seed=2)]
    spans = [row["threshold"] for pair in (*([p] for p in both), both)
             for row in kcc("author", "--flip-rate", "0.01", "--json", "--evidence", *pair).json["clauses"]
             if row["origin"] == "margins"]
    assert spans[2] == min(spans[:2])


def test_a_span_that_the_evidence_does_not_keep_is_a_note(kcc, tmp_path):
    """FP8 flips little for its span: it must not be rejected for flips that it does not have."""
    pair = write_pair(tmp_path / "pair", range(HALF), fp8)
    done = kcc("author", "--evidence", pair, "--flip-rate", "0.1", "--json")
    assert done.code == 0, done.out
    assert [row["origin"] for row in done.json["clauses"]].count("tolerance") == 1
    assert "margins" not in [row["origin"] for row in done.json["clauses"]]
    assert any("the margins allow p95_logit_span <= " in note for note in done.json["notes"])
