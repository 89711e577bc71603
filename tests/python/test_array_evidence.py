"""Arrays are held to what traces are: log-probs that are log-probs, unique ids, known temperatures."""

import numpy as np
import pytest

import kcc

HEAD = "apiVersion: kcc/v1\nkind: KernelContract\nmetadata: {name: arrays, version: 1.0.0}\nspec:\n"


def verdict(summary, clause="metric: mean_abs_log_ratio, atMost: 0.5", spec=""):
    contract = kcc.Contract(HEAD + spec + "  numerical:\n    - {id: N, level: L3, " + clause + "}\n")
    return kcc.judge(contract, summary).verdict


def test_probabilities_are_not_taken_for_log_probs():
    probabilities = np.full((2, 3), 0.25)
    with pytest.raises(kcc.EvidenceError, match="above 0: are these logits or probabilities"):
        kcc.measure(np.log(probabilities), probabilities)


def test_ids_that_repeat_are_refused_for_any_threads():
    values = np.full((2, 3), -1.0)
    for threads in (1, 2):
        with pytest.raises(kcc.InvalidInput, match="'a' stands twice"):
            kcc.measure(values, values, requests=["a", "a"], threads=threads)


def test_log_probs_are_at_the_temperature_given():
    values = np.full((4, 8), -1.0)
    scaled = kcc.measure(values, values, temperature=0.7)
    assert verdict(scaled) == "error"
    assert verdict(scaled, spec="  assumptions: {temperature: 0.7}\n") == "satisfied"


def test_an_estimate_needs_tokens_of_the_compared_distribution():
    rng = np.random.default_rng(1)
    infer = -rng.gamma(1, 1, (400, 8))
    clause = "metric: mean_tv, atMost: 0.9"
    spec = "  assumptions: {tokensMax: 8}\n"
    contract = kcc.Contract(HEAD + spec + "  numerical:\n    - {id: N, level: L3, " + clause + "}\n")
    assert kcc.judge(contract, kcc.measure(infer, infer, contract)).verdict == "satisfied"
    other = kcc.measure(infer, infer, contract, sampling_temperature=0.7)
    assert kcc.judge(contract, other).verdict == "inconclusive"


ONE_RECORD = [
    "metric: reward_drift, atMost: 0.01",
    "metric: refusal_rate_gap, atMost: 0.01",
    "metric: parse_rate_gap, atMost: 0.01",
    "metric: signature_match_rate, atLeast: 0.9",
    "metric: replay_mismatch_rate, atMost: 0.1",
    "metric: max_latency_ms_gap, atMost: 10",
    "metric: p99_latency_ms_ratio, atMost: 1.1",
    "metric: throughput_ratio, atLeast: 0.9",
    "metric: peak_memory_ratio, atMost: 1.1",
    "metric: failure_rate_gap, atMost: 0.01",
    # Nor is it train's.
    "metric: mean_train_latency_ms, atMost: 10",
    "metric: train_failure_rate, atMost: 0.1",
    "metric: train_determinism_rate, atLeast: 0.9",
    "metric: 'train_trace_field_coverage', atLeast: 1, fields: [reward]",
]


@pytest.mark.parametrize("about", ["evaluation-set", "traffic"])
@pytest.mark.parametrize("clause", ONE_RECORD)
def test_one_record_for_both_sides_does_not_agree_with_itself(clause, about):
    """Arrays come with one record a request; comparing it with itself would satisfy every such clause."""
    values = np.full((3000, 1), -1.0)
    record = {"reward": 1.0, "refused": False, "parsed": True, "replay_signature": "s", "latency_ms": 5,
              "peak_memory_mb": 9, "failed": False, "replay_group": "g", "started_at_ms": 1, "output_tokens": 1}  # fmt: skip
    requests = [{"id": f"r{i}", **record} for i in range(len(values))]
    head = f"  decision: {{about: {about}}}\n  assumptions: {{rewardMax: 1}}\n  statistical:\n"
    contract = kcc.Contract(HEAD + head + "    - {id: S, level: L3, " + clause + "}\n")
    summary = kcc.measure(values, values, contract, requests=requests)
    assert kcc.judge(contract, summary).verdict == "inconclusive"


def wild(shape=(4, 16)):
    """Logits of four rows; infer's first row is train's, the others are not."""
    rng = np.random.default_rng(7)
    train = rng.normal(size=shape).astype(np.float32)
    infer = rng.normal(size=shape).astype(np.float32) * 4
    infer[0] = train[0]
    return train, infer


def as_torch(array):
    import torch

    return torch.from_numpy(array)


@pytest.mark.parametrize("kind", [np.asarray, as_torch])
def test_rows_lie_where_the_array_has_them(kind):
    """[rows, 1, vocabulary] of an array that is time-major calls itself contiguous, with other strides."""
    train, infer = wild()
    want = kcc.measure(train, infer, logits=True, lengths=[1, 1, 1, 1])
    behind = [np.concatenate([side[None], np.repeat(side[None, :1], 40, axis=1)], axis=1) for side in (train, infer)]
    turned = [np.ascontiguousarray(side[None]).transpose(1, 0, 2) for side in (train, infer)]
    assert kcc.measure(*(kind(side) for side in turned)).to_bytes() == want.to_bytes()
    apart = [side[:, :4].transpose(1, 0, 2) for side in behind]
    assert kcc.measure(*(kind(side) for side in apart)).to_bytes() == want.to_bytes()


