"""Evidence that lies, or that is less than it seems: never *satisfied* by it, through the real program."""

import json
import pathlib
import shutil

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import pairs
from kcc.trace import write_trace

ROOT = pathlib.Path(__file__).resolve().parents[2]
SATISFIED, VIOLATED, INVALID, INCONCLUSIVE, ERROR = 0, 1, 2, 3, 4


def contract(tmp_path, clause, spec="", family="numerical"):
    path = tmp_path / "soundness.yaml"
    path.write_text(
        "apiVersion: kcc/v1\nkind: KernelContract\nmetadata: {name: soundness, version: 1.0.0}\nspec:\n"
        + spec + f"  {family}:\n    - {{id: C, level: L3, {clause}}}\n"
    )
    return path


def run(kcc, path, train, infer, *flags):
    done = kcc("run", path, "--train", f"trace:{train}", "--infer", f"trace:{infer}", "--json", *flags)
    report = json.loads(done.out) if done.out.startswith("{") else {}
    return done.code, report if "verdict" in report else done.out + done.err


def reason(report):
    return report["clauses"][0]["slices"][0]["reason"]


def logprobs(logits, tau):
    scaled = logits.astype(np.float64) / tau
    return scaled - np.log(np.exp(scaled - scaled.max(1, keepdims=True)).sum(1, keepdims=True)) - scaled.max(1, keepdims=True)


def evidence(root, form, info_train, info_infer=None, noise=0.05, tau=1.0, requests=None, edit=None):
    """A pair of traces of one form: logits, top-k or sampled-token; `requests` gives each side's lines."""
    rng = np.random.default_rng(11)
    count, tokens, vocab = 8, 5, 24
    base = rng.normal(0, 2, (count * tokens, vocab)).astype(np.float32)
    moved = base + rng.normal(0, noise, base.shape).astype(np.float32)
    columns = {
        "request": np.repeat(np.arange(count, dtype=np.int32), tokens),
        "position": np.tile(np.arange(3, 3 + tokens, dtype=np.int32), count),
        "token": rng.integers(0, vocab, count * tokens).astype(np.int32),
    }
    for side, logits, info in (("train", base, info_train), ("infer", moved, info_infer or info_train)):
        lines = [{"id": f"r{i}", "prompt_tokens": 3, "output_tokens": tokens} for i in range(count)]
        if requests:
            lines = [line | requests(side, i) for i, line in enumerate(lines)]
        tensors = dict(columns)
        values = logprobs(logits, tau)
        if form == "logits":
            tensors["logits"] = (logits / tau).astype(np.float32)
        elif form == "top-k":
            order = np.argsort(-values, axis=1, kind="stable")[:, :20]
            tensors["top_ids"] = order.astype(np.int32)
            tensors["top_logprobs"] = np.take_along_axis(values, order, 1).astype(np.float32)
        if form != "logits":
            tensors["logprob"] = values[np.arange(len(values)), columns["token"]].astype(np.float32)
        if edit:
            lines, tensors = edit(side, lines, tensors)
        write_trace(root / side, {"vocabSize": vocab, "evidence": form, "kernelFingerprint": side} | info, lines, tensors)
    return root / "train", root / "infer"


# ---- two temperatures


@pytest.mark.parametrize("form", ["sampled-token", "top-k", "logits"])
@pytest.mark.parametrize("semantics", ["temperature-scaled", "processed"])
def test_scaled_evidence_is_at_its_temperature(kcc, tmp_path, form, semantics):
    train, infer = evidence(tmp_path, form, {"semantics": semantics, "temperature": 0.7}, tau=0.7)
    clause = "metric: max_abs_log_ratio, atMost: 9"
    code, report = run(kcc, contract(tmp_path, clause), train, infer)
    assert code == ERROR and "measured at temperature 0.7" in reason(report)
    code, report = run(kcc, contract(tmp_path, clause, "  assumptions: {temperature: 0.7}\n"), train, infer)
    assert code == SATISFIED, reason(report)


