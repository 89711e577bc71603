"""kcc bound through the real program: forward, backward, and against evidence."""

import json
import math
import sys

import numpy as np
import pytest

from conftest import ROOT

sys.path.insert(0, str(ROOT / "tests" / "measure"))
import pairs  # noqa: E402
from kcc.trace import write_trace  # noqa: E402

ASSUMPTIONS = ["--reward-max", "1", "--rewards-from-zero", "--advantage-max", "1", "--score-norm-max", "1"]


def test_forward_gives_every_quantity_by_its_catalog_name(kcc):
    bounds = kcc("bound", "--linf", "0.02", *ASSUMPTIONS, "--tokens", "1000", "--json").json["bounds"]
    span = 0.04
    expected = {
        "logit_span": span,
        "tv": math.tanh(span / 4),
        "hellinger": 2 * math.sinh(span / 8) ** 2 / math.cosh(span / 4),  # 1 - sech, uncancelled
        "chi2": math.sinh(span / 2) ** 2,
        "reverse_chi2": math.sinh(span / 2) ** 2,
        "abs_log_ratio": span,
        "reward_drift": math.tanh(span / 4),
        "gradient_bias": 2 * math.tanh(span / 4),
        "gradient_bias_clipped": 0,
        "sequence_tv": math.sqrt(1 - math.cosh(span / 4) ** -2000),
    }
    for name, value in expected.items():
        assert bounds[name]["atMost"] == pytest.approx(value, rel=1e-9), name
        assert bounds[name]["atMost"] >= value * (1 - 1e-11), name
    assert bounds["tv"]["textbook"] == pytest.approx(0.02)
    assert bounds["kl"]["textbook"] == pytest.approx(span**2 / 8)


@pytest.mark.parametrize("flag", ["--span", "--linf", "--l2", "--tv", "--kl", "--abs-log-ratio"])
def test_backward_undoes_forward_on_the_safe_side(kcc, flag):
    names = {"--span": "logit_span", "--linf": "logit_linf", "--l2": "logit_l2", "--abs-log-ratio": "abs_log_ratio"}
    thresholds = kcc("bound", "--reward-drift", "0.03", *ASSUMPTIONS, "--json").json["thresholds"]
    threshold = thresholds[names.get(flag, flag[2:])]["atMost"]
    at = kcc("bound", flag, repr(threshold), *ASSUMPTIONS, "--json").json["bounds"]["reward_drift"]["atMost"]
    beyond = kcc("bound", flag, repr(threshold * 1.001), *ASSUMPTIONS, "--json").json["bounds"]["reward_drift"]
    assert at <= 0.03 < beyond["atMost"]


def test_gradient_bias_backward(kcc):
    done = kcc("bound", "--gradient-bias", "0.1", "--advantage-max", "2", "--score-norm-max", "5", "--json")
    assert done.json["thresholds"]["tv"]["atMost"] == pytest.approx(0.1 / 20)
    assert done.json["thresholds"]["tv"]["metric"] == "mean_tv"


def test_the_library_takes_every_option_of_the_program(kcc):
    """Names and meaning: the C interface (through Python) answers what `kcc bound --json` prints."""
    import kcc as package

    words = {"advantages": "token", "rewards_from_zero": True}
    numbers = {"temperature": 0.7, "reward_max": 2, "advantage_max": 3, "score_norm_max": 4, "tokens": 9,
               "weight_min": 0.6, "weight_max": 1.7}  # fmt: skip
    asked = {"span", "linf", "l2", "tv", "kl", "abs_log_ratio", "reward_drift", "gradient_bias"}
    flags = {name[2:].replace("-", "_") for name in kcc("bound", "--help").out.split() if name.startswith("--")}
    assert flags - {"help", "json", "check"} == asked | words.keys() | numbers.keys()
    arguments = ["--rewards-from-zero", "--advantages", "token"]
    for name, value in numbers.items():
        arguments += ["--" + name.replace("_", "-"), str(value)]
    for name in sorted(asked):
        shown = kcc("bound", "--" + name.replace("_", "-"), "0.9", *arguments, "--json").json
        assert package.bound(**{name: 0.9}, **numbers, **words) == shown, name
    plain = {"span": 0.9, "advantage_max": 1, "score_norm_max": 1}
    wide = package.bound(**plain, weight_min=0.1, weight_max=9)["bounds"]
    default = package.bound(**plain)["bounds"]
    assert wide["gradient_bias_clipped"]["atMost"] < default["gradient_bias_clipped"]["atMost"]


