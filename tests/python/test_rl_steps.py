"""kcc.rl from files to weights: step, read_dump, results in the caller's arrays, memory, settings."""

import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import torch

import kcc

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXPORTS = ROOT / "tests/data/rl/token_exports"
TRUNCATE = {"weight": {"mode": "truncate", "level": "token", "high": 1.01}}
REJECT = {**TRUNCATE, "reject": [{"statistic": "ratio", "aggregate": "token", "low": 0.99, "high": 1.5}]}


def arrays(rows=7, columns=50, noise=0.01, seed=0):
    rng = np.random.default_rng(seed)
    rollout = -rng.gamma(0.6, 0.8, (rows, columns)).astype(np.float32)
    train = np.minimum(rollout + noise * rng.standard_normal((rows, columns)).astype(np.float32), 0)
    mask = np.arange(columns) < rng.integers(columns // 2, columns + 1, rows)[:, None]
    return train, rollout, mask


@pytest.mark.parametrize("correction", [TRUNCATE, REJECT, json.dumps(REJECT)])
@pytest.mark.parametrize("kind", ["numpy", "torch", "packed"])
def test_step_is_diagnose_and_correct(correction, kind):
    train, rollout, mask = arrays()
    more = {"advantages": np.linspace(-1, 1, 7), "slices": ["math", "code", "chat", "math", "code", "chat", "math"]}
    given = [train, rollout, mask]
    if kind == "torch":
        given = [torch.from_numpy(each) for each in given]
    if kind == "packed":
        more["offsets"] = torch.from_numpy(np.concatenate([[0], mask.sum(1).cumsum()])).int()
        given = [train[mask], rollout[mask]]
    summary, stepped = kcc.rl.step(*given, correction=correction, threads=2, **more)
    corrected = kcc.rl.correct(*given, correction=correction, threads=1, **more)
    added = kcc.rl.RlSummary().add(kcc.rl.Batch(*given, **more))
    assert summary.to_bytes() == added.to_bytes()
    assert stepped.figures == corrected.figures
    assert (np.asarray(stepped.weights) == np.asarray(corrected.weights)).all()
    assert (np.asarray(stepped.mask) == np.asarray(corrected.mask)).all()
    assert type(stepped.weights) is type(given[0]) and stepped.mask.shape == given[0].shape
    w = np.exp(train.astype(np.float64) - rollout)
    kept = mask & (w >= 0.99) if correction is not TRUNCATE else mask
    expected = np.where(kept, np.minimum(w, 1.01), 0)
    if kind == "packed":
        kept, expected = kept[mask], expected[mask]
    np.testing.assert_allclose(np.asarray(stepped.weights), expected, rtol=1e-6)
    assert (np.asarray(stepped.mask) == kept).all()
    again, _ = kcc.rl.step(*given, correction=correction, summary=summary, **more)
    assert again is summary and summary.figures()[""]["tokens"] == 2 * mask.sum()


def test_a_failed_step_adds_nothing():
    train, rollout, mask = arrays()
    summary, _ = kcc.rl.step(train, rollout, mask, correction=TRUNCATE)
    before = summary.to_bytes()
    train[3, 2] = np.nan
    with pytest.raises(kcc.EvidenceError, match="row 3, column 2"):
        kcc.rl.step(train, rollout, mask, correction=TRUNCATE, summary=summary)
    assert summary.to_bytes() == before


def test_results_go_into_the_callers_arrays():
    train, rollout, mask = arrays()
    wanted = kcc.rl.correct(train, rollout, mask, correction=REJECT)
    weights, own = np.full(train.shape, 7, np.float32), mask.copy()
    _, corrected = kcc.rl.step(train, rollout, own, correction=REJECT, out=(weights, own))
    assert corrected.weights is weights and corrected.mask is own
    assert (weights == wanted.weights).all() and (own == wanted.mask).all()
    tensor = torch.empty(train.shape)
    kcc.rl.correct(*map(torch.from_numpy, (train, rollout, mask)), correction=REJECT, out=(tensor, None))
    assert (tensor.numpy() == wanted.weights).all()
    readonly = np.empty(train.shape, np.float32)
    readonly.flags.writeable = False
    for out, error, words in [
        ((np.empty(train.shape), None), kcc.DTypeError, r"out\[0\] holds float64"),
        ((np.empty((7, 51), np.float32), None), kcc.ShapeError, r"out\[0\] has shape"),
        ((np.empty((7, 100), np.float32)[:, ::2], None), kcc.InvalidInput, "adjacent"),
        ((torch.empty(7, 100)[:, :50], None), kcc.InvalidInput, "adjacent"),
        ((readonly, None), kcc.InvalidInput, "read-only"),
        ((None, np.empty(train.shape)), kcc.DTypeError, r"out\[1\]"),
        (weights, kcc.InvalidInput, "pair"),
    ]:
        with pytest.raises(error, match=words):
            kcc.rl.correct(train, rollout, mask, correction=REJECT, out=out)


@pytest.mark.parametrize("kind", ["truncate", "in-place", "reject"])
@pytest.mark.parametrize("threads", [1, 2])
def test_a_step_takes_one_array(kind, threads):
    command = [sys.executable, "bench/rl_memory.py", "--kind", kind, "--threads", str(threads)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["extra_arrays"] >= 0.99  # the weights at least: the gauge works


def expanded(torch_too):
    """Arrays whose memory is smaller than they are, or lies in no usual order."""
    train, rollout, mask = arrays()
    views = [
        (np.broadcast_to(train[0], train.shape), np.repeat(train[:1], 7, 0)),
        (train[::-1], train[::-1].copy()),
        (np.asfortranarray(train), train),
        (train.astype(">f4"), train),
        (np.lib.stride_tricks.as_strided(train, (7, 50), (0, 4)), np.repeat(train[:1], 7, 0)),
    ]
    tensor = torch.from_numpy(train)
    views += [
        (tensor[:1].expand(7, 50), np.repeat(train[:1], 7, 0)),
        (torch._neg_view(-tensor), train),
        (tensor.T.contiguous().T, train),
        (tensor.clone().requires_grad_(), train),
    ]
    return [(view, np.ascontiguousarray(plain), rollout, mask) for view, plain in views]


@pytest.mark.parametrize("view, plain, rollout, mask", expanded(True))
def test_views_are_read_as_what_they_stand_for(view, plain, rollout, mask):
    expected = kcc.rl.RlSummary().add(kcc.rl.Batch(plain, rollout, mask)).to_bytes()
    assert kcc.rl.RlSummary().add(kcc.rl.Batch(view, rollout, mask)).to_bytes() == expected


def test_advantages_per_row_keep_their_stride():
    train, rollout, _ = arrays()
    wide = np.arange(35.0).reshape(7, 5)
    for column in (wide[:, 0], wide[:, :1], torch.from_numpy(wide)[:, :1], wide[:, 0].tolist()):
        figures = kcc.rl.diagnose(train, rollout, advantages=column)
        assert figures["skew"]["mean_abs_advantage"] == pytest.approx(wide[:, 0].mean())
    figures = kcc.rl.diagnose(train, rollout, advantages=torch.tensor([[2.0]]).expand(7, 1))
    assert figures["skew"]["mean_abs_advantage"] == 2


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.uint16, np.int32, np.int64, np.float16, np.float32, np.bool_])
def test_masks_of_every_dtype(dtype):
    train, rollout, mask = arrays()
    assert kcc.rl.diagnose(train, rollout, mask.astype(dtype))["tokens"] == mask.sum()


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_a_mask_that_is_not_a_number_is_refused(dtype):
    train, rollout, mask = arrays()
    mask = mask.astype(dtype)
    mask[3, 2] = np.nan
    for call in (
        lambda: kcc.rl.diagnose(train, rollout, mask),
        lambda: kcc.rl.step(train, rollout, mask, correction={}, threads=2),
        lambda: kcc.rl.lint(train, rollout, mask),
        lambda: kcc.measure(train, rollout, mask=mask),
    ):
        with pytest.raises(kcc.EvidenceError, match=r"mask at (row 3, column 2|\(3, 2\))"):
            call()