@pytest.mark.parametrize("chosen", [{"samplingTemperature": 0}, {"samplingTemperature": 1, "samplingAltered": True}])
def test_nothing_is_estimated_from_tokens_that_are_no_sample(kcc, tmp_path, chosen):
    """Greedy tokens, or those of top-p, show the gap where it is small."""
    judged = contract(tmp_path, "metric: mean_tv, atMost: 0.9")
    drawn = evidence(tmp_path / "a", "sampled-token", {"sampledBy": "infer", "samplingTemperature": 1})
    assert "holds no value of tv" not in reason(run(kcc, judged, *drawn)[1])
    picked = evidence(tmp_path / "b", "sampled-token", {"sampledBy": "infer"} | chosen)
    code, report = run(kcc, judged, *picked)
    assert code == INCONCLUSIVE and "holds no value of tv" in reason(report)


def test_a_greedy_run_and_a_sampled_one_do_not_pair(kcc, tmp_path):
    info = {"mode": "generated", "sampledBy": "infer"}
    traces = evidence(tmp_path, "sampled-token", info | {"samplingTemperature": 0}, info | {"samplingTemperature": 1},
                      requests=lambda side, i: {"reward": 1.0})
    code, message = run(kcc, contract(tmp_path, "metric: reward_drift, atMost: 0.5", family="statistical"), *traces)
    assert code == ERROR and "sampled at temperature 0 (greedily), the infer trace at 1" in message


def test_a_greedy_run_scored_by_two_kernels_estimates_nothing(kcc, tmp_path):
    """What `generate` wrote at temperature 0, or with top-p, asked of both kernels."""
    requests = tmp_path / "requests.jsonl"
    requests.write_text("".join((ROOT / "models/kcc-lab/eval.jsonl").read_text().splitlines(keepends=True)[:8]))
    model = ["--requests", requests, "--seed", "1", "--max-tokens", "4"]
    for name, flags in (("greedy", ["--temperature", "0"]), ("top-p", ["--top-p", "0.9"]), ("drawn", [])):
        rollouts, scored = tmp_path / name, tmp_path / f"{name}-scored"
        assert kcc("generate", "lab:bf16", *model, *flags, "-o", rollouts).code == 0
        assert kcc("score", "lab:bf16", "--requests", rollouts, "-o", scored).code == 0
        info = json.loads((scored / "trace.json").read_text())
        assert info.get("samplingTemperature") == (0 if name == "greedy" else 1)
        assert info.get("samplingAltered", False) == (name == "top-p")


def test_raw_log_probs_are_at_one_whatever_was_sampled(kcc, tmp_path):
    info = {"temperature": 0.7, "sampledBy": "infer"}
    train, infer = evidence(tmp_path, "sampled-token", info)
    assert run(kcc, contract(tmp_path, "metric: max_abs_log_ratio, atMost: 9"), train, infer)[0] == SATISFIED
    # A sample of the distribution at 0.7 says nothing about the mean over the one at 1.
    code, report = run(kcc, contract(tmp_path, "metric: mean_tv, atMost: 0.9"), train, infer)
    assert code == INCONCLUSIVE and "holds no value of tv" in reason(report)


def test_generated_traces_of_two_temperatures_do_not_pair(kcc, tmp_path):
    info = {"mode": "generated", "sampledBy": "infer"}
    train, infer = evidence(tmp_path, "sampled-token", info | {"temperature": 0.1}, info | {"temperature": 2.0},
                            requests=lambda side, i: {"reward": 1.0})
    code, message = run(kcc, contract(tmp_path, "metric: reward_drift, atMost: 0.5", family="statistical"), train, infer)
    assert code == ERROR and "sampled at temperature 0.1, the infer trace at 2" in message