@pytest.mark.parametrize(
    "option", [{"weight_min": 0}, {"weight_min": 1.5}, {"weight_max": 0.5}, {"weight_max": "2"},
               {"advantages": "group"}, {"advantages": 1}, {"rewards_from_zero": 1}]
)  # fmt: skip
def test_the_library_refuses_a_bad_option_by_name(option):
    import kcc as package

    with pytest.raises(ValueError, match=next(iter(option))):
        package.bound(span=0.1, **option)


def test_a_bias_over_a_trajectory_holds_for_outcomes_unless_told_otherwise(kcc):
    flags = ["--span", "0.2", "--tokens", "2", "--advantage-max", "1", "--score-norm-max", "1", "--json"]
    row = "trajectory_bias_token_weights"
    assert kcc("bound", *flags).json["bounds"][row]["atMost"] >= 0.199  # attained (docs/bounds.md)
    tokens = kcc("bound", *flags, "--advantages", "token").json
    assert tokens["bounds"][row]["atMost"] == pytest.approx(2 * math.tanh(0.05))
    assert tokens["assumptions"]["advantages"] == "token"
    assert kcc("bound", *flags, "--advantages", "sequence").code == 2


@pytest.mark.parametrize(
    "arguments, words",
    [
        ([], "give one of"),
        (["--span", "1", "--tv", "0.1"], "give one of"),
        (["--tv", "2"], "at most 1"),
        (["--span", "nan"], "not a number"),
        (["--span", "-1"], "--span"),
        (["--reward-drift", "0.1"], "--reward-max"),
        (["--gradient-bias", "0.1", "--advantage-max", "1"], "--score-norm-max"),
        (["--span", "1", "--temperature", "0"], "--temperature"),
        (["--check", "examples/traces/train"], "--check"),
    ],
)
def test_bad_input_is_exit_2_and_says_what_to_do(kcc, arguments, words):
    done = kcc("bound", *arguments)
    assert done.code == 2
    assert words in done.err


def test_a_missing_trace_is_exit_4(kcc, tmp_path):
    assert kcc("bound", "--check", tmp_path / "a", tmp_path / "b").code == 4


@pytest.mark.parametrize("noise", [1e-6, 0.05, 3.0])
def test_honest_evidence_violates_no_bound(kcc, tmp_path, noise):
    train, infer, *_ = pairs.logits_pair(tmp_path, noise=noise)
    done = kcc("bound", "--check", train, infer, "--json")
    assert done.code == 0, done.err
    assert done.json["holds"]
    rows = {row["statement"]: row for row in done.json["bounds"]}
    assert rows["tv <= tanh(s/4)"]["compared"] == 12 * 9
    assert 0 < rows["tv <= tanh(s/4)"]["ratioMax"] <= 1
    tight, textbook = rows["tv <= tanh(s/4)"], rows["tv <= logit_linf/tau (textbook)"]
    assert textbook["ratioMax"] < tight["ratioMax"]


def lists_pair(root, logprobs):
    """Two traces of top-k lists that name the whole vocabulary of two tokens."""
    columns = {
        "request": np.zeros(1, np.int32),
        "position": np.array([3], np.int32),
        "token": np.zeros(1, np.int32),
        "top_ids": np.array([[0, 1]], np.int32),
    }
    requests = [{"id": "r0", "prompt_tokens": 1}]
    for side, values in logprobs.items():
        info = {"vocabSize": 2, "evidence": "top-k", "kernelFingerprint": side}
        write_trace(root / side, info, requests, columns | {"top_logprobs": np.array([values], np.float32)})
    return root / "train", root / "infer"


def test_evidence_that_breaks_a_theorem_stops_the_run(kcc, tmp_path):
    """Lists that are no distributions: equal ratios, so no span, but half of the mass is gone. The first rule to see it is Pinsker's."""
    train, infer = lists_pair(tmp_path, {"train": [math.log(0.5)] * 2, "infer": [math.log(0.1)] * 2})
    done = kcc("bound", "--check", train, infer)
    assert done.code == 4
    assert "tv is" in done.err and "report it with its logits" in done.err
    assert "request 'r0', position 3" in done.err
    honest = lists_pair(tmp_path / "b", {"train": [math.log(0.5)] * 2, "infer": [math.log(0.6), math.log(0.4)]})
    assert kcc("bound", "--check", *honest).code == 0