def test_rows_that_overlap_are_copied():
    row = np.random.default_rng(8).normal(size=40).astype(np.float32)
    rows = np.lib.stride_tricks.sliding_window_view(row, 16)[:4]
    other = rows + np.float32(0.01) * np.arange(16, dtype=np.float32)
    want = kcc.measure(np.array(rows), other, logits=True)
    assert kcc.measure(rows, other, logits=True).to_bytes() == want.to_bytes()


def test_a_handle_is_not_copied():
    import copy
    import pickle

    contract = kcc.Contract(HEAD + "  numerical:\n    - {id: N, level: L3, metric: mean_kl, atMost: 1}\n")
    for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(kcc.DTypeError, match="cannot be copied"):
            attempt(contract)


def test_lengths_may_change_after_they_were_given():
    train, infer = wild()
    lengths = np.array([2, 2], dtype=np.int64)
    want = kcc.measure(train, infer, logits=True, lengths=lengths).to_bytes()
    begun = kcc.begin_measure(train, infer, logits=True, lengths=lengths)
    lengths[:] = 10**6
    assert begun.finish().to_bytes() == want


LENGTHS = """  metrics:
    - {name: cost_per_token, of: request, from: "cost / output_tokens", direction: lower}
  runtime:
    - {id: R-1, metric: p95_tpot_ms, atMost: 100ms, level: L3}
    - {id: R-2, metric: throughput_tokens_per_s, atLeast: 20, level: L3}
    - {id: R-3, metric: max_cost_per_token, atMost: 0.5, level: L3}
    - {id: R-4, metric: min_output_tokens, atLeast: 10, level: L3}
"""


def test_an_answer_is_not_as_long_as_its_padding():
    contract = kcc.Contract(HEAD + LENGTHS)
    values = np.full((20, 64), -0.5)
    mask = np.zeros((20, 64), np.uint8)
    mask[:, :4] = 1
    requests = [{"id": f"r{i:02}", "output_tokens": 4, "latency_ms": 4000, "ttft_ms": 100, "started_at_ms": 1000 * i,
                 "cost": 4} for i in range(20)]  # fmt: skip
    for more in ({}, {"lengths": [4] * 20}):
        sides = (values, values) if not more else (values[:, :4].reshape(-1),) * 2
        rows = mask if not more else None
        report = kcc.judge(contract, kcc.measure(*sides, contract, mask=rows, requests=requests, **more))
        assert [clause["slices"][0]["verdict"] for clause in report.clauses] == ["violated"] * 4, more


def test_masked_tokens_that_the_record_counts_belong_to_the_answer():
    """A tool's tokens do not count, but they were part of the answer: only the record can say so."""
    values = np.full((3, 12), -0.5)
    mask = np.ones((3, 12), np.uint8)
    mask[:, 2:9] = 0
    contract = kcc.Contract(HEAD + "  runtime:\n    - {id: R, metric: max_output_tokens, atMost: 6, level: L3}\n")
    for claimed, verdict in ((12, "violated"), (10, "violated"), (5, "satisfied"), (2, "satisfied")):
        requests = [{"id": f"r{i}", "output_tokens": claimed} for i in range(3)]
        summary = kcc.measure(values, values, contract, mask=mask, requests=requests)
        assert kcc.judge(contract, summary).verdict == verdict, claimed


def test_tokens_that_were_not_given_are_not_token_minus_one():
    spec = """  metrics:
    - {name: token_id, of: token, from: "token.token", direction: lower}
  slices:
    - {name: ordinary, where: "token.token < 100000"}
  numerical:
    - {id: N-1, metric: mean_abs_log_ratio, atMost: 0.02, slices: [ordinary], level: L3}
    - {id: N-2, metric: max_token_id, atMost: 5, level: L3}
"""
    contract = kcc.Contract(HEAD + spec)
    values = np.full((10, 4), -0.5)

    def found(**more):
        report = kcc.judge(contract, kcc.measure(values, values, contract, **more))
        return [clause["slices"][0]["verdict"] for clause in report.clauses]

    assert found() == ["inconclusive", "inconclusive"]
    assert found(tokens=np.full((10, 4), 5, np.int32)) == ["satisfied", "satisfied"]


def test_clauses_only_gives_the_same_verdicts():
    rng = np.random.default_rng(0)
    train, infer = (rng.normal(size=(6, 5, 11)).astype(np.float32) for _ in range(2))
    spec = "  numerical:\n"
    for i, metric in enumerate(("flip_rate", "max_seq_kl", "mean_kl")):
        spec += f"    - {{id: N-{i}, metric: {metric}, atMost: 0.01, level: L3}}\n"
    contract = kcc.Contract(HEAD + spec)

    def found(only):
        report = kcc.judge(contract, kcc.measure(train, infer, contract, clauses_only=only))
        return [(clause["slices"][0]["verdict"], clause["slices"][0]["value"]) for clause in report.clauses]

    assert found(True) == found(False)
    assert [verdict for verdict, _ in found(True)] == ["violated"] * 3