@pytest.mark.parametrize("form", ["logits", "top-k"])
def test_distances_of_scaled_evidence_are_in_unscaled_logits(kcc, tmp_path, form):
    """At temperature 2 the distance of scaled logits is half that of the logits."""
    plain = evidence(tmp_path / "raw", form, {}, noise=0.4)
    scaled = evidence(tmp_path / "scaled", form, {"semantics": "temperature-scaled", "temperature": 2.0}, noise=0.4, tau=2.0)
    path = contract(tmp_path, "metric: mean_logit_linf, atMost: 99")
    low, _ = run(kcc, path, *plain)[1]["clauses"][0]["slices"][0]["interval"]
    path = contract(tmp_path, "metric: mean_logit_linf, atMost: 99", "  assumptions: {temperature: 2}\n")
    scaled_low, _ = run(kcc, path, *scaled)[1]["clauses"][0]["slices"][0]["interval"]
    assert scaled_low == pytest.approx(low, rel=2e-3)


# ---- the judged side must not choose what it is judged on


def bad_even(side, i):
    """Requests whose drift a slice is about; the fields of both sides."""
    return {"tags": ["hard"] if i % 2 == 0 else []}


HARD = "  slices: [{name: hard, where: \"'hard' in tags\"}]\n"


def test_a_label_that_infer_changed_is_an_error(kcc, tmp_path):
    train, infer = evidence(tmp_path, "logits", {}, requests=lambda side, i: bad_even(side, i) if side == "train" else {"tags": []})
    code, message = run(kcc, contract(tmp_path, "metric: max_kl, atMost: 9, slices: [hard]", HARD), train, infer)
    assert code == ERROR
    assert "request 'r0': tags is [hard] in the train trace and [] in the infer trace" in message


def test_a_field_that_infer_alone_has_needs_trust(kcc, tmp_path):
    train, infer = evidence(tmp_path, "logits", {}, requests=lambda side, i: bad_even(side, i) if side == "infer" else {})
    clause = "metric: max_kl, atMost: 9, slices: [hard]"
    code, report = run(kcc, contract(tmp_path, clause, HARD), train, infer)
    assert code == INCONCLUSIVE and "rests on 'tags', which the infer side alone recorded (8 requests)" in reason(report)
    code, report = run(kcc, contract(tmp_path, clause, HARD + "  evidence: {trust: [tags]}\n"), train, infer)
    assert code == SATISFIED
    assert report["warnings"] == ["slice 'hard' rests on 'tags', which the infer side alone recorded; the contract trusts it"]
    # What was asked vouches for it too, and is held against the rows.
    asked = tmp_path / "asked.jsonl"
    tensors = load_file(train / "tokens-00000.safetensors")
    lines = [{"id": f"r{i}", "prompt": [0, 0, 0], "output": tensors["token"][5 * i : 5 * i + 5].tolist()} | bad_even("", i) for i in range(8)]
    asked.write_text("\n".join(map(json.dumps, lines)))
    assert run(kcc, contract(tmp_path, clause, HARD), train, infer, "--requests", asked)[0] == SATISFIED
    lines[3]["output"].append(7)
    asked.write_text("\n".join(map(json.dumps, lines)))
    code, message = run(kcc, contract(tmp_path, clause, HARD), train, infer, "--requests", asked)
    assert code == ERROR and "request 'r3' has other tokens, or fewer, in the traces" in message


def test_rows_taken_out_on_both_sides_are_missed(kcc, tmp_path):
    def drop(side, lines, tensors):
        keep = np.ones(len(tensors["request"]), bool)
        keep[[7, 23]] = False
        return lines, {name: array[keep] for name, array in tensors.items()}

    train, infer = evidence(tmp_path, "logits", {}, edit=drop)
    code, report = run(kcc, contract(tmp_path, "metric: max_kl, atMost: 9"), train, infer)
    assert code == INCONCLUSIVE and "2 values are missing" in reason(report)
    assert run(kcc, contract(tmp_path, "metric: max_kl, atMost: 1e-9"), train, infer)[0] == VIOLATED


