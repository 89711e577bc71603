"""kcc measure and merge through the real program: others' numbers, equal bytes, bad evidence."""

import itertools
import json
import random

import numpy as np
import pytest
import torch

import pairs

CONTRACT = """
apiVersion: kcc/v1
kind: KernelContract
metadata: {name: measured, version: 1.0.0}
spec:
  assumptions: {tokensMax: 64}
  slices:
    - {name: safety, where: "'safety' in tags"}
    - {name: late, where: token.position >= 8}
  numerical:
    - {id: N-1, metric: p99_kl, atMost: 0.01, slices: [all, safety, late], level: L3}
    - {id: N-2, metric: mean_tv, atMost: 0.2, exceedance: 5%, slices: [all, late], level: L2}
    - {id: N-3, metric: max_logit_linf, atMost: 0.5, level: L1}
    - {id: N-4, metric: mean_hellinger, atMost: 0.5, level: L1}
    - {id: N-5, metric: mean_js, atMost: 0.5, level: L1}
  statistical:
    - {id: S-1, metric: mean_top5_overlap, atLeast: 0.5, slices: [safety], level: L2}
"""


@pytest.fixture
def contract(tmp_path):
    path = tmp_path / "contract.yaml"
    path.write_text(CONTRACT)
    return path


def measure(kcc, *args, code=0):
    done = kcc("measure", *args)
    assert done.code == code, done.err
    return done


def report_of(kcc, contract, summary):
    done = kcc("judge", contract, summary, "--json")
    assert done.code in (0, 1, 3), done.err
    return json.loads(done.out)


def torch_quantities(train, infer, token):
    """The same quantities as PyTorch computes them in float64."""
    z = torch.from_numpy(np.asarray(train, dtype=np.float64))
    y = torch.from_numpy(np.asarray(infer, dtype=np.float64))
    log_p, log_q = torch.log_softmax(z, -1), torch.log_softmax(y, -1)
    p, q = log_p.exp(), log_q.exp()
    rows = torch.arange(z.shape[0])
    log_w = (log_p - log_q)[rows, torch.from_numpy(token.astype(np.int64))]
    difference = y - z
    span = difference.max(-1).values - difference.min(-1).values

    # topk breaks ties as it likes; a stable sort breaks them by index, as kcc says it does.
    ranked = [torch.sort(side, dim=-1, descending=True, stable=True).indices for side in (z, y)]

    def overlap(k):
        a, b = (order[:, :k] for order in ranked)
        return (a.unsqueeze(-1) == b.unsqueeze(-2)).any(-1).double().mean(-1)

    middle = torch.log((p + q) / 2)
    return {
        "kl": torch.nn.functional.kl_div(log_q, log_p, log_target=True, reduction="none").sum(-1),
        "reverse_kl": (q * (log_q - log_p)).sum(-1),
        "js": (p * (log_p - middle) + q * (log_q - middle)).sum(-1) / 2,
        "tv": (p - q).abs().sum(-1) / 2,
        "hellinger": 1 - (p * q).sqrt().sum(-1),
        "chi2": ((p - q) ** 2 / q).sum(-1),
        "reverse_chi2": ((p - q) ** 2 / p).sum(-1),
        "entropy": -(q * log_q).sum(-1),
        "train_entropy": -(p * log_p).sum(-1),
        "logit_span": span,
        "logit_linf": span / 2,
        "logit_l2": (difference - difference.mean(-1, keepdim=True)).norm(dim=-1),
        "raw_logit_linf": difference.abs().max(-1).values,
        "log_ratio": log_w,
        "abs_log_ratio": log_w.abs(),
        "top1_overlap": overlap(1),
        "top5_overlap": overlap(5),
        "top10_overlap": overlap(10),
        "margin": torch.topk(y, 2, dim=-1).values @ torch.tensor([1.0, -1.0], dtype=torch.float64),
    }


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_equals_pytorch_in_float64(kcc, tmp_path, contract, dtype):
    train, infer, columns, z, y = pairs.logits_pair(tmp_path, vocab=1003, noise=0.1, dtype=dtype)
    measure(kcc, train, infer, "-c", contract, "-o", tmp_path / "s.kccs")
    shown = report_of(kcc, contract, tmp_path / "s.kccs")["quantities"]
    if dtype == "bfloat16":
        z, y = pairs.from_bf16(z), pairs.from_bf16(y)
    for name, values in torch_quantities(z, y, columns["token"]).items():
        ours, theirs = shown[name]["all"], values.numpy()
        assert ours["count"] == len(theirs), name
        # 1 - sum sqrt(pq) and the like cancel in PyTorch's form, hence the absolute part. A
        # log-ratio is a difference of numbers near the drift itself (0.1), good to 2e-7 of them.
        absolute = 2e-8 if "log_ratio" in name else 1e-12
        for statistic, value in (("mean", theirs.mean()), ("min", theirs.min()), ("max", theirs.max())):
            assert ours[statistic] == pytest.approx(value, rel=3e-6, abs=absolute), (name, statistic)


