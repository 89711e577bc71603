"""What both sides recorded or generated, compared request by request, through the real program."""

import json
import pathlib
import tempfile

import numpy as np
import pytest
from kcc.trace import write_trace

SATISFIED, VIOLATED, INVALID, INCONCLUSIVE = 0, 1, 2, 3
COUNT, TOKENS, VOCAB = 8, 5, 24


def judged(kcc, tmp_path, clause, requests=None, tokens=None, mode="generated", first=lambda side: 3):
    """requests(side, i): more fields of a line; tokens(side, tokens): the side's tokens, one row a request;
    first(side): the position of the first of them."""
    root = pathlib.Path(tempfile.mkdtemp(dir=tmp_path))
    given = np.random.default_rng(5).integers(0, VOCAB, (COUNT, TOKENS)).astype(np.int32)
    for side in ("train", "infer"):
        lines = [{"id": f"r{i}", "prompt_tokens": 3, "output_tokens": TOKENS} for i in range(COUNT)]
        lines = [line | (requests(side, i) if requests else {}) for i, line in enumerate(lines)]
        written = tokens(side, given.copy()) if tokens else given
        columns = {
            "request": np.repeat(np.arange(COUNT, dtype=np.int32), TOKENS),
            "position": np.tile(np.arange(first(side), first(side) + TOKENS, dtype=np.int32), COUNT),
            "token": written.reshape(-1),
            "logprob": np.full(COUNT * TOKENS, -0.5, np.float32),
        }
        info = {"vocabSize": VOCAB, "evidence": "sampled-token", "kernelFingerprint": side, "mode": mode,
                "sampledBy": "infer"}  # fmt: skip
        write_trace(root / side, info, lines, columns)
    contract = root / "contract.yaml"
    contract.write_text("apiVersion: kcc/v1\nkind: KernelContract\nmetadata: {name: against, version: 1.0.0}\nspec:\n"
                        f"  runtime:\n    - {{id: C, level: L2, metric: {clause}}}\n")  # fmt: skip
    summary = root / "s.kccs"
    done = kcc("measure", root / "train", root / "infer", "--contract", contract, "-o", summary)
    assert done.code == 0, done.err
    done = kcc("judge", contract, summary, "--json")
    return done.code, json.loads(done.out)["clauses"][0]["slices"][0]["reason"], summary


def latency(infer, train, lacks=lambda side, i: False):
    return lambda side, i: {} if lacks(side, i) else {"latency_ms": infer if side == "infer" else train}


def differ(count, at=2):
    """Infer's first `count` outputs differ from train's from the token `at` on."""

    def edit(side, tokens):
        if side == "infer":
            tokens[:count, at] = (tokens[:count, at] + 1) % VOCAB
        return tokens

    return edit


def test_latency_against_train(kcc, tmp_path):
    code, reason, _ = judged(kcc, tmp_path, "mean_latency_ms_gap, atMost: 10ms", latency(110, 100))
    assert code == SATISFIED and "mean_latency_ms_gap is 10" in reason
    assert judged(kcc, tmp_path, "p95_latency_ms_gap, atMost: 9ms", latency(110, 100))[0] == VIOLATED
    assert judged(kcc, tmp_path, "p95_latency_ms_ratio, atMost: 1.1", latency(110, 100))[0] == SATISFIED
    assert judged(kcc, tmp_path, "p95_latency_ms_ratio, atMost: 1.05", latency(110, 100))[0] == VIOLATED


@pytest.mark.parametrize("side", ["train", "infer"])
def test_a_latency_that_one_side_lacks_is_never_satisfied(kcc, tmp_path, side):
    for lacks in (lambda s, i: s == side, lambda s, i: s == side and i == 3):
        code, reason, _ = judged(kcc, tmp_path, "p95_latency_ms_gap, atMost: 1h", latency(100, 100, lacks))
        assert code == INCONCLUSIVE, reason


def test_outputs_of_generated_traces(kcc, tmp_path):
    assert judged(kcc, tmp_path, "same_output_rate, atLeast: 1")[0] == SATISFIED
    code, reason, _ = judged(kcc, tmp_path, "same_output_rate, atLeast: 75%", tokens=differ(2))
    assert code == SATISFIED and "rate_same_output is 0.75" in reason
    assert judged(kcc, tmp_path, "same_output_rate, atLeast: 75%", tokens=differ(3))[0] == VIOLATED
    assert judged(kcc, tmp_path, "min_first_divergence, atLeast: 2", tokens=differ(3))[0] == SATISFIED
    assert judged(kcc, tmp_path, "min_first_divergence, atLeast: 3", tokens=differ(3))[0] == VIOLATED


