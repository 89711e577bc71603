"""contracts/server-top-k.yaml on what a trainer and a server have: logits here, lists of 20 there."""

import json

import numpy as np
import pytest

from kcc.trace import write_trace

REQUESTS, TOKENS, VOCAB, K = 8, 24, 400, 20


def softmax_logs(logits):
    logits = logits.astype(np.float64)
    logits = logits - logits.max(1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(1, keepdims=True))


def write_side(root, side, logits, form, tokens):
    values = softmax_logs(logits)
    tensors = {
        "request": np.repeat(np.arange(REQUESTS, dtype=np.int32), TOKENS),
        "position": np.tile(np.arange(4, 4 + TOKENS, dtype=np.int32), REQUESTS),
        "token": tokens,
    }
    if form == "logits":
        tensors["logits"] = logits
    else:
        order = np.argsort(-values, axis=1, kind="stable")[:, :K]
        tensors["top_ids"] = order.astype(np.int32)
        tensors["top_logprobs"] = np.take_along_axis(values, order, 1).astype(np.float32)
        tensors["logprob"] = values[np.arange(len(values)), tokens].astype(np.float32)
    info = {"vocabSize": VOCAB, "evidence": form, "semantics": "raw", "temperature": 1, "kernelFingerprint": side}
    requests = [{"id": f"r{i}", "prompt_tokens": 4, "output_tokens": TOKENS} for i in range(REQUESTS)]
    write_trace(root / side, info, requests, tensors)
    return f"trace:{root / side}"


def run(kcc, tmp_path, noise, forms, contract="contracts/server-top-k.yaml"):
    rng = np.random.default_rng(5)
    # Peaked as a language model's are: a Zipf tail below a few likely tokens.
    tail = -2.2 * np.log(np.arange(1, VOCAB + 1))
    train = np.stack([rng.permutation(tail + rng.normal(0, 0.3, VOCAB)) for _ in range(REQUESTS * TOKENS)])
    infer = train + noise * rng.normal(0, 1, train.shape)
    probabilities = np.exp(softmax_logs(infer))
    tokens = np.array([rng.choice(VOCAB, p=row / row.sum()) for row in probabilities], np.int32)
    sides = [write_side(tmp_path, side, logits.astype(np.float32), form, tokens)
             for side, logits, form in (("train", train, forms[0]), ("infer", infer, forms[1]))]  # fmt: skip
    done = kcc("run", contract, "--train", sides[0], "--infer", sides[1], "--json")
    report = json.loads(done.out)
    return done.code, {clause["id"]: clause["slices"][0] for clause in report["clauses"]}


@pytest.mark.parametrize("forms", [("logits", "top-k"), ("top-k", "logits"), ("top-k", "top-k")])
def test_a_conforming_server_passes_on_lists(kcc, tmp_path, forms):
    code, clauses = run(kcc, tmp_path, 1e-3, forms)
    assert code == 0, clauses
    assert {at["verdict"] for at in clauses.values()} == {"satisfied"}


@pytest.mark.parametrize("forms", [("logits", "top-k"), ("top-k", "logits"), ("top-k", "top-k")])
def test_a_server_of_other_weights_is_violated_on_every_clause(kcc, tmp_path, forms):
    code, clauses = run(kcc, tmp_path, 0.6, forms)
    assert code == 1, clauses
    assert {at["verdict"] for at in clauses.values()} == {"violated"}


def test_full_logits_on_one_side_narrow_the_interval(kcc, tmp_path):
    widths = {}
    for forms in (("logits", "top-k"), ("top-k", "top-k")):
        (tmp_path / forms[0]).mkdir()
        _, clauses = run(kcc, tmp_path / forms[0], 0.05, forms)
        low, high = clauses["N-1"]["interval"]
        widths[forms[0]] = high - low
    assert widths["logits"] < widths["top-k"]


def test_what_lists_cannot_decide_names_the_contract_that_they_can(kcc, tmp_path):
    _, clauses = run(kcc, tmp_path, 1e-3, ("logits", "top-k"), "contracts/minimal.yaml")
    assert clauses["N-1"]["verdict"] == "inconclusive"
    assert "full logits alone would settle it; contracts/server-top-k.yaml asks for what lists can decide" in clauses["N-1"]["reason"]
    assert "at measuring" not in clauses["N-1"]["reason"]


def test_a_threshold_inside_the_interval_of_lists_asks_for_longer_ones(kcc, tmp_path):
    contract = tmp_path / "tight.yaml"
    contract.write_text("apiVersion: kcc/v1\nkind: KernelContract\nmetadata: {name: tight, version: 1.0.0}\nspec:\n  numerical:\n"
                        "    - {id: N-1, metric: mean_tv, atMost: 0.003, level: L2}\n")  # fmt: skip
    code, clauses = run(kcc, tmp_path, 1e-3, ("top-k", "top-k"), contract)
    assert code == 3, clauses
    assert clauses["N-1"]["reason"].endswith("longer lists, or full logits, would settle it")
