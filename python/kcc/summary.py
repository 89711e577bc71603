"""Measuring and judging: from two arrays or two traces to verdicts.

Logits on a CUDA device are measured there (docs/gpu.md): the same summary, and no logits come back.
"""

from __future__ import annotations

import ctypes
import json
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from . import _arrays as arrays
from . import _library as c
from . import cuda, errors, metrics
from .contract import Contract
from .lists import ListView, TopK
from .observations import Tokens


class Summary(c.Owned):
    """Exact statistics of a measurement; merging is exact in any order (docs/summary.md)."""

    kind = "summary"
    changes = True

    @classmethod
    def read(cls, path: str | os.PathLike) -> Summary:
        return cls(c.handle("kcc_summary_read", c.path_bytes(path)))

    @classmethod
    def from_bytes(cls, data: bytes) -> Summary:
        data = c.data_bytes(data)
        return cls(c.handle("kcc_summary_decode", data, len(data)))

    def to_bytes(self) -> bytes:
        """The bytes of a .kccs file; equal summaries give equal bytes."""
        return c.text("kcc_summary_encode", self)

    def write(self, path: str | os.PathLike) -> None:
        c.call("kcc_summary_write", self, c.path_bytes(path))

    def merge(self, other: Summary) -> Summary:
        """Adds `other` to this one and returns it. Requests measured twice are an error."""
        c.call("kcc_summary_merge", self, c.instance(other, Summary, "other"))
        return self

    @property
    def tokens(self) -> int:
        return c.count("kcc_summary_tokens", self)

    @property
    def requests(self) -> int:
        return c.count("kcc_summary_requests", self)

    @property
    def backends(self) -> str:
        """What measured the logits: "" for the CPU, "cuda", or "cpu,cuda" for parts by both."""
        return c.text("kcc_summary_backends", self).decode()

    def __reduce__(self):
        return (Summary.from_bytes, (self.to_bytes(),))

    def __repr__(self) -> str:
        return f"<kcc.Summary of {self.requests} requests, {self.tokens} tokens>"


class Report:
    """What a contract says about a summary. `data` is report.json (docs/report.md)."""

    def __init__(self, contract: Contract, summary: Summary, stage: str, about: str | None):
        self._inputs = (
            c.instance(contract, Contract, "contract"),
            c.instance(summary, Summary, "summary"),
            c.encode(stage, "stage"),
            c.encode(about, "about"),
        )
        self.data: dict[str, Any] = json.loads(self.render("json"))

    @property
    def verdict(self) -> str:
        """satisfied, violated, inconclusive or error."""
        return self.data["verdict"]

    @property
    def convergent(self) -> bool:
        return self.data["convergent"]

    @property
    def action(self) -> str:
        return self.data["action"]

    @property
    def health(self) -> float:
        return self.data["health"]

    @property
    def clauses(self) -> list[dict[str, Any]]:
        return self.data["clauses"]

    def render(self, format: str) -> str:
        """The report in one of the formats of docs/report.md, such as "json", "html" or "markdown"."""
        contract, summary, stage, about = self._inputs
        return c.text("kcc_judge", contract, summary, stage, about, c.encode(format, "format")).decode()

    def __repr__(self) -> str:
        return f"<kcc.Report {self.verdict}, action {self.action}>"


def judge(contract: Contract, summary: Summary, *, stage: str = "offline", about: str | None = None) -> Report:
    """Judges a summary under a contract."""
    return Report(contract, summary, stage, about)


