"""Determinism with a tolerance: `--repeat N` asks again, and replay_logprob_gap and replay_ulp_gap bound what differs."""

import json

import numpy as np
import pytest

import kcc as library
from engines import toy, write_requests

CONTRACT = """
apiVersion: kcc/v1
kind: KernelContract
metadata: {name: repeats, version: 1.0.0}
spec:
  decision: {about: evaluation-set}
  numerical:
    - {id: N-1, metric: replay_logprob_gap, atMost: %s, level: L3}
    - {id: N-2, metric: replay_ulp_gap, atMost: %s, level: L3}
    - {id: N-3, metric: train_replay_logprob_gap, atMost: 0, level: L3}
"""
EXACT = CONTRACT % (0, 0)
WIDE = CONTRACT % (1, 1e9)


@pytest.fixture
def asked(tmp_path):
    return write_requests(tmp_path / "r.jsonl", 7, 11)


@pytest.fixture
def judge(kcc, tmp_path, asked):
    def run(contract, infer, *more, train=toy(), requests=("--requests", asked)):
        path = tmp_path / "contract.yaml"
        path.write_text(contract)
        done = kcc("run", path, "--train", train, "--infer", infer, *requests, "--json", *more)
        report = done.json
        return {clause["id"]: clause["slices"][0] for clause in report["clauses"]} if "clauses" in report else report

    return run


def test_a_kernel_that_says_the_same_again_is_deterministic(judge):
    for batch in ("1", "4", "100"):
        pairs = judge(EXACT, toy(), "--repeat", "3", "--batch", batch)
        assert {id: pair["verdict"] for id, pair in pairs.items()} == dict.fromkeys(pairs, "satisfied")
        assert pairs["N-1"]["count"]["requests"] == 21


def test_one_that_wavers_is_judged_by_its_tolerance(judge):
    exact = judge(EXACT, toy("wavers"), "--repeat", "3", "--batch", "2")
    assert [exact[id]["verdict"] for id in ("N-1", "N-2", "N-3")] == ["violated", "violated", "satisfied"]
    assert 1e-4 < exact["N-1"]["value"] < 0.1
    assert judge(WIDE, toy("wavers"), "--repeat", "3", "--batch", "2")["N-1"]["verdict"] == "satisfied"


def test_a_single_run_shows_nothing(judge):
    pairs = judge(WIDE, toy())
    assert {pair["verdict"] for pair in pairs.values()} == {"inconclusive"}
    assert "--repeat 2 asks every request again" in pairs["N-1"]["reason"]


def test_a_request_that_was_not_repeated_leaves_the_clause_open(judge, asked):
    rows = [json.loads(line) for line in asked.read_text().splitlines()]
    again = [{**row, "id": row["id"] + "-again"} for row in rows[1:]]
    for row in [*rows, *again]:
        row["replay_group"] = row["id"].removesuffix("-again")
    asked.write_text("".join(json.dumps(row) + "\n" for row in [*rows, *again]))
    assert judge(WIDE, toy())["N-1"]["verdict"] == "inconclusive"
    # What is refuted by those that were repeated is refuted.
    assert judge(EXACT, toy("wavers"), "--batch", "3")["N-1"]["verdict"] == "violated"


def test_traces_with_repeats_are_judged_as_the_run_was(kcc, judge, tmp_path, asked):
    for name, kernel in (("train", toy()), ("infer", toy("wavers"))):
        done = kcc("score", kernel, "--requests", asked, "--repeat", "3", "--batch", "2", "-o", tmp_path / name)
        assert done.code == 0, done.err
    live = judge(EXACT, toy("wavers"), "--repeat", "3", "--batch", "2")
    traces = judge(EXACT, tmp_path / "infer", train=tmp_path / "train", requests=())
    assert traces["N-1"]["value"] == live["N-1"]["value"]
    # The requests of a trace are asked with their repeats.
    half = judge(EXACT, toy("wavers"), "--batch", "2", train=tmp_path / "train", requests=())
    assert half["N-1"]["value"] == live["N-1"]["value"]