@pytest.mark.parametrize(
    "more, error, words",
    [
        ({"advantages": np.full(7, np.nan)}, kcc.EvidenceError, "advantage of row 0"),
        ({"advantages": np.full((7, 50), np.inf)}, kcc.EvidenceError, "advantage at row 0, column 0"),
        ({"old": np.full((7, 50), np.nan)}, kcc.EvidenceError, "old log-prob at row 0, column 0"),
        ({"slices": "abcdefg"}, kcc.DTypeError, "slices is a str"),
        ({"slices": 5}, kcc.DTypeError, "slices is a int"),
        ({"slices": ["a", "b", "c", "d", "e", "f", ""]}, kcc.InvalidInput, "row 6"),
        ({"slices": ["a\0b"] * 7}, kcc.InvalidInput, "row 0"),
        ({"slices": ["\ud800"] * 7}, kcc.InvalidInput, "row 0"),
        ({"threads": "2"}, kcc.DTypeError, "threads is a str"),
        ({"threads": 2.5}, kcc.DTypeError, "threads is a float"),
        ({"confidence": "high"}, kcc.DTypeError, "confidence"),
        ({"confidence": 2}, kcc.InvalidInput, "confidence"),
    ],
)
def test_misuse_names_the_place(more, error, words):
    train, rollout, _ = arrays()
    with pytest.raises(error, match=words):
        kcc.rl.diagnose(train, rollout, **more)