def test_a_slice_of_outcomes_must_hold_by_both_sides_own(kcc, tmp_path):
    def slow(side, i):
        return {"latency_ms": 900.0 if (i < 4 if side == "train" else i >= 6) else 5.0}

    def only_first_drift(side, lines, tensors):
        if side == "infer":
            tensors["logits"] = tensors["logits"].copy()
            tensors["logits"][:5, 0] += 3  # request r0, which infer does not call slow
        return lines, tensors

    train, infer = evidence(tmp_path, "logits", {}, noise=1e-3, requests=slow, edit=only_first_drift)
    spec = "  slices: [{name: slow, where: latency_ms > 100}]\n"
    code, report = run(kcc, contract(tmp_path, "metric: max_kl, atMost: 0.01, slices: [slow]", spec), train, infer)
    assert code == VIOLATED and "train's own outcomes select" in reason(report)


def test_an_outcome_that_infer_leaves_out_is_said(kcc, tmp_path):
    """By its own outcomes infer selects its bad request; without them train's selection is all there is."""
    def slow(side, i):
        return {"latency_ms": 900.0 if (i < 4 if side == "train" else i >= 6) else 5.0}

    def silent(side, i):
        return slow(side, i) if side == "train" else {}

    def last_drifts(side, lines, tensors):
        if side == "infer":
            tensors["logits"] = tensors["logits"].copy()
            tensors["logits"][-5:, 0] += 3
        return lines, tensors

    spec = "  slices: [{name: slow, where: latency_ms > 100}]\n"
    judged = contract(tmp_path, "metric: max_kl, atMost: 0.01, slices: [slow]", spec)
    said = evidence(tmp_path / "a", "logits", {}, noise=1e-3, requests=slow, edit=last_drifts)
    assert run(kcc, judged, *said)[0] == VIOLATED
    unsaid = evidence(tmp_path / "b", "logits", {}, noise=1e-3, requests=silent, edit=last_drifts)
    code, report = run(kcc, judged, *unsaid)
    assert code == SATISFIED
    assert report["warnings"] == ["slice 'slow' reads 'latency_ms', which the infer side does not record "
                                  "(8 requests); train's stands for it"]


def test_windows_are_not_cut_by_infer_alone(kcc, tmp_path):
    """One bad request in each half; put into one window they would exceed less of the budget."""
    def drift(side, lines, tensors):
        if side == "infer":
            tensors["logits"] = tensors["logits"].copy()
            tensors["logits"][[0, 39], 0] += 5
        return lines, tensors

    clause = "metric: max_kl, atMost: 0.05, exceedance: 50%, window: 4 requests"
    honest = evidence(tmp_path / "a", "logits", {}, noise=1e-3, edit=drift, requests=lambda side, i: {"ordinal": i})
    assert run(kcc, contract(tmp_path, clause), *honest)[0] == VIOLATED
    cut = [0, 4, 5, 6, 7, 2, 3, 1]
    moved = evidence(tmp_path / "b", "logits", {}, noise=1e-3, edit=drift,
                     requests=lambda side, i: {"ordinal": i if side == "train" else cut[i]})
    assert run(kcc, contract(tmp_path, clause), *moved)[0] == VIOLATED
    alone = evidence(tmp_path / "c", "logits", {}, noise=1e-3, edit=drift,
                     requests=lambda side, i: {"ordinal": cut[i]} if side == "infer" else {})
    assert run(kcc, contract(tmp_path, clause), *alone)[0] == INCONCLUSIVE
    assert run(kcc, contract(tmp_path, clause, "  evidence: {trust: [ordinal]}\n"), *alone)[0] == SATISFIED


def test_a_mask_that_infer_alone_has_is_said(kcc, tmp_path):
    def mask(side, lines, tensors):
        return lines, tensors | ({"mask": np.array([0] + [1] * 39, np.uint8)} if side == "infer" else {})

    train, infer = evidence(tmp_path, "logits", {}, edit=mask)
    code, report = run(kcc, contract(tmp_path, "metric: max_kl, atMost: 9"), train, infer)
    assert code == SATISFIED and "it has a mask and the train trace has none" in report["warnings"][0]


# ---- what the contract binds