def test_summaries_merge_and_say_what_they_lack(kcc, tmp_path, asked):
    (tmp_path / "contract.yaml").write_text(EXACT)

    for name, kernel in (("train", toy()), ("infer", toy("wavers"))):
        assert kcc("score", kernel, "--requests", asked, "--repeat", "2", "-o", tmp_path / name).code == 0
    sides = (tmp_path / "train", tmp_path / "infer")
    measured = {}
    for name, more in {"whole": (), "a": ("--shard", "1/2"), "b": ("--shard", "2/2")}.items():
        measured[name] = tmp_path / f"{name}.kccs"
        assert kcc("measure", *sides, "--contract", tmp_path / "contract.yaml", "-o", measured[name], *more).code == 0
    assert kcc("merge", measured["a"], measured["b"], "-o", tmp_path / "merged.kccs").code == 0
    assert (tmp_path / "merged.kccs").read_bytes() == measured["whole"].read_bytes()
    assert kcc("measure", *sides, "-o", tmp_path / "other.kccs").code == 0
    lacking = kcc("judge", tmp_path / "contract.yaml", tmp_path / "other.kccs", "--json")
    assert lacking.code != 0 and "satisfied" not in {pair["verdict"] for clause in lacking.json.get("clauses", [])
                                                     for pair in clause["slices"]}  # fmt: skip
    # Repeats that were told apart by replica say nothing to a contract that does not believe the field.
    for name, text in (("trusting", WIDE.replace("spec:\n", "spec:\n  evidence: {trust: [replica]}\n")), ("wide", WIDE)):
        (tmp_path / f"{name}.yaml").write_text(text)
    measured = kcc("measure", *sides, "--contract", tmp_path / "trusting.yaml", "-o", tmp_path / "trusting.kccs")
    assert measured.code == 0, measured.err
    assert kcc("judge", tmp_path / "trusting.yaml", tmp_path / "trusting.kccs").code == 0
    judged = kcc("judge", tmp_path / "wide.yaml", tmp_path / "trusting.kccs")
    assert judged.code == 3 and "tells repeats apart in another way" in judged.out.replace("\n      ", " ")


@pytest.mark.parametrize("form", ["logits", "log-probs", "lists"])
@pytest.mark.parametrize("only", [False, True])
def test_every_form_of_evidence_shows_it(form, only):
    rng = np.random.default_rng(3)
    once = rng.normal(0, 2, (1, 5, 8)).astype(np.float32)
    train = np.repeat(once, 3, axis=0)
    infer = train.copy()
    tokens = np.tile(rng.integers(0, 8, 5).astype(np.int32), (3, 1))
    requests = [{"id": f"r{i}", "replay_group": "g"} for i in range(3)]

    def measured(infer):
        logp = [side - np.log(np.exp(side.astype(np.float64)).sum(-1, keepdims=True)) for side in (train, infer)]
        own = [np.take_along_axis(side, tokens[..., None], -1)[..., 0].astype(np.float32) for side in logp]
        contract = library.Contract(EXACT)
        options = {"requests": requests, "clauses_only": only}
        if form == "log-probs":
            summary = library.measure(*own, contract, **options)
        elif form == "logits":
            summary = library.measure(train, infer, contract, tokens=tokens, **options)
        else:
            order = np.argsort(-logp[1], axis=-1)[..., :4].astype(np.int32)
            lists = library.TopK(ids=order, logprobs=np.take_along_axis(logp[1], order, -1).astype(np.float32), sampled=own[1])
            summary = library.measure(train, lists, contract, tokens=tokens, **options)
        return library.judge(contract, summary).clauses[0]["slices"][0]

    assert measured(infer)["verdict"] == "satisfied"
    infer[2, 3, tokens[0, 3]] += 0.25
    assert measured(infer)["verdict"] == "violated"
    requests[2]["replay_group"] = "other"
    assert measured(infer)["verdict"] == "inconclusive"