def test_misuse_of_arrays_and_objects():
    train, rollout, mask = arrays()
    tensor = torch.from_numpy(train)
    summary = kcc.rl.RlSummary()
    liar = type("Liar", (), {"__dlpack_device__": lambda s: (1, 0), "__dlpack__": lambda s, **k: 1})()
    for call, error, words in [
        (lambda: kcc.rl.diagnose(tensor.to_sparse(), rollout), kcc.DTypeError, "to_dense"),
        (lambda: kcc.rl.diagnose(torch.nested.nested_tensor([tensor[0], tensor[1, :3]]), rollout), kcc.ShapeError, "nested"),
        (lambda: kcc.rl.diagnose(liar, rollout), kcc.DTypeError, "DLPack"),
        (lambda: kcc.rl.diagnose([["a"]], rollout), kcc.DTypeError, "dtype <U1"),
        (lambda: kcc.rl.diagnose(train.ravel(), rollout.ravel(), offsets=[]), kcc.ShapeError, "offsets"),
        (lambda: kcc.rl.correct(train, rollout, correction={"weight": {1}}), kcc.InvalidInput, "correction"),
        (lambda: kcc.rl.correct(train, rollout, correction={"weight": {"high": float("nan")}}), kcc.InvalidInput, "correction"),
        (lambda: kcc.rl.correct(train, rollout, correction="{}\0"), kcc.InvalidInput, "zero byte"),
        (lambda: summary.merge("x"), kcc.DTypeError, "other is a str"),
        (lambda: summary.add("x"), kcc.DTypeError, "batch is a str"),
        (lambda: summary.judge({"token.k3": float("nan")}), kcc.InvalidInput, "limits"),
        (lambda: kcc.rl.RlSummary.from_bytes("x"), kcc.DTypeError, "data is a str"),
        (lambda: kcc.rl.step(train, rollout, correction=TRUNCATE, summary=1), kcc.DTypeError, "summary is a int"),
        (lambda: kcc.rl.replay(train, rollout, format=None), kcc.InvalidInput, "format"),
        (lambda: kcc.rl.dialect("verl", train, rollout, options={"a": {1}}), kcc.InvalidInput, "options"),
        (lambda: kcc.rl.dialect("ve\0rl", train, rollout), kcc.InvalidInput, "dialect"),
        (lambda: kcc.rl.read_dump(5), kcc.DTypeError, "path is a int"),
        (lambda: kcc.rl.read_dump(), kcc.InvalidInput, "name a dump"),
        (lambda: kcc.rl.read_dump("nowhere.npz"), kcc.FileError, "nowhere.npz"),
        (lambda: kcc.rl.read_dump(ROOT / "docs"), kcc.InvalidInput, "trace.json"),
    ]:
        with pytest.raises(error, match=words):
            call()
    nothing = summary.judge({"token.k3": 1})[0]
    assert nothing["outcome"] == "inconclusive" and np.isnan(nothing["value"])
    assert mask.any()