def test_outputs_whose_rows_are_missing_are_never_the_same(kcc, tmp_path):
    claims = lambda side, i: {"output_tokens": TOKENS + 1} if i == 3 else {}  # noqa: E731
    code, reason, _ = judged(kcc, tmp_path, "same_output_rate, atLeast: 0.1", requests=claims)
    assert code == INCONCLUSIVE and "1 values are missing" in reason


def test_given_tokens_show_nothing_about_outputs(kcc, tmp_path):
    code, reason, _ = judged(kcc, tmp_path, "same_output_rate, atLeast: 0.1", mode="scored")
    assert code == INCONCLUSIVE and "holds no value of same_output" in reason


def test_a_summary_names_only_what_was_asked_for(kcc, tmp_path):
    held = judged(kcc, tmp_path, "p95_latency_ms_gap, atMost: 10ms", latency(100, 100))[2].read_bytes()
    assert b"latency_ms_gap" in held and b"latency_ms_ratio" not in held and b"same_output" not in held


WINDOW = f"exceedance: 10%, window: {COUNT} requests"


def test_one_infinity_does_not_make_a_window_good(kcc, tmp_path):
    ordinals = lambda side, i: {"ordinal": i}  # noqa: E731
    code, reason, _ = judged(kcc, tmp_path, f"mean_first_divergence, atLeast: 2, {WINDOW}", ordinals, differ(7, at=0))
    assert code == INCONCLUSIVE, reason  # one output is the same: its first divergence is infinite
    assert judged(kcc, tmp_path, f"mean_first_divergence, atLeast: 2, {WINDOW}", ordinals, differ(8, at=4))[0] == SATISFIED


@pytest.mark.parametrize("clause", ["p95_latency_ms_gap, atMost: 5ms", "max_latency_ms_gap, atMost: 5ms",
                                    "p95_latency_ms_ratio, atMost: 1.5", "mean_latency_ms_ratio, atMost: 1.5",
                                    "mean_latency_ms_gap, atMost: 5ms, exceedance: 10%, window: request"])  # fmt: skip
@pytest.mark.parametrize("which", [lambda i: True, lambda i: i == 3])
def test_a_timeout_of_train_excuses_nothing(kcc, tmp_path, clause, which):
    def requests(side, i):
        return {"timed_out": True} if side == "train" and which(i) else {"latency_ms": 100}

    code, reason, _ = judged(kcc, tmp_path, clause, requests)
    assert code == INCONCLUSIVE, reason


def test_a_timeout_of_infer_counts_as_endless(kcc, tmp_path):
    late = lambda side, i: {"timed_out": True} if side == "infer" else {"latency_ms": 100}  # noqa: E731
    assert judged(kcc, tmp_path, "p95_latency_ms_gap, atMost: 1h", late)[0] == VIOLATED


@pytest.mark.parametrize("clause, verdict", [("p95_latency_ms, atMost: 400ms", VIOLATED), ("p95_latency_ms_gap, atMost: 1h", INCONCLUSIVE),
                                             ("p95_latency_ms_ratio, atMost: 9", INCONCLUSIVE), ("max_train_latency_ms, atMost: 400ms", VIOLATED),
                                             ("throughput_tokens_per_s, atLeast: 1", INCONCLUSIVE), ("same_output_rate, atLeast: 0.1", INCONCLUSIVE),
                                             ("p05_first_divergence, atLeast: 1", INCONCLUSIVE)])  # fmt: skip
def test_the_latency_of_a_timeout_is_how_long_somebody_waited(kcc, tmp_path, clause, verdict):
    """Both sides gave up after 400 ms and the same tokens."""
    given_up = lambda side, i: {"timed_out": True, "latency_ms": 400, "started_at_ms": 1000 * i}  # noqa: E731
    code, reason, _ = judged(kcc, tmp_path, clause, given_up)
    assert code == verdict, reason


def test_rows_before_the_output_do_not_hide_tokens(kcc, tmp_path):
    """Infer writes one token more, at the position before train's output."""
    early = lambda side: 3 if side == "train" else 2  # noqa: E731

    def requests(side, i):
        return {} if side == "train" else {"prompt_tokens": None, "output_tokens": TOKENS - 1}

    def tokens(side, given):
        return given if side == "train" else np.roll(given, 1, axis=1)

    claims = lambda side, i: {"output_tokens": TOKENS - 1} if side == "train" else requests(side, i)  # noqa: E731
    code, reason, _ = judged(kcc, tmp_path, "same_output_rate, atLeast: 0.1", claims, tokens, first=early)
    assert code != SATISFIED, reason


def test_two_failures_are_not_the_same_output(kcc, tmp_path):
    failed = lambda side, i: {"failed": True, "output_tokens": 0, "prompt_tokens": 20}  # noqa: E731
    code, reason, _ = judged(kcc, tmp_path, "same_output_rate, atLeast: 0.1", failed)
    assert code == INCONCLUSIVE, reason