def test_same_bytes_for_threads_shards_targets_and_order(kcc, tmp_path, contract):
    train, infer, columns, z, y = pairs.logits_pair(tmp_path, requests=23, tokens=7, vocab=519, noise=0.3)
    whole = tmp_path / "whole.kccs"
    measure(kcc, train, infer, "-c", contract, "-o", whole, "--threads", 1)
    expected = whole.read_bytes()

    def same(name, *args):
        path = tmp_path / name
        measure(kcc, train, infer, "-c", contract, "-o", path, *args)
        assert path.read_bytes() == expected, name

    same("two-threads.kccs", "--threads", 2)
    same("again.kccs")
    ran = []
    for target in ("avx512", "avx2", "neon", "scalar"):
        path = tmp_path / f"{target}.kccs"
        done = kcc("measure", train, infer, "-c", contract, "-o", path, "--target", target)
        if done.code == 2:
            assert "this CPU" in done.err  # never a silent other target
            continue
        assert path.read_bytes() == expected, target
        ran.append(target)
    assert "scalar" in ran

    for count in (1, 3, 7):
        parts = []
        for i in range(1, count + 1):
            parts.append(tmp_path / f"part-{i}-{count}.kccs")
            measure(kcc, train, infer, "-c", contract, "--shard", f"{i}/{count}", "-o", parts[-1])
        orders = list(itertools.permutations(parts)) if count <= 3 else [
            random.Random(seed).sample(parts, count) for seed in range(6)
        ]
        for order in orders:
            done = kcc("merge", *order, "-o", tmp_path / "merged.kccs")
            assert done.code == 0, done.err
            assert (tmp_path / "merged.kccs").read_bytes() == expected

    # Another order of rows is another trace (its identity differs), but the same statistics.
    order = np.random.default_rng(3).permutation(len(columns["token"]))
    shuffled = {name: column[order] for name, column in columns.items()}
    lines = [json.loads(line) for line in (train / "requests.jsonl").read_text().splitlines()]
    info = {"vocabSize": 519}
    a = pairs.write_trace(tmp_path / "a", info | {"kernelFingerprint": "train"}, lines, shuffled | {"logits": z[order]})
    b = pairs.write_trace(tmp_path / "b", info | {"kernelFingerprint": "infer"}, lines, shuffled | {"logits": y[order]})
    measure(kcc, a, b, "-c", contract, "-o", tmp_path / "shuffled.kccs")
    left = report_of(kcc, contract, whole)
    right = report_of(kcc, contract, tmp_path / "shuffled.kccs")
    for key in ("clauses", "quantities", "worst"):
        assert left[key] == right[key]


def test_merge_refuses_what_does_not_fit(kcc, tmp_path, contract):
    train, infer, *_ = pairs.logits_pair(tmp_path)
    one, two, other = (tmp_path / name for name in ("1.kccs", "2.kccs", "other.kccs"))
    measure(kcc, train, infer, "-c", contract, "--shard", "1/2", "-o", one)
    measure(kcc, train, infer, "-c", contract, "--shard", "2/2", "-o", two)
    measure(kcc, train, infer, "--shard", "2/2", "-o", other)
    out = tmp_path / "out.kccs"
    for files, word in (((one, one), "request"), ((one, other), "plan")):
        done = kcc("merge", *files, "-o", out)
        assert done.code == 2 and word in done.err, done.err
        assert not out.exists()
    damaged = tmp_path / "damaged.kccs"
    damaged.write_bytes(one.read_bytes()[:-7])
    done = kcc("merge", damaged, two, "-o", out)
    assert done.code in (2, 4) and "damaged.kccs" in done.err
    assert not out.exists()


def bad_pair(tmp_path, change):
    """A pair of traces after `change(side arrays, requests, info)` of the infer side."""
    rng = np.random.default_rng(1)
    columns = {
        "request": np.repeat(np.arange(3, dtype=np.int32), 4),
        "position": np.tile(np.arange(2, 6, dtype=np.int32), 3),
        "token": rng.integers(0, 50, 12).astype(np.int32),
    }
    logits = rng.normal(size=(12, 50)).astype(np.float32)
    lines = [{"id": f"r{i}", "prompt_tokens": 2} for i in range(3)]
    train = pairs.write_trace(tmp_path / "train", {"vocabSize": 50}, lines, columns | {"logits": logits})
    tensors = {name: value.copy() for name, value in (columns | {"logits": logits}).items()}
    other, info = [dict(line) for line in lines], {"vocabSize": 50}
    change(tensors, other, info)
    return train, pairs.write_trace(tmp_path / "infer", info, other, tensors)


def put_nan(tensors, requests, info):
    tensors["logits"][5, 17] = np.nan


def put_infinity(tensors, requests, info):
    tensors["logits"][5, 17] = np.inf


def shift_tokens(tensors, requests, info):
    tensors["token"] = np.roll(tensors["token"], 1)


def drop_request(tensors, requests, info):
    keep = tensors["request"] != 1
    for name in tensors:
        tensors[name] = tensors[name][keep]
    tensors["request"][tensors["request"] == 2] = 1
    del requests[1]


def other_vocabulary(tensors, requests, info):
    info["vocabSize"] = 49
    tensors["logits"] = tensors["logits"][:, :49]
    tensors["token"] %= 49