class Measurement(c.Owned):
    """A measurement that was begun (begin_measure); `finish` gives its summary, once.

    It keeps the arrays alive. Nobody may change them before it has finished.
    """

    kind = "measurement"
    changes = True

    def __init__(self, raw: ctypes.c_void_p, keep: list[Any]):
        super().__init__(raw)
        self._keep = keep

    def finish(self) -> Summary:
        """Waits for the device, if logits lie on one, and sums up."""
        summary = Summary(c.handle("kcc_measure_finish", self))
        self._keep = []  # after a failure they stay until the measurement is freed, which is what reads them
        return summary

    def finish_tokens(self) -> tuple[Summary, Tokens]:
        """`finish`, and what was made of every token."""
        summary, tokens = ctypes.c_void_p(), ctypes.c_void_p()
        c.call("kcc_measure_finish_tokens", self, ctypes.byref(summary), ctypes.byref(tokens))
        self._keep = []
        return Summary(summary), Tokens(tokens)


def measure_traces(
    train: str | os.PathLike,
    infer: str | os.PathLike,
    contract: Contract | None = None,
    *,
    device: str | None = None,
    threads: int = 0,
) -> Summary:
    """Measures two traces on disk; with `device="cuda"` their logits on the GPU."""
    paths = c.path_bytes(train, "train"), c.path_bytes(infer, "infer")
    if device is not None:
        where = c.encode(device, "device")
        if device == "cuda":
            cuda.use()
        return Summary(c.handle("kcc_measure_traces_on", where, *paths, _contract(contract), c.thread_count(threads)))
    return Summary(c.handle("kcc_measure_traces", *paths, _contract(contract), c.thread_count(threads)))


def _contract(contract: Contract | None) -> Contract | None:
    return None if contract is None else c.instance(contract, Contract, "contract")


def _requests_jsonl(requests: Sequence[Any] | None, count: int, values: Callable[[int, dict], dict] | None = None) -> bytes:
    """`values`: fields to add to a request, by its place."""
    if requests is None:
        requests = [f"{index:08d}" for index in range(count)]
    requests = c.row_list(requests, "requests", "a text or a dict")
    if len(requests) != count:
        raise errors.ShapeError(f"requests: {len(requests)} for {count} rows of the batch")
    lines = []
    for index, request in enumerate(requests):
        row = {"id": request} if isinstance(request, str) else request
        if not isinstance(row, Mapping) or not isinstance(row.get("id"), str):
            raise errors.InvalidInput(f"requests[{index}]: needs a text `id`")
        row = dict(row)
        if values is not None:
            row |= values(index, row)
        lines.append(c.json_bytes(row, f"requests[{index}]"))
    return b"\n".join(lines)


def measure(
    train: Any,
    infer: Any,
    contract: Contract | None = None,
    *,
    logits: bool | None = None,
    tokens: Any = None,
    mask: Any = None,
    advantages: Any = None,
    lengths: Any = None,
    requests: Sequence[Any] | None = None,
    temperature: float = 1.0,
    sampling_temperature: float | None = None,
    sampled_by: str = "infer",
    vocab_size: int | None = None,
    train_fingerprint: str = "",
    infer_fingerprint: str = "",
    clauses_only: bool = False,
    threads: int = 0,
) -> Summary:
    """Measures the gap between two sides' arrays about the same tokens.

    Log-probs of the sampled tokens: [tokens] or padded [requests, tokens]. Logits: [tokens, vocab]
    or [requests, tokens, vocab]; three dimensions are always logits, two are log-probs unless
    `logits=True`. Either side may be top-k lists (`kcc.TopK`), as servers return them; the other side
    is then logits or lists too. Two lists need `vocab_size`. `mask` and `advantages` have the shape without the vocabulary. `lengths` are the
    rows of each request where the arrays are packed; without it each row of the batch is a request
    (a packed array without lengths is one request). `requests` are ids, or dicts with an `id` and
    the fields that slices read. `temperature` is that of the compared distributions: logits are
    divided by it, log-probs are at it (raw ones at 1). `sampling_temperature` is what the tokens
    were sampled at, where that differs; 0 is greedy decoding, or any that does not draw from the whole
    distribution (top-k, top-p): nothing is then estimated from the tokens. `clauses_only` keeps of the token quantities those that a clause
    names: several times faster, the same verdicts, a shorter report.

    Logits that lie on a CUDA device are measured there, and only a few numbers a token come back;
    everything else is small and is taken from the host's memory, or copied there.

    >>> import numpy as np
    >>> train = np.log(np.full((2, 3), 0.5)); infer = train + 1e-3
    >>> measure(train, infer).tokens
    6
    """
    options = dict(locals())
    return begin_measure(options.pop("train"), options.pop("infer"), options.pop("contract"), **options).finish()