def test_token_exports_give_prime_rls_own_kl():
    dump = kcc.rl.read_dump(EXPORTS / "step_7")
    records = [json.loads(line) for file in sorted(EXPORTS.glob("*/rank_*.jsonl")) for line in file.read_text().splitlines()]
    assert dump["slices"] == [record["env_name"] for record in records]
    assert dump["offsets"][-1] == sum(len(record["token_ids"]) for record in records)
    figures = kcc.rl.diagnose(**dump)
    for name in ("math", "code"):
        kl = [
            value
            for record in records
            if record["env_name"] == name
            for value, counts in zip(record["mismatch_kl"], record["loss_mask"])
            if counts
        ]
        assert figures["slices"][name]["tokens"] == len(kl)
        assert figures["slices"][name]["token"]["k3"] == pytest.approx(np.mean(kl), rel=1e-3)


def test_dumps_of_every_kind_give_the_same_arrays(tmp_path):
    train, rollout, mask = (each.astype(np.float64) for each in arrays())
    offsets = np.arange(0, 351, 50)
    np.savez(tmp_path / "padded.npz", old_log_probs=train, rollout_log_probs=rollout, response_mask=mask)
    np.savez(tmp_path / "packed.npz", train=train.ravel(), rollout=rollout.ravel(), mask=mask.ravel(), cu_seqlens=offsets)
    torch.save(
        {"old_per_token_logps": torch.from_numpy(train), "sampling_per_token_logps": torch.from_numpy(rollout),
         "completion_mask": torch.from_numpy(mask).long()}, tmp_path / "trl.pt"
    )
    lines = [json.dumps({"train": t, "rollout": r, "mask": m}) for t, r, m in zip(train.tolist(), rollout.tolist(), mask.tolist())]
    (tmp_path / "a.jsonl").write_text("\n".join(lines[:3]))
    (tmp_path / "b.jsonl").write_text("\n".join(lines[3:]))
    wanted = json.dumps(kcc.rl.diagnose(train, rollout, mask))
    for names in (["padded.npz"], ["packed.npz"], ["trl.pt"], ["a.jsonl", "b.jsonl"]):
        dump = kcc.rl.read_dump(*[tmp_path / name for name in names])
        assert (dump["train"].ravel() == train.ravel()).all() and (dump["mask"].ravel() == mask.ravel()).all()
        assert json.dumps(kcc.rl.diagnose(**dump)) == wanted, names
    kept = kcc.rl.read_dump(tmp_path / "padded.npz")["train"]  # outlives its dump
    assert (kept == train).all()
    np.savez(tmp_path / "bad.npz", train=train.ravel(), rollout=rollout.ravel(), cu_seqlens=np.array([0.5, 350]))
    with pytest.raises(kcc.InvalidInput, match="cu_seqlens.*0.5"):
        kcc.rl.read_dump(tmp_path / "bad.npz")


def test_traces_of_full_logits_are_dumps():
    dump = kcc.rl.read_dump(ROOT / "examples/traces/train", ROOT / "examples/traces/infer", slice_by="id")
    assert len(dump["slices"]) == len(dump["offsets"]) - 1
    figures = kcc.rl.diagnose(dump["train"], dump["rollout"], offsets=dump["offsets"])
    contract = kcc.Contract("""
apiVersion: kcc/v1
kind: KernelContract
metadata: {name: t, version: 1.0.0}
spec:
  numerical:
    - {id: N-1, metric: mean_abs_log_ratio, atMost: 1, level: L3}
""")
    summary = kcc.measure_traces(ROOT / "examples/traces/train", ROOT / "examples/traces/infer", contract)
    report = kcc.judge(contract, summary)
    assert figures["tokens"] == summary.tokens
    value = report.clauses[0]["slices"][0]["value"]
    assert figures["token"]["mean_abs_log_ratio"] == pytest.approx(value, rel=1e-6)


@pytest.mark.parametrize(
    "correction, named",
    [
        (TRUNCATE, []),
        ({"weight": {"mode": "truncate", "high": 0.9}}, [("weight", "excludes_one", False)]),
        ({"weight": {"mode": "truncate", "high": 9}}, [("weight", "never_acts", True)]),
        ({"reject": [{"statistic": "ratio", "low": 5, "high": 6}]}, [("reject[0]", "rejects_everything", False)]),
    ],
)
def test_lint_names_vacuous_settings(correction, named):
    report = kcc.rl.lint(*arrays(), correction=correction)
    assert [(each["setting"], each["fault"], each["note"]) for each in report["settings"]] == named
    assert all(each["evidence"] and each["message"] for each in report["settings"])
    assert "settings" not in kcc.rl.lint(*arrays())