def no_tokens(tensors, requests, info):
    for name in tensors:
        tensors[name] = tensors[name][:0]


def other_temperature(tensors, requests, info):
    info["temperature"] = 0.7


@pytest.mark.parametrize(
    "change, code, words",
    [
        (put_nan, 4, ["infer", "r1", "position 3", "NaN"]),
        (put_infinity, 4, ["infer", "r1", "position 3", "inf"]),
        (shift_tokens, 4, ["r0", "shifted"]),
        (drop_request, 4, ["r1"]),
        (other_vocabulary, 4, ["50", "49"]),
        (no_tokens, 4, ["no token"]),
        (other_temperature, 4, ["temperature", "0.7"]),
    ],
)
def test_broken_evidence_names_the_place_and_writes_nothing(kcc, tmp_path, change, code, words):
    train, infer = bad_pair(tmp_path, change)
    out = tmp_path / "s.kccs"
    done = kcc("measure", train, infer, "-o", out)
    assert done.code == code, done.err
    for word in words:
        assert word in done.err, done.err
    assert not out.exists()


def test_a_mask_on_both_sides_is_no_error(kcc, tmp_path):
    def mask(tensors, requests, info):
        tensors["logits"][5, 17] = -np.inf

    train, infer = bad_pair(tmp_path, mask)
    # One-sided: a real zero probability, so kl is infinite and counted apart.
    done = kcc("measure", train, infer, "-o", tmp_path / "s.kccs")
    assert done.code == 0, done.err


def test_unknown_flag_target_and_shard(kcc, tmp_path):
    for args, word in (
        (["--target", "avx9"], "avx9"),
        (["--shard", "0/3"], "0/3"),
        (["--shard", "4/3"], "4/3"),
        (["--threads", "0"], "threads"),
        (["--treads", "2"], "--threads"),
    ):
        done = kcc("measure", "a", "b", "-o", tmp_path / "s", *args)
        assert done.code == 2 and word in done.err, done.err


def test_top_k_evidence_brackets_what_full_logits_say(kcc, tmp_path):
    """The same pair as top-20 lists: intervals that hold the truth, and verdicts that respect them."""
    train, infer, columns, z, y = pairs.logits_pair(tmp_path, vocab=300, noise=0.1)
    lists = {}
    for side, logits in (("train", z), ("infer", y)):
        logprobs = torch.log_softmax(torch.from_numpy(logits.astype(np.float64)), -1)
        top = torch.topk(logprobs, 20, dim=-1)
        rows = np.arange(len(logits))
        tensors = columns | {
            "top_ids": top.indices.numpy().astype(np.int32),
            "top_logprobs": top.values.numpy().astype(np.float32),
            "logprob": logprobs.numpy()[rows, columns["token"]].astype(np.float32),
        }
        lines = [json.loads(line) for line in (train / "requests.jsonl").read_text().splitlines()]
        info = {"vocabSize": 300, "evidence": "top-k", "kernelFingerprint": side}
        lists[side] = pairs.write_trace(tmp_path / f"top-{side}", info, lines, tensors)
    true_tv = torch_quantities(z, y, columns["token"])["tv"].numpy().mean()

    def verdict(metric, bound, threshold):
        contract = tmp_path / "c.yaml"
        contract.write_text(
            "apiVersion: kcc/v1\nkind: KernelContract\nmetadata: {name: t, version: 1.0.0}\nspec:\n  numerical:\n"
            f"    - {{id: N-1, metric: {metric}, {bound}: {threshold!r}, level: L3}}\n"
        )
        done = kcc("run", contract, "--train", lists["train"], "--infer", lists["infer"], "--json")
        row = json.loads(done.out)["clauses"][0]["slices"][0]
        return row["verdict"], row["interval"]

    assert verdict("mean_tv", "atMost", 0.999)[0] == "satisfied"
    state, (low, high) = verdict("mean_tv", "atMost", float(true_tv))
    assert state == "inconclusive"
    assert 0 < low < true_tv < high < 1
    assert verdict("mean_tv", "atMost", low / 2)[0] == "violated"
    # KL has no finite upper end from lists, so it can be refuted and never certified.
    assert verdict("mean_kl", "atMost", 5.0)[0] == "inconclusive"
    assert verdict("mean_top1_overlap", "atLeast", 0.5)[0] == "satisfied"
    assert verdict("mean_abs_log_ratio", "atMost", 1.0)[0] == "satisfied"


def test_import_needs_only_the_flags_its_errors_name(kcc, tmp_path):
    """What an importer asks for by flag is a flag of kcc import."""
    source = tmp_path / "r.npz"
    np.savez(source, token=np.zeros(2, np.int32), logprob=np.full(2, -1, np.float32))
    done = kcc("import", "npy", source, "-o", tmp_path / "t", "--fingerprint", "x")
    assert done.code == 2 and "--vocab-size" in done.err, done.err
    shown = kcc("import", "--help").out
    for flag in ("--vocab-size", "--fingerprint", "--semantics", "--temperature", "--side", "--prompt "):
        assert flag in shown, flag