def test_bound_keys_are_held_against_what_kernels_declare(kcc, tmp_path):
    clause, spec = "metric: max_kl, atMost: 9", "  binds: {infer: {engine: vllm, dtype: fp8}}\n"
    silent = evidence(tmp_path / "a", "logits", {})
    code, report = run(kcc, contract(tmp_path, clause, spec), *silent)
    assert code == INCONCLUSIVE and "does not declare" in reason(report)
    said = {"samplingTemperature": 1.0}
    other = evidence(tmp_path / "b", "logits", said, said | {"declares": {"engine": "vllm", "dtype": "bf16"}})
    code, report = run(kcc, contract(tmp_path, clause, spec), *other)
    assert code == ERROR and "declares dtype 'bf16', the contract binds 'fp8'" in reason(report)
    right = evidence(tmp_path / "c", "logits", said, said | {"declares": {"engine": "vllm", "dtype": "fp8"}})
    assert run(kcc, contract(tmp_path, clause, spec), *right)[0] == SATISFIED


def test_the_evaluation_set_can_be_pinned(kcc, tmp_path):
    train, infer = evidence(tmp_path / "a", "logits", {})
    digest = json.loads(kcc("trace", "verify", train, "--json").out)["requestSet"]
    assert digest == json.loads(kcc("trace", "verify", infer, "--json").out)["requestSet"]
    clause = "metric: max_kl, atMost: 9"
    path = contract(tmp_path, clause, f'  binds: {{requests: "{digest}"}}\n')
    assert run(kcc, path, train, infer)[0] == SATISFIED

    def fewer(side, lines, tensors):
        keep = tensors["request"] < 7
        return lines[:7], {name: array[keep] for name, array in tensors.items()}

    code, report = run(kcc, path, *evidence(tmp_path / "b", "logits", {}, edit=fewer))
    assert code == ERROR and "the evidence is about the requests sha256:" in reason(report)
    assert run(kcc, contract(tmp_path, clause, "  binds: {requests: sha256-1}\n"), train, infer)[0] == INVALID


# ---- identity and payload


def test_a_payload_digest_covers_every_tensor(kcc, tmp_path):
    """safetensors sorts by size and name, so `logprob` may lie before the index columns."""
    train, _ = evidence(tmp_path, "sampled-token", {})
    file = train / "tokens-00000.safetensors"
    tensors = load_file(file)
    save_file(tensors, file)
    before = json.loads(kcc("trace", "verify", train, "--json").out)
    tensors["logprob"][0] -= 0.25
    save_file(tensors, file)
    after = json.loads(kcc("trace", "verify", train, "--json").out)
    assert before["identity"] == after["identity"] and before["payload"] != after["payload"]


def test_shards_of_one_identity_and_two_payloads_do_not_merge(kcc, tmp_path):
    train, infer = evidence(tmp_path, "sampled-token", {})
    forged = tmp_path / "forged"
    shutil.copytree(infer, forged)
    data = bytearray((forged / "tokens-00000.safetensors").read_bytes())
    data[-4] ^= 1  # the last bit of the last log-prob
    (forged / "tokens-00000.safetensors").write_bytes(data)
    for name, side, shard, flags in (("a", infer, "1/2", ["--verify"]), ("b", forged, "2/2", ["--verify"]), ("c", infer, "2/2", [])):
        done = kcc("measure", train, side, "--shard", shard, "-o", tmp_path / f"{name}.kccs", *flags)
        assert done.code == 0, done.err
    done = kcc("merge", tmp_path / "a.kccs", tmp_path / "b.kccs", "-o", tmp_path / "m.kccs")
    assert done.code != 0 and "different payloads" in done.err
    done = kcc("merge", tmp_path / "a.kccs", tmp_path / "c.kccs", "-o", tmp_path / "m.kccs")
    assert done.code != 0 and "without --verify" in done.err


# ---- premises of bounds


def test_a_breached_assumption_is_named(kcc, tmp_path):
    def advantages(side, lines, tensors):
        return lines, tensors | {"advantage": np.full(40, 5, np.float32)}

    train, infer = evidence(tmp_path, "logits", {}, edit=advantages, requests=lambda side, i: {"reward": 3.0})
    spec = "  assumptions: {rewardMax: 1, advantageMax: 4}\n"
    code, report = run(kcc, contract(tmp_path, "metric: max_kl, atMost: 9", spec), train, infer)
    assert code == SATISFIED
    assert [text.split(";")[0] for text in report["warnings"]] == [
        "assumption breached: a reward is 3, rewardMax is 1",
        "assumption breached: an advantage is 5, advantageMax is 4",
    ]


