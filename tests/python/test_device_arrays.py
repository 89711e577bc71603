"""Logits on a device, from Python: the real package and library, a CUDA library that measures on the CPU
(tests/device/fake_cuda.cc), and arrays whose addresses only that library can read."""

import ctypes
import os
import pathlib
import re

import numpy as np
import pytest

import kcc
from kcc import cuda

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("KCC_BUILD", ROOT / "build" / "release"))
FAKE = BUILD / "tests" / "device" / "libkcc_cuda.so"
CONTRACT = """
apiVersion: kcc/v1
kind: KernelContract
metadata: {name: device, version: 1.0.0}
spec:
  slices:
    - {name: code, where: "'code' in tags"}
  numerical:
    - {id: N-1, metric: mean_kl, atMost: 1.0e-3, slices: [all, code], level: L3}
    - {id: N-2, metric: max_tv, atMost: 0.5, level: L2}
    - {id: N-3, metric: p99_abs_log_ratio, atMost: 0.5, level: L2}
"""


class OnDevice:
    """What CuPy or Numba would give: an address and a description, nothing that the host can read."""

    def __init__(self, values):
        self.host = np.ascontiguousarray(values)
        self.shape = self.host.shape
        self.__cuda_array_interface__ = {
            "version": 3, "shape": self.host.shape, "typestr": self.host.dtype.str, "strides": None,
            "data": (self.host.ctypes.data | 1 << 62, False), "stream": None}  # fmt: skip


@pytest.fixture(autouse=True)
def fake(monkeypatch):
    monkeypatch.setenv("KCC_CUDA_LIBRARY", str(FAKE))
    library = ctypes.CDLL(str(FAKE))
    library.kcc_fake_reset()
    return library


def logits(noise=0.01, rows=4, columns=6, vocab=300, seed=3):
    random = np.random.default_rng(seed)
    train = (3 * random.standard_normal((rows, columns, vocab))).astype(np.float32)
    infer = (train + noise * random.standard_normal(train.shape)).astype(np.float32)
    tokens = random.integers(0, vocab, (rows, columns)).astype(np.int32)
    return train, infer, tokens


def requests(rows=4):
    return [{"id": f"r{row}", "tags": ["code"] if row < 2 else []} for row in range(rows)]


@pytest.mark.parametrize("noise, verdict", [(0.001, "satisfied"), (1.0, "violated")])
def test_logits_on_a_device_give_the_verdict_and_values_of_the_cpu(noise, verdict):
    contract = kcc.Contract(CONTRACT)
    train, infer, tokens = logits(noise)
    mask = np.ones(tokens.shape, bool)
    mask[1, 2:] = False
    options = dict(tokens=tokens, mask=mask, requests=requests(), clauses_only=True)
    here = kcc.measure(train, infer, contract, **options)
    there = kcc.measure(OnDevice(train), OnDevice(infer), contract, **options)
    assert (here.backends, there.backends) == ("", "cuda")
    reports = [kcc.judge(contract, each) for each in (here, there)]
    assert [each.verdict for each in reports] == [verdict, verdict]
    assert reports[0].clauses == reports[1].clauses
    assert here.tokens == there.tokens == mask.sum()


def test_a_broken_row_is_refused_in_the_words_of_the_cpu():
    train, infer, tokens = logits()
    infer[2, 3, 7] = np.nan
    messages = []
    for wrap in (np.asarray, OnDevice):
        with pytest.raises(kcc.EvidenceError) as caught:
            kcc.measure(wrap(train), wrap(infer), tokens=tokens)
        messages.append(str(caught.value))
    assert messages[0] == messages[1] and "infer logits[7] is NaN" in messages[0]


def test_a_measurement_is_finished_later_and_once():
    train, infer, tokens = logits()
    begun = [kcc.begin_measure(OnDevice(train), OnDevice(infer), tokens=tokens) for _ in range(3)]
    summaries = [each.finish().to_bytes() for each in reversed(begun[1:])]
    assert summaries[0] == summaries[1]
    with pytest.raises(kcc.InvalidInput, match="finished before"):
        begun[1].finish()


def test_a_monitor_judges_logits_on_a_device():
    contract = kcc.Contract(CONTRACT)
    train, infer, tokens = logits(0.5)
    log_softmax = lambda x: x - np.log(np.exp(x.astype(np.float64)).sum(-1, keepdims=True))  # noqa: E731
    picked = [np.take_along_axis(log_softmax(each), tokens[..., None], -1)[..., 0] for each in (train, infer)]
    monitor = kcc.Monitor(contract, limits={"token.k3": 10.0})
    pending = monitor.begin(*picked, logits=(OnDevice(train), OnDevice(infer)), tokens=tokens)
    step = pending.finish()
    want = kcc.Monitor(contract, limits={"token.k3": 10.0}).step(*picked, logits=(train, infer), tokens=tokens)
    assert step.verdict == want.verdict == "violated" and step.number == 1
    assert step.report.clauses == want.report.clauses
    assert step.metrics == want.metrics
    assert monitor.summary.backends == "cuda"
    with pytest.raises(kcc.InvalidInput, match="finished before"):
        pending.finish()


def test_what_a_monitor_cannot_do_with_logits_is_said():
    train, infer, tokens = logits()
    picked = np.full(tokens.shape, -1.0)
    limits = kcc.Monitor(limits={"token.k3": 1.0})
    with pytest.raises(kcc.InvalidInput, match="the monitor has none"):
        limits.step(picked, picked, logits=(train, infer))
    monitor = kcc.Monitor(kcc.Contract(CONTRACT))
    with pytest.raises(kcc.ShapeError, match="infer logits have shape"):
        monitor.step(picked, picked, logits=(train, infer[:, :-1]))
    with pytest.raises(kcc.DTypeError, match="pass a pair"):
        monitor.step(picked, picked, logits=train)
    with pytest.raises(kcc.InvalidInput, match="with logits alone"):
        monitor.step(picked, picked, tokens=tokens)


def test_two_places_are_refused():
    train, infer, tokens = logits()
    with pytest.raises(kcc.DeviceError, match="train is on a CUDA device and infer is not"):
        kcc.measure(OnDevice(train), infer, tokens=tokens)


def test_without_the_library_the_error_says_where_it_was_looked_for(monkeypatch, tmp_path):
    train, infer, _ = logits()
    monkeypatch.setenv("KCC_CUDA_LIBRARY", str(tmp_path / "libkcc_cuda.so"))
    with pytest.raises(kcc.DeviceError, match="is not there") as caught:
        kcc.measure(OnDevice(train), OnDevice(infer))
    assert str(tmp_path) in str(caught.value)
    with pytest.raises(kcc.DeviceError, match="docs/gpu.md"):
        cuda.find()


def test_kcc_cuda_takes_cuda_tensors_alone():
    torch = pytest.importorskip("torch")
    with pytest.raises(kcc.DeviceError, match="kcc.measure any"):
        cuda.measure(torch.zeros(2, 8), torch.zeros(2, 8))


def test_the_rows_struct_is_the_headers():
    text = (ROOT / "include/kcc.h").read_text()
    body = text[text.index("typedef struct kcc_cuda_rows") : text.index("} kcc_cuda_rows;")]
    body = re.sub(r"/\*.*?\*/", "", body, flags=re.S)
    assert re.findall(r"(\w+)(?=[;,])", body) == [name for name, _ in cuda.Rows._fields_]
