"""The Python package: what it computes, checked against NumPy, and every way to misuse it."""

import doctest
import importlib
import json
import pickle
import re
import subprocess
import sys

import numpy as np
import pytest
import torch

import kcc

CONTRACT = """
apiVersion: kcc/v1
kind: KernelContract
metadata: {name: test, version: 1.0.0}
spec:
  slices:
    - {name: math, where: "'math' in tags"}
  numerical:
    - {id: N-1, metric: mean_abs_log_ratio, atMost: 0.02, slices: [all, math], level: L3}
    - {id: N-2, metric: p99_abs_log_ratio, atMost: 0.2, level: L2}
"""


def step(rows=6, columns=40, noise=0.01, seed=0):
    rng = np.random.default_rng(seed)
    rollout = -rng.gamma(0.6, 0.8, (rows, columns)).astype(np.float32)
    train = np.minimum(rollout + noise * rng.standard_normal((rows, columns)).astype(np.float32), 0)
    mask = np.arange(columns) < rng.integers(columns // 2, columns + 1, rows)[:, None]
    return train, rollout, mask


def value(report, clause, slice_name="all"):
    rows = next(each for each in report.clauses if each["id"] == clause)["slices"]
    return next(row for row in rows if row["slice"] == slice_name)


def test_verdict_and_value_are_numpys():
    train, rollout, mask = step()
    contract = kcc.Contract(CONTRACT)
    requests = [{"id": f"r{row}", "tags": ["math"] if row % 2 else []} for row in range(6)]
    summary = kcc.measure(train, rollout, contract, mask=mask, requests=requests)
    assert summary.tokens == mask.sum() and summary.requests == 6
    report = kcc.judge(contract, summary)
    gap = np.abs(train.astype(np.float64) - rollout)
    assert value(report, "N-1")["value"] == pytest.approx(gap[mask].mean(), rel=1e-12)
    math = np.zeros_like(mask)
    math[1::2] = mask[1::2]
    assert value(report, "N-1", "math")["value"] == pytest.approx(gap[math].mean(), rel=1e-12)
    assert report.verdict == "satisfied" and report.convergent
    assert "kccReport" in json.loads(report.render("json"))
    assert report.render("html").startswith("<!doctype html>")
    with pytest.raises(kcc.Error, match="'pdf' is none of json, html, ") as refused:
        report.render("pdf")
    for name in re.search(r"none of ([\w, ]*\w)", str(refused.value))[1].split(", "):
        assert len(report.render(name)) > 100, name


def test_numpy_torch_lists_and_layouts_give_the_same_bytes():
    train, rollout, mask = step()
    contract = kcc.Contract(CONTRACT)
    expected = kcc.measure(train, rollout, contract, mask=mask).to_bytes()
    tensors = [torch.from_numpy(each) for each in (train, rollout)]
    assert kcc.measure(*tensors, contract, mask=torch.from_numpy(mask)).to_bytes() == expected
    assert kcc.measure(*tensors, contract, mask=torch.from_numpy(mask).long()).to_bytes() == expected
    assert kcc.measure(train.tolist(), rollout.tolist(), contract, mask=mask).to_bytes() != b""
    apart = np.zeros((6, 80), np.float32)
    apart[:, ::2] = train
    assert kcc.measure(apart[:, ::2], rollout, contract, mask=mask, threads=2).to_bytes() == expected
    wide = torch.zeros(6, 64)
    wide[:, :40] = tensors[0]
    assert kcc.measure(wide[:, :40], tensors[1], contract, mask=mask).to_bytes() == expected


def test_packed_arrays_are_padded_ones_without_the_padding():
    train, rollout, _ = step()
    lengths = [40, 7, 0, 13, 40, 20]
    mask = np.arange(40) < np.array(lengths)[:, None]
    padded = kcc.measure(train, rollout, mask=mask).tokens
    packed = kcc.measure(train[mask], rollout[mask], lengths=lengths)
    assert packed.tokens == padded == sum(lengths)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    first = kcc.rl.diagnose(train, rollout, mask)
    second = kcc.rl.diagnose(train[mask], rollout[mask], offsets=offsets)
    assert json.dumps(first) == json.dumps(second)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_logits_of_every_precision(dtype):
    generator = torch.Generator().manual_seed(1)
    train = torch.randn(3, 5, 100, generator=generator).to(dtype)
    infer = (train.float() + 0.01 * torch.randn(3, 5, 100, generator=generator)).to(dtype)
    tokens = torch.randint(0, 100, (3, 5), generator=generator)
    contract = kcc.Contract(CONTRACT.replace("mean_abs_log_ratio, atMost: 0.02", "mean_kl, atMost: 1"))
    report = kcc.judge(contract, kcc.measure(train, infer, contract, tokens=tokens))
    p, q = train.double().log_softmax(-1), infer.double().log_softmax(-1)
    expected = (p.exp() * (p - q)).sum(-1).mean().item()
    assert value(report, "N-1")["value"] == pytest.approx(expected, rel=1e-5)


def test_merging_is_exact_and_refuses_the_same_requests_twice():
    train, rollout, mask = step()
    contract = kcc.Contract(CONTRACT)
    ids = [f"r{row}" for row in range(6)]
    parts = [
        kcc.measure(train[a:b], rollout[a:b], contract, mask=mask[a:b], requests=ids[a:b]) for a, b in ((0, 2), (2, 6))
    ]
    merged = pickle.loads(pickle.dumps(parts[1])).merge(parts[0])
    whole = kcc.measure(train, rollout, contract, mask=mask, requests=ids)
    assert merged.to_bytes() == whole.to_bytes()
    with pytest.raises(kcc.InvalidInput, match="twice|already|both"):
        merged.merge(parts[0])


@pytest.mark.parametrize(
    "change, error, words",
    [
        (lambda a: a.update(rollout=a["rollout"][:, :-1]), kcc.ShapeError, "rollout has shape"),
        (lambda a: a.update(mask=a["mask"][:3]), kcc.ShapeError, "mask has shape"),
        (lambda a: a.update(train=a["train"].astype(np.int32)), kcc.DTypeError, "train holds int32"),
        (lambda a: a.update(train=a["train"].astype(complex)), kcc.DTypeError, "complex128"),
        (lambda a: a.update(train="text"), kcc.DTypeError, "train is a str"),
        (lambda a: a.update(train=[[0.1], [0.1, 0.2]]), kcc.ShapeError, "unequal length"),
        (lambda a: a.update(train=a["train"][0]), kcc.ShapeError, "dimensions"),
        (lambda a: a["train"].__setitem__((2, 3), np.nan), kcc.EvidenceError, "row 2"),
        (lambda a: a["train"].__setitem__((2, 3), 0.5), kcc.EvidenceError, "row 2"),
        (lambda a: a.update(mask=np.zeros_like(a["mask"])), None, ""),
        (lambda a: a.update(advantages=np.zeros(5)), kcc.ShapeError, "advantages have shape"),
        (lambda a: a.update(slices=["a"] * 5), kcc.ShapeError, "5 names for 6 rows"),
        (lambda a: a.update(slices=[1] * 6), kcc.DTypeError, "every row needs a text"),
        (lambda a: a.update(threads=-1), kcc.InvalidInput, "threads"),
        (lambda a: a.update(rollout=None), kcc.InvalidInput, "rollout"),
        (lambda a: a.update(rollout=torch.zeros(6, 40, device="meta")), kcc.DeviceError, "meta"),
    ],
)
def test_misuse_of_rl_is_an_exception_that_names_the_place(change, error, words):
    train, rollout, mask = step()
    arguments = {"train": train, "rollout": rollout, "mask": np.ones_like(mask)}
    change(arguments)
    if error is None:
        assert kcc.rl.diagnose(**arguments)["tokens"] == 0
        return
    with pytest.raises(error, match=words) as raised:
        kcc.rl.diagnose(**arguments)
    assert isinstance(raised.value, kcc.Error)


@pytest.mark.parametrize(
    "options, error, words",
    [
        ({"lengths": [3, 3]}, kcc.ShapeError, "lengths"),
        ({"lengths": [-1] * 6}, kcc.InvalidInput, "negative"),
        ({"requests": ["a"]}, kcc.ShapeError, "requests"),
        ({"requests": ["a"] * 6}, kcc.Error, "a"),
        ({"requests": [{"tags": []}] * 6}, kcc.InvalidInput, "needs a text `id`"),
        ({"sampled_by": "nobody"}, kcc.InvalidInput, "nobody"),
        ({"mask": np.ones(3)}, kcc.ShapeError, "mask"),
        ({"tokens": np.ones(240) * 2**40}, kcc.DTypeError, "integers"),
    ],
)
def test_misuse_of_measure(options, error, words):
    train, rollout, _ = step()
    with pytest.raises(error, match=words):
        kcc.measure(train, rollout, **options)


def test_a_wrong_contract_names_line_and_column():
    with pytest.raises(kcc.InvalidInput, match=r"(?s)mine.yaml:\d+:\d+: error: .*did you mean"):
        kcc.Contract(CONTRACT.replace("mean_abs_log_ratio", "mean_abs_log_ratoi"), name="mine.yaml")
    with pytest.raises(kcc.FileError, match="nowhere.yaml"):
        kcc.Contract.read("nowhere.yaml")
    checked = kcc.check(CONTRACT.replace("level: L2", "levle: L2"))
    assert not checked["valid"] and checked["diagnostics"]


def test_correction_follows_the_definition():
    train, rollout, mask = step(noise=0.3)
    result = kcc.rl.correct(train, rollout, mask, correction={"weight": {"mode": "truncate", "level": "token", "high": 1.2}})
    expected = np.where(mask, np.minimum(np.exp(train.astype(np.float64) - rollout), 1.2), 0)
    np.testing.assert_allclose(result.weights, expected, rtol=1e-6)
    assert (result.mask == mask).all()
    tensors = [torch.from_numpy(each) for each in (train, rollout, mask)]
    again = kcc.rl.correct(*tensors, correction={"weight": {"mode": "truncate", "level": "token", "high": 1.2}})
    assert isinstance(again.weights, torch.Tensor) and again.mask.dtype == torch.bool
    assert (again.weights.numpy() == result.weights).all()


@pytest.mark.parametrize("noise", [1e-4, 1e-5])
def test_small_mismatch_is_measured_where_float32_loses_it(noise):
    rng = np.random.default_rng(3)
    rollout = -rng.gamma(0.6, 0.8, (64, 2048))
    log_ratio = noise * rng.standard_normal((64, 2048))
    figures = kcc.rl.diagnose(rollout + log_ratio - 1e-3, rollout - 1e-3)
    exact = (rollout + log_ratio - 1e-3) - (rollout - 1e-3)  # as rounded to double
    w = np.exp(exact)
    assert figures["token"]["k3"] == pytest.approx((np.expm1(exact) - exact).mean(), rel=1e-3)
    assert figures["token"]["sd_w"] == pytest.approx(w.std(), rel=1e-3)
    float32 = torch.from_numpy(exact).float()
    assert abs((float32.exp() - float32 - 1).mean().item() / figures["token"]["k3"] - 1) > 0.1


def test_docstrings():
    for name in ("contract", "summary", "rl", "bounds"):
        module = importlib.import_module(f"kcc.{name}")
        result = doctest.testmod(module)
        assert result.failed == 0 and result.attempted > 0, name


def test_python_m_kcc_shows_a_verdict():
    import pathlib

    root = pathlib.Path(__file__).resolve().parents[2] / "python"
    done = subprocess.run([sys.executable, "-m", "kcc"], cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "VIOLATED" in done.stdout and "code" in done.stdout
    done = subprocess.run(
        [sys.executable, "-m", "kcc", "--contract", "nowhere.yaml"], cwd=root, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1 and "nowhere.yaml" in done.stderr and "Traceback" not in done.stderr