# ---- what was recorded of a run


def generated(root, fields, rows=0, count=20):
    """Two generated traces; fields(side, i): of each request; rows: tokens that each side has of it."""
    tokens = {
        "request": np.repeat(np.arange(count, dtype=np.int32), rows),
        "position": np.tile(np.arange(rows, dtype=np.int32), count),
        "token": np.full(count * rows, 7, np.int32),
    }
    evidence = "sampled-token" if rows else "none"
    if rows:
        tokens["logprob"] = np.full(count * rows, -0.5, np.float32)
    for side in ("train", "infer"):
        info = {"vocabSize": 24, "evidence": evidence, "mode": "generated", "sampledBy": "infer", "kernelFingerprint": side,
                "samplingTemperature": 1.0}  # fmt: skip
        write_trace(root / side, info, [{"id": f"r{i:02}", **fields(side, i)} for i in range(count)], tokens)
    return root / "train", root / "infer"


@pytest.mark.parametrize("clause, verdict", [("p50_latency_ms, atMost: 400ms", ERROR), ("mean_latency_ms, atMost: 1h", ERROR),
                                             ("mean_latency_ms, atMost: 400ms, exceedance: 50%", ERROR), ("p50_tpot_ms, atMost: 1ms", INCONCLUSIVE),
                                             ("kv_cache_mb, atMost: 100MB", INCONCLUSIVE), ("peak_memory_mb, atMost: 100MB", INCONCLUSIVE),
                                             ("peak_memory_ratio, atMost: 9", INCONCLUSIVE), ("throughput_tokens_per_s, atLeast: 1", INCONCLUSIVE)])  # fmt: skip
def test_values_that_cannot_be_are_not_the_best(kcc, tmp_path, clause, verdict):
    def fields(side, i):
        bad = -1 if i < 12 else 50
        return {"latency_ms": bad, "kv_cache_mb": bad, "peak_memory_mb": bad, "ttft_ms": 10, "output_tokens": 4, "started_at_ms": 1000 * i}

    code, report = run(kcc, contract(tmp_path, f"metric: {clause}", family="runtime"), *generated(tmp_path, fields))
    assert code == verdict, reason(report)


def test_windows_that_give_no_value_do_not_vanish(kcc, tmp_path):
    """Infer fails half of the requests at once; train has nothing to compare with in half of them."""
    def failing(side, i):
        bad = side == "infer" and i >= 10
        return {"started_at_ms": 1000 * i, "latency_ms": 0 if bad else 100, "output_tokens": 0 if bad else 50, "failed": bad}

    def nothing(side, i):
        bad = i >= 10
        none = bad and side == "train"
        return {"started_at_ms": 1000 * i, "latency_ms": 100, "output_tokens": 0 if none else 50,
                "peak_memory_mb": 0 if none else 1e5 if bad else 100}

    for name, fields, clause, verdict in (
        ("a", failing, "throughput_tokens_per_s, atLeast: 100, exceedance: 5%", VIOLATED),
        ("b", failing, "throughput_ratio, atLeast: 0.9, exceedance: 5%", VIOLATED),
        ("c", nothing, "throughput_ratio, atLeast: 0.9, exceedance: 5%", INCONCLUSIVE),
        ("d", nothing, "peak_memory_ratio, atMost: 1.1, exceedance: 5%", INCONCLUSIVE),
    ):
        code, report = run(kcc, contract(tmp_path, f"metric: {clause}", family="runtime"), *generated(tmp_path / name, fields))
        assert code == verdict, (name, reason(report))


def test_a_gap_of_failures_is_rounded_once(kcc, tmp_path):
    fields = lambda side, i: {"failed": i % 10 < (4 if side == "infer" else 3)}  # noqa: E731
    code, report = run(kcc, contract(tmp_path, "metric: failure_rate_gap, atMost: 0.1", family="runtime"), *generated(tmp_path, fields))
    assert code == SATISFIED, reason(report)