def begin_measure(
    train: Any,
    infer: Any,
    contract: Contract | None = None,
    *,
    logits: bool | None = None,
    tokens: Any = None,
    mask: Any = None,
    advantages: Any = None,
    lengths: Any = None,
    requests: Sequence[Any] | None = None,
    temperature: float = 1.0,
    sampling_temperature: float | None = None,
    sampled_by: str = "infer",
    vocab_size: int | None = None,
    train_fingerprint: str = "",
    infer_fingerprint: str = "",
    clauses_only: bool = False,
    threads: int = 0,
) -> Measurement:
    """`measure` in two parts: this one starts the device that logits lie on and returns, `finish` of what
    it returns waits and sums up. Between the two the caller works on, a trainer on its backward pass. Of
    tensors on the device `tokens` and `mask` are copied to the host at once, which waits for their stream:
    have them on the host. Log-probs and logits in the host's memory are measured by `finish`."""
    train_view, infer_view, is_logits = _views(train, infer, logits)
    place = _place(train_view, infer_view)
    outer = train_view.shape[:-1] if is_logits else train_view.shape
    rows = int(np.prod(outer, dtype=np.int64))

    call = c.Arrays(struct_size=ctypes.sizeof(c.Arrays), rows=rows, temperature=c.real(temperature, "temperature"))
    keep = [train_view, infer_view]
    for side, view in (("train", train_view), ("infer", infer_view)):
        if isinstance(view, ListView):
            view.fill(call, side)
            continue
        view, stride = _rows_apart(view, is_logits)
        keep.append(view)
        setattr(call, f"{side}_{'logits' if is_logits else 'logprobs'}", view.array(stride))
    if is_logits:
        call.vocab_size = _vocab_size((train_view, infer_view), vocab_size)
    first, counts = _layout(outer, lengths, rows)
    own = [] if contract is None else metrics.wanted_of(_contract(contract).metrics)
    values = _own_values(own, (train_view, infer_view), is_logits, mask, (first, counts)) if own else None
    jsonl = _requests_jsonl(requests, len(counts), values)
    keep += [first, counts, jsonl]
    call.requests_jsonl, call.requests_jsonl_size, call.requests = jsonl, len(jsonl), len(counts)
    call.first_rows, call.row_counts = first.ctypes.data, counts.ctypes.data
    for field, value, dtype in (("tokens", tokens, np.int32), ("mask", mask, np.uint8), ("advantages", advantages, np.float32)):
        if value is None:
            continue
        if field == "mask":
            value = truth(arrays.to_host(value))
        column = arrays.column(value, field, dtype, rows)
        keep.append(column)
        setattr(call, field, column.ctypes.data)
    call.train_fingerprint = c.encode(train_fingerprint, "train_fingerprint")
    call.infer_fingerprint = c.encode(infer_fingerprint, "infer_fingerprint")
    if sampling_temperature is not None:
        at = c.real(sampling_temperature, "sampling_temperature")
        call.sampling_temperature = c.GREEDY if at == 0 else at
    call.sampled_by = c.encode(sampled_by, "sampled_by")
    call.clauses_only = c.flag(clauses_only, "clauses_only")
    if place is not None:
        cuda.use()
        call.device, call.device_index, call.stream = b"cuda", place.index, place.stream
    begun = c.handle("kcc_measure_begin", ctypes.byref(call), _contract(contract), c.thread_count(threads))
    return Measurement(begun, keep)