def test_rewards_are_compared_with_what_bounds_their_expectation(kcc, tmp_path):
    """Two tokens, drawn by infer in their proportions; spans along one path bound no other path."""
    first, count = {"train": 0.81, "infer": 0.366}, 1000
    begins_0 = np.arange(count) < first["infer"] * count
    columns = {
        "request": np.repeat(np.arange(count, dtype=np.int32), 2),
        "position": np.tile(np.array([1, 2], np.int32), count),
        "token": np.stack([~begins_0, np.zeros(count)], axis=1).astype(np.int32).reshape(-1),
    }
    # After a 0 infer goes on with 0 and train with 1; rewards tell these apart.
    rewards = {"train": np.arange(count) < first["train"] * count, "infer": np.zeros(count, bool)}
    for side, sign in (("train", -1), ("infer", 1)):
        logits = np.zeros((count, 2, 2), np.float32)
        logits[:, 0, 0] = math.log(first[side] / (1 - first[side]))
        logits[begins_0, 1, 0] = 12 * sign
        requests = [
            {"id": f"r{i}", "prompt_tokens": 1, "output_tokens": 2, "reward": 1 if good else -1}
            for i, good in enumerate(rewards[side])
        ]
        info = {"vocabSize": 2, "evidence": "logits", "kernelFingerprint": side}
        write_trace(tmp_path / side, info, requests, columns | {"logits": logits.reshape(-1, 2)})
    done = kcc("bound", "--check", tmp_path / "train", tmp_path / "infer", "--reward-max", "1", "--json")
    row = next(row for row in done.json["bounds"] if row["quantity"] == "reward_drift")
    assert row["closest"]["measured"] == pytest.approx(1.62)
    assert 0.9 < row["ratioMax"] <= 1


def test_sampled_tokens_alone_decide_nothing(kcc, tmp_path):
    columns = {
        "request": np.zeros(4, np.int32),
        "position": np.arange(4, dtype=np.int32) + 2,
        "token": np.zeros(4, np.int32),
        "logprob": np.full(4, -1, np.float32),
    }
    info = {"vocabSize": 9, "evidence": "sampled-token"}
    for side in ("train", "infer"):
        write_trace(tmp_path / side, info, [{"id": "r0", "prompt_tokens": 1}], columns)
    done = kcc("bound", "--check", tmp_path / "train", tmp_path / "infer")
    assert done.code == 3
    assert "sampled-token" in done.err


CONTRACT = """\
apiVersion: kcc/v1
kind: KernelContract
metadata: {name: implied, version: 1.0.0}
spec:
  assumptions: {rewardMax: 0.5, advantageMax: 4, scoreNormMax: 8}
  numerical:
    - {id: N-1, metric: mean_logit_span, atMost: 0.4, level: L3}
  statistical:
    - {id: S-1, metric: mean_top5_overlap, atLeast: 0.5, level: L2}
"""


def test_explain_and_the_report_say_what_a_clause_implies(kcc, tmp_path):
    contract = tmp_path / "c.yaml"
    contract.write_text(CONTRACT)
    tv = math.tanh(0.1)
    implies = kcc("explain", contract, "N-1", "--json").json["clauses"][0]["implies"]
    by_name = {row["quantity"]: row["atMost"] for row in implies}
    assert by_name == pytest.approx({"tv": tv, "reward_drift": tv, "gradient_bias": 64 * tv}, rel=1e-9)
    assert kcc("explain", contract, "S-1", "--json").json["clauses"][0]["implies"] == []
    assert "bias of the uncorrected policy gradient" in kcc("explain", contract, "N-1").out

    train, infer, *_ = pairs.logits_pair(tmp_path, noise=0.02)
    out = tmp_path / "out"
    assert kcc("run", contract, "--train", train, "--infer", infer, "--report", out).code == 0
    bounds = json.loads((out / "report.json").read_text())["bounds"]
    assert {row["quantity"]: row["value"] for row in bounds} == by_name
    assert {row["clause"] for row in bounds} == {"N-1"}
    assert "What the clauses imply" in (out / "report.md").read_text()
    assert "what the clauses imply" in kcc("report", out / "report.json", "--all").out