@pytest.mark.parametrize("clause", ["mean_abs_log_ratio, atMost: 9, slices: [long]", "max_output_tokens, atMost: 100",
                                    "max_train_output_tokens, atMost: 100", "max_over, atMost: 0", "max_failed_at, atMost: 9, slices: [long]"])  # fmt: skip
def test_answers_that_were_cut_off_have_no_length(kcc, tmp_path, clause):
    """Both sides claim 1,000 tokens of half of the requests and have 5 rows of them."""
    claims = lambda side, i: {"output_tokens": 1000 if i < 4 else 5, "failed_at": 1}  # noqa: E731
    traces = evidence(tmp_path, "sampled-token", {"sampledBy": "infer"}, requests=claims)
    spec = ("  slices: [{name: long, where: output_tokens < 6}]\n"
            "  metrics: [{name: over, of: request, from: output_tokens - 50, direction: lower},\n"
            "            {name: failed_at, of: request, from: failed_at, direction: lower}]\n")  # fmt: skip
    code, report = run(kcc, contract(tmp_path, f"metric: {clause}", spec, family="runtime"), *traces)
    assert code == INCONCLUSIVE, reason(report)
    trusting = spec + "  evidence: {trust: [output_tokens]}\n"
    assert run(kcc, contract(tmp_path, f"metric: {clause}", trusting, family="runtime"), *traces)[0] == INCONCLUSIVE


@pytest.mark.parametrize("clause", ["throughput_ratio, atLeast: 0.9", "p95_tpot_ms, atMost: 5ms", "throughput_tokens_per_s, atLeast: 100",
                                    "p95_latency_ms, atMost: 1h, slices: [long]"])  # fmt: skip
def test_generated_rows_are_held_against_the_claim(kcc, tmp_path, clause):
    def fields(claim):
        return lambda side, i: {"prompt_tokens": 0, "output_tokens": claim if side == "infer" else 3, "latency_ms": 10,
                                "ttft_ms": 1, "started_at_ms": 10 * i}  # fmt: skip

    judged = contract(tmp_path, f"metric: {clause}", "  slices: [{name: long, where: output_tokens > 2}]\n", family="runtime")
    assert run(kcc, judged, *generated(tmp_path / "a", fields(3), rows=3))[0] == SATISFIED
    code, report = run(kcc, judged, *generated(tmp_path / "b", fields(3000), rows=3))
    assert code == INCONCLUSIVE, reason(report)


@pytest.mark.parametrize("clause, verdict", [("throughput_tokens_per_s, atLeast: 100", INCONCLUSIVE), ("throughput_ratio, atLeast: 0.1", INCONCLUSIVE),
                                             ("throughput_tokens_per_s, atLeast: 100, exceedance: 5%, window: 1m", INCONCLUSIVE),
                                             ("throughput_tokens_per_s, atLeast: 60, exceedance: 5%, window: request", SATISFIED)])  # fmt: skip
def test_merging_does_not_add_up_throughput(kcc, tmp_path, clause, verdict):
    """Two pairs of 60 tokens a second, over the same seconds."""
    judged = contract(tmp_path, f"metric: {clause}", family="runtime")
    parts = []
    for k in (0, 1):
        fields = lambda side, i, k=k: {"id": f"p{k}r{i}", "started_at_ms": 1000 * i, "latency_ms": 1000, "output_tokens": 60}  # noqa: E731
        parts.append(tmp_path / f"{k}.kccs")
        assert kcc("measure", *generated(tmp_path / str(k), fields), "--contract", judged, "-o", parts[k]).code == 0
        assert kcc("judge", judged, parts[k]).code == (SATISFIED if "ratio" in clause or verdict == SATISFIED else VIOLATED)
    assert kcc("merge", *parts, "-o", tmp_path / "m.kccs").code == 0
    done = kcc("judge", judged, tmp_path / "m.kccs", "--json")
    assert done.code == verdict, done.out