def _views(train: Any, infer: Any, logits: bool | None) -> tuple[Any, Any, bool]:
    """Both sides as they are read, and whether an entry is a row of them: of logits, or of a list."""
    if isinstance(train, TopK) or isinstance(infer, TopK):
        if logits is not None and not c.flag(logits, "logits"):
            raise errors.InvalidInput("logits=False: top-k lists face logits or other lists, not log-probs")
        views = [
            ListView(side, name) if isinstance(side, TopK)
            else arrays.view(arrays.from_lists(side, name), name, arrays.LOGITS, (2, 3))
            for side, name in ((train, "train"), (infer, "infer"))
        ]  # fmt: skip
        if views[0].shape[:-1] != views[1].shape[:-1]:
            raise errors.ShapeError(f"infer has rows {views[1].shape[:-1]}, train has {views[0].shape[:-1]}")
        return views[0], views[1], True
    train, infer = arrays.from_lists(train, "train"), arrays.from_lists(infer, "infer")
    is_logits = arrays.dimensions(train, "train") == 3 if logits is None else c.flag(logits, "logits")
    allowed = arrays.LOGITS if is_logits else arrays.LOGPROBS
    ndim = (2, 3) if is_logits else (1, 2)
    if not is_logits:
        train, infer = arrays.to_host(train), arrays.to_host(infer)
    train_view = arrays.view(train, "train", allowed, ndim, on_device=is_logits)
    infer_view = arrays.view(infer, "infer", allowed, ndim, on_device=is_logits)
    arrays.same_shape(train_view, "train", infer_view, "infer")
    return train_view, infer_view, is_logits


def _vocab_size(views: tuple[Any, Any], given: int | None) -> int:
    """That of the logits; lists do not say it."""
    found = [view.shape[-1] for view in views if not isinstance(view, ListView)]
    if given is None:
        if not found:
            raise errors.InvalidInput("two top-k lists: pass vocab_size, the number of tokens that there are")
        return found[0]
    if found and found[0] != given:
        raise errors.ShapeError(f"vocab_size is {given}, the logits have {found[0]} entries")
    return int(c.real(given, "vocab_size"))


def _own_values(
    own: list[metrics.Metric], sides: tuple[arrays.View, arrays.View], is_logits: bool, mask: Any,
    layout: tuple[np.ndarray, np.ndarray],
) -> Callable[[int, dict], dict]:  # fmt: skip
    """What registered metrics say of a request, as a function of its place and fields."""
    if any(isinstance(view, ListView) for view in sides):
        raise errors.InvalidInput("registered metrics read logits or log-probs of both sides, not top-k lists")
    if sides[0].place is not None:
        raise errors.DeviceError("registered metrics read arrays in the host's memory; pass train.cpu() and infer.cpu()")
    flat = [_flat(view, is_logits) for view in sides]
    count = None if mask is None else truth(arrays.to_host(mask)).reshape(-1)

    def values(index: int, request: dict) -> dict:
        begin = int(layout[0][index])
        end = begin + int(layout[1][index])
        rows = flat[0][begin:end], flat[1][begin:end], None if count is None else count[begin:end]
        found = {}
        for metric in own:
            if metric.name in request:
                raise errors.InvalidInput(f"requests[{index}] has a field {metric.name!r}, which a registered metric computes")
            value = metrics.value_of(metric, request, rows)
            if value is not None:
                found[metric.name] = value
        return found

    return values


def _flat(view: arrays.View, is_logits: bool) -> np.ndarray:
    """The rows one after the other, in NumPy; what NumPy has no type for is widened."""
    owner = view.owner
    if hasattr(owner, "data_ptr"):
        known = str(owner.dtype) in ("torch.float32", "torch.float64", "torch.float16")
        owner = (owner if known else owner.float()).numpy()
    owner = np.asarray(owner)
    return owner.reshape(-1, owner.shape[-1]) if is_logits else owner.reshape(-1)