SOFT = """\
apiVersion: kcc/v1
kind: KernelContract
metadata: {name: soft, version: 1.0.0}
spec:
  assumptions: {rewardMax: 0.5, tokensMax: 2000}
  numerical:
    - {id: N-1, metric: mean_kl, atMost: 0.002, exceedance: 1%, level: L2}
"""


def uneven_pair(root):
    """99 requests of one token on which both sides agree, one of 2,000 on which they do not at all."""
    lengths = [1] * 99 + [2000]
    requests = [{"id": f"r{i}", "prompt_tokens": 1, "output_tokens": n} for i, n in enumerate(lengths)]
    rows = sum(lengths)
    columns = {
        "request": np.repeat(np.arange(100, dtype=np.int32), lengths),
        "position": np.concatenate([np.arange(n, dtype=np.int32) + 1 for n in lengths]),
        "token": np.zeros(rows, np.int32),
    }
    far = (columns["request"] == 99).astype(np.float32)[:, None] * np.array([[12, -12]], np.float32)
    for side, sign in (("train", -1), ("infer", 1)):
        info = {"vocabSize": 2, "evidence": "logits", "kernelFingerprint": side}
        write_trace(root / side, info, requests, columns | {"logits": sign * far})
    return root / "train", root / "infer"


def test_what_a_soft_clause_implies_is_true_of_the_report_that_says_it(kcc, tmp_path):
    contract = tmp_path / "c.yaml"
    contract.write_text(SOFT)
    train, infer = uneven_pair(tmp_path)
    out = tmp_path / "out"
    assert kcc("run", contract, "--train", train, "--infer", infer, "--report", out).code == 0
    report = json.loads((out / "report.json").read_text())
    mean_tv = report["quantities"]["tv"]["all"]["mean"]
    assert mean_tv == pytest.approx(2000 / 2099, rel=1e-6)
    assert {row["quantity"] for row in report["bounds"]} == {"tv", "reward_drift", "sequence_reward_drift"}
    for row in report["bounds"]:
        if row["quantity"] == "sequence_reward_drift":
            # One request in a hundred is answered otherwise: its reward may move by 2 R = 1.
            assert row["value"] >= 0.01 and "exceedance" not in row
        else:
            assert row["exceedance"] == 0.01 and "in all but 1% of the requests" in row["text"]
    implied = kcc("explain", contract, "--json").json["clauses"][0]["implies"]
    tv = next(row for row in implied if row["quantity"] == "tv")
    assert (tv["exceedance"], tv["window"]) == (0.01, "request")


def test_worst_tokens_come_with_their_surroundings(kcc, tmp_path):
    contract = tmp_path / "c.yaml"
    contract.write_text(CONTRACT)
    words = [f"w{i}" for i in range(9)]
    train, infer, columns, *_ = pairs.logits_pair(
        tmp_path, noise=0.02, extra=lambda i: {"token_texts": words} if i % 2 else {}
    )
    out = tmp_path / "out"
    kcc("run", contract, "--train", train, "--infer", infer, "--report", out, "--summary", tmp_path / "s.kccs")
    worst = json.loads((out / "report.json").read_text())["worst"]
    spans = [row for row in worst if row["quantity"] == "logit_span"]
    assert spans
    for row in spans:
        number = int(row["request"][1:])
        assert row["tags"] == (["safety"] if number % 3 == 0 else ["code"])
        marked = row["context"].split("⟦")[1].split("⟧")[0]
        if number % 2:
            assert marked == f"w{row['position'] - 4}"
        else:
            assert marked == str(row["token"])
            at = number * 9 + row["position"] - 4
            assert columns["token"][at] == row["token"]
            if row["position"] > 4:
                assert f"{columns['token'][at - 1]} ⟦{row['token']}⟧" in row["context"]
    assert "⟦" in (out / "report.md").read_text()
    # A summary alone does not hold them; the rest of the report is the same.
    kcc("judge", contract, tmp_path / "s.kccs", "--report", tmp_path / "again")
    again = json.loads((tmp_path / "again" / "report.json").read_text())
    assert [row | {} for row in again["worst"]] == [
        {key: value for key, value in row.items() if key not in ("context", "tags")} for row in worst
    ]