def _place(train: arrays.View, infer: arrays.View) -> arrays.Place | None:
    """Where both lie; None: in the host's memory. The stream is that of both, or the default one's."""
    if (train.place is None) != (infer.place is None):
        there, here = ("train", "infer") if infer.place is None else ("infer", "train")
        raise errors.DeviceError(f"{there} is on a CUDA device and {here} is not; put both on one device")
    if train.place is None or infer.place is None:
        return None
    if train.place.index != infer.place.index:
        raise errors.DeviceError(f"train is on device {train.place.index}, infer on {infer.place.index}; put both on one")
    if train.place.stream != infer.place.stream:
        raise errors.DeviceError("train and infer are ordered by two streams; let one wait for the other first")
    return train.place


def truth(mask: Any) -> np.ndarray:
    view = arrays.view(mask, "mask", arrays.MASKS, (1, 2))
    owner = view.owner.numpy() if hasattr(view.owner, "data_ptr") else view.owner
    if owner.dtype.kind == "f" and np.isnan(owner).any():
        place = tuple(int(each) for each in np.argwhere(np.isnan(owner))[0])
        raise errors.EvidenceError(f"the mask at {place} is nan: it must be 0, or not 0 where the token counts")
    return owner != 0


def _rows_apart(view: arrays.View, is_logits: bool) -> tuple[arrays.View, int]:
    """The view with rows at one stride; copied where a third dimension or padding prevents that."""
    if not is_logits:
        flat = len(view.shape) == 1 or view.shape[0] <= 1 or view.strides[0] == view.shape[1]
        return (view if flat else _contiguous(view)), 0
    vocab = view.shape[-1]
    # An axis of one entry has any stride, and an array with such an axis may call itself contiguous.
    axes = [(size, stride) for size, stride in zip(view.shape[:-1], view.strides[:-1]) if size != 1]
    if not axes or any(size == 0 for size, _ in axes):
        return view, vocab
    size, stride = axes[-1]
    if stride >= vocab and (len(axes) == 1 or axes[0][1] == stride * size):
        return view, stride
    return _contiguous(view), vocab


def _contiguous(view: arrays.View) -> arrays.View:
    """A copy, whatever the array says of itself: rows may overlap, or have the stride of an axis of one entry."""
    owner = view.owner
    if view.place is not None and not hasattr(owner, "data_ptr"):
        raise errors.ShapeError("logits on a device: rows must lie at one stride; pass a contiguous array")
    if hasattr(owner, "data_ptr"):
        import torch

        copy = owner.detach().clone(memory_format=torch.contiguous_format)
    else:
        copy = np.array(owner, order="C", copy=True)
    return arrays.view(copy, "array", ndim=(1, 2, 3), on_device=view.place is not None)


def _layout(outer: tuple, lengths: Any, rows: int) -> tuple[np.ndarray, np.ndarray]:
    if lengths is None:
        counts = np.array([rows] if len(outer) == 1 else [outer[1]] * outer[0], dtype=np.int64)
        first = np.concatenate([[0], np.cumsum(counts)[:-1]]) if len(counts) else counts
        return np.ascontiguousarray(first, dtype=np.int64), counts
    # A copy: what was checked here must not change before the rows are read.
    counts = np.array(arrays.column(lengths, "lengths", np.int64))
    if counts.size and counts.min() < 0:
        raise errors.InvalidInput("lengths must not be negative")
    if len(outer) == 2:
        if counts.size != outer[0] or (counts.size and counts.max() > outer[1]):
            raise errors.ShapeError(f"lengths: one for each of {outer[0]} rows, at most {outer[1]}")
        return np.arange(outer[0], dtype=np.int64) * outer[1], counts
    if int(counts.sum()) != rows:
        raise errors.ShapeError(f"lengths add up to {int(counts.sum())}, the arrays have {rows} rows")
    first = np.concatenate([[0], np.cumsum(counts)[:-1]]) if counts.size else counts
    return np.ascontiguousarray(first, dtype=np.int64), counts
