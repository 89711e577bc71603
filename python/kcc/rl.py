"""RL diagnostics, corrections, lint and replay on NumPy arrays and PyTorch tensors.

`train` and `rollout` are log-probs of the same sampled tokens: padded [rows, columns] with a mask,
or packed [tokens] with offsets (cu_seqlens). Nothing is copied. w = exp(train - rollout).
"""

from __future__ import annotations

import ctypes
import functools
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from . import _arrays as arrays
from . import _library as c
from . import errors


class Batch:
    """The arrays of one step, checked."""

    def __init__(
        self,
        train: Any,
        rollout: Any,
        mask: Any = None,
        *,
        old: Any = None,
        advantages: Any = None,
        offsets: Any = None,
        slices: Sequence[str] | None = None,
    ):
        ndim = (2,) if offsets is None else (1,)
        train_view = arrays.view(train, "train", arrays.LOGPROBS, ndim)
        self.shape = train_view.shape
        self._like = train
        self._mask = mask
        self._keep: list[Any] = [train_view]
        call = c.RlBatch(struct_size=ctypes.sizeof(c.RlBatch))
        if offsets is None:
            call.rows, call.columns = self.shape
        else:
            column = arrays.column(offsets, "offsets", np.int64)
            if column.size < 1 or column[0] != 0 or column[-1] != self.shape[0] or (np.diff(column) < 0).any():
                raise errors.ShapeError(f"offsets must rise from 0 to {self.shape[0]}, the number of tokens")
            self._keep.append(column)
            call.rows, call.columns = column.size - 1, 0
            call.offsets = column.ctypes.data
        call.train = self._array(train_view)
        for field, value, allowed in (
            ("rollout", rollout, arrays.LOGPROBS),
            ("old_logprobs", old, arrays.LOGPROBS),
            ("mask", mask, arrays.MASKS),
        ):
            if value is None:
                if field == "rollout":
                    raise errors.InvalidInput("rollout: log-probs of the engine that sampled are needed")
                continue
            view = arrays.view(value, field, allowed, ndim)
            arrays.same_shape(train_view, "train", view, field)
            self._keep.append(view)
            setattr(call, field, self._array(view))
        if advantages is not None:
            self._take_advantages(call, advantages, ndim)
        if slices is not None:
            self._take_slices(call, slices)
        self.call = call

    @staticmethod
    def _array(view: arrays.View) -> c.Array:
        return view.array(view.strides[0] if len(view.shape) == 2 and view.shape[0] > 1 else 0)

    def _take_advantages(self, call: c.RlBatch, advantages: Any, ndim: tuple) -> None:
        view = arrays.view(advantages, "advantages", arrays.LOGPROBS, (1, 2))
        per_row = view.shape == (call.rows,) or view.shape == (call.rows, 1)
        if not per_row and view.shape != self.shape:
            raise errors.ShapeError(
                f"advantages have shape {view.shape}; they must have {(call.rows,)} or {self.shape}"
            )
        self._keep.append(view)
        call.advantage_per_row = int(per_row)
        stride = view.strides[0] if view.shape and view.shape[0] > 1 else 1
        call.advantages = view.array(max(stride, 1)) if per_row else self._array(view)

    def _take_slices(self, call: c.RlBatch, slices: Sequence[str]) -> None:
        slices = c.row_list(slices, "slices", "a name")
        if len(slices) != call.rows:
            raise errors.ShapeError(f"slices: {len(slices)} names for {call.rows} rows")
        if not all(isinstance(name, str) for name in slices):
            raise errors.DTypeError("slices: every row needs a text")
        names = sorted(set(slices))
        for name in names:
            if not name or "\0" in name or any("\ud800" <= letter <= "\udfff" for letter in name):
                row = slices.index(name)
                raise errors.InvalidInput(f"slices: the name of row {row}, {name!r}, is empty or not a plain text")
        index = {name: number for number, name in enumerate(names)}
        numbers = np.array([index[name] for name in slices], dtype=np.int32)
        encoded = (ctypes.c_char_p * len(names))(*[name.encode() for name in names])
        self._keep += [numbers, encoded]
        call.slice_of_row = numbers.ctypes.data
        call.slice_names = ctypes.cast(encoded, ctypes.POINTER(ctypes.c_char_p))
        call.slice_count = len(names)

    def _empty_like(self, dtype: Any) -> tuple[Any, int]:
        """An array of the batch's shape, of the caller's kind, and its address."""
        if hasattr(self._like, "data_ptr"):
            import torch

            out = torch.empty(self.shape, dtype=torch.float32 if dtype is np.float32 else torch.bool)
            return out, out.data_ptr()
        out = np.empty(self.shape, dtype=dtype)
        return out, out.ctypes.data

    def _checked_out(self, out: Any, name: str, allowed: tuple) -> tuple[Any, int]:
        """The caller's array for a result, and its address."""
        view = arrays.view(out, name, allowed, (len(self.shape),))
        if view.shape != self.shape:
            raise errors.ShapeError(f"{name} has shape {view.shape}, train has {self.shape}")
        adjacent = tuple(int(np.prod(self.shape[axis + 1 :])) for axis in range(len(self.shape)))
        wrong = [axis for axis, size in enumerate(self.shape) if size > 1 and view.strides[axis] != adjacent[axis]]
        if wrong or (view.owner is not out and not hasattr(out, "data_ptr")):
            raise errors.InvalidInput(f"{name}: the elements must be adjacent, as in an array just made")
        if isinstance(out, np.ndarray) and not out.flags.writeable:
            raise errors.InvalidInput(f"{name} is read-only")
        return out, view.pointer

    def _valid(self) -> Any:
        """The mask as given, as an array of bools of the caller's kind."""
        if hasattr(self._like, "data_ptr"):
            import torch

            if self._mask is None:
                return torch.ones(self.shape, dtype=torch.bool)
            return torch.as_tensor(self._mask) != 0
        return np.ones(self.shape, np.bool_) if self._mask is None else np.asarray(self._mask) != 0


_NUMBERS = {"nan": float("nan"), "-nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_finite(each) for each in value]
    return _NUMBERS.get(value, value) if isinstance(value, str) else value


def _loads(text: bytes) -> Any:
    """JSON has no nan or inf: kcc writes them as texts."""
    value = json.loads(text)
    return _finite(value) if b'nan"' in text or b'inf"' in text else value


class RlSummary(c.Owned):
    """Exact diagnostics of many steps and ranks; merging gives the same bytes in any order."""

    kind = "rl_summary"
    changes = True

    def __init__(self, raw: ctypes.c_void_p | None = None):
        super().__init__(c.handle("kcc_rl_summary_new") if raw is None else raw)

    @classmethod
    def from_bytes(cls, data: bytes) -> RlSummary:
        data = c.data_bytes(data)
        return cls(c.handle("kcc_rl_summary_decode", data, len(data)))

    def to_bytes(self) -> bytes:
        return c.text("kcc_rl_summary_encode", self)

    def add(self, batch: Batch, *, threads: int = 0) -> RlSummary:
        c.instance(batch, Batch, "batch")
        c.call("kcc_rl_summary_add", self, ctypes.byref(batch.call), c.thread_count(threads))
        return self

    def merge(self, other: RlSummary) -> RlSummary:
        c.call("kcc_rl_summary_merge", self, c.instance(other, RlSummary, "other"))
        return self

    def figures(self, confidence: float = 0.95) -> dict[str, dict[str, Any]]:
        """Figures of everything under "", then by slice (docs/rl.md)."""
        return _loads(c.text("kcc_rl_summary_figures", self, c.real(confidence, "confidence")))

    def judge(self, limits: dict[str, float], confidence: float = 0.95) -> list[dict[str, Any]]:
        """Figures against limits, e.g. {"token.tv": 0.01}: satisfied, violated or inconclusive, and why."""
        text = c.text("kcc_rl_summary_judge", self, c.json_bytes(limits, "limits"), c.real(confidence, "confidence"))
        return _loads(text)

    def __reduce__(self):
        return (RlSummary.from_bytes, (self.to_bytes(),))


def diagnose(train: Any, rollout: Any, mask: Any = None, *, confidence: float = 0.95, threads: int = 0, **more: Any) -> dict[str, Any]:
    """Canonical diagnostics of one batch. `more`: old, advantages, offsets, slices (see Batch).

    >>> import numpy as np
    >>> rollout = np.full((4, 8), -1.0); figures = diagnose(rollout + 0.01, rollout)
    >>> round(figures["token"]["k1"], 6), figures["tokens"]
    (-0.01, 32)
    """
    figures = RlSummary().add(Batch(train, rollout, mask, **more), threads=threads).figures(confidence)
    whole = figures.pop("")
    if figures:
        whole["slices"] = figures
    return whole


class Corrected:
    """Weights and the mask after rejection, of the batch's shape, and what they do.

    Without rejection and veto the mask is the batch's own: it is made when first asked for, so that
    the weights are the one array that a step needs beside the caller's. Figures likewise are read
    from the library's text then.
    """

    def __init__(self, weights: Any, mask: Any, figures: bytes):
        self.weights = weights
        self._mask = mask
        self._text = figures

    @functools.cached_property
    def figures(self) -> Any:
        return _loads(self._text)

    @property
    def mask(self) -> Any:
        if callable(self._mask):
            self._mask = self._mask()
        return self._mask


def _correction_text(correction: dict[str, Any] | str) -> tuple[bytes, bool]:
    """The JSON, and whether it may reject."""
    if isinstance(correction, str):
        text = correction
        try:
            correction = json.loads(text)
        except ValueError:
            correction = {}  # the library says what is wrong
        encoded = c.encode(text, "correction")
    else:
        encoded = c.json_bytes(correction, "correction")
    rejects = not isinstance(correction, dict) or bool(correction.get("reject")) or correction.get("veto") is not None
    return encoded, rejects


def _run(name: str, first: tuple, batch: Batch, correction: dict[str, Any] | str, threads: int, out: Any) -> Corrected:
    c.instance(batch, Batch, "batch")
    text, rejects = _correction_text(correction)
    if out is not None and not (isinstance(out, (tuple, list)) and len(out) == 2):
        raise errors.InvalidInput("out: pass a pair, arrays for the weights and the mask, either of them None")
    given_weights, given_mask = (None, None) if out is None else out
    if given_weights is None:
        weights, weights_at = batch._empty_like(np.float32)
    else:
        weights, weights_at = batch._checked_out(given_weights, "out[0]", (arrays.F32,))
    kept: Any = batch._valid
    kept_at: int | None = None
    if given_mask is not None:
        kept, kept_at = batch._checked_out(given_mask, "out[1]", (arrays.U8,))
    elif rejects:
        kept, kept_at = batch._empty_like(np.bool_)
    figures = c.text(name, *first, ctypes.byref(batch.call), text, c.thread_count(threads), weights_at, kept_at)
    return Corrected(weights, kept, figures)


def correct(
    train: Any,
    rollout: Any,
    mask: Any = None,
    *,
    correction: dict[str, Any] | str,
    out: tuple[Any, Any] | None = None,
    threads: int = 0,
    **more: Any,
) -> Corrected:
    """Applies a correction in canonical words, e.g. {"weight": {"mode": "truncate", "high": 2}}.

    `out`: arrays to write weights (float32) and mask (bool or uint8) into, either of them None. The
    mask may be the one given: it is then updated in place.
    """
    return correct_batch(Batch(train, rollout, mask, **more), correction, threads, out)


def correct_batch(
    batch: Batch, correction: dict[str, Any] | str, threads: int = 0, out: tuple[Any, Any] | None = None
) -> Corrected:
    return _run("kcc_rl_correct", (), batch, correction, threads, out)


def step(
    train: Any,
    rollout: Any,
    mask: Any = None,
    *,
    correction: dict[str, Any] | str,
    summary: RlSummary | None = None,
    out: tuple[Any, Any] | None = None,
    threads: int = 0,
    **more: Any,
) -> tuple[RlSummary, Corrected]:
    """Diagnoses (into `summary`, or a new one) and corrects in one visit of the arrays; `out` as in
    `correct`. Beside the weights nothing of the batch's size is made.

    >>> import numpy as np
    >>> rollout = np.full((4, 8), -1.0)
    >>> summary, corrected = step(rollout + 0.1, rollout, correction={"weight": {"mode": "truncate", "high": 1.05}})
    >>> summary.figures()[""]["tokens"], round(float(corrected.weights.max()), 3), bool(corrected.mask.all())
    (32, 1.05, True)
    """
    return step_batch(Batch(train, rollout, mask, **more), correction, summary, threads, out)


def step_batch(
    batch: Batch,
    correction: dict[str, Any] | str,
    summary: RlSummary | None = None,
    threads: int = 0,
    out: tuple[Any, Any] | None = None,
) -> tuple[RlSummary, Corrected]:
    summary = RlSummary() if summary is None else c.instance(summary, RlSummary, "summary")
    return summary, _run("kcc_rl_step", (summary,), batch, correction, threads, out)


class Dump(Mapping):
    """The arrays of a step read from files, under the names of `Batch`: a mapping, so that
    `diagnose(**dump)` works. The arrays are float64 views of memory that the dump's owner keeps."""

    def __init__(self, owner: Any, found: dict[str, Any]):
        self._owner = owner
        self._found = found

    def __getitem__(self, name: str) -> Any:
        return self._found[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def __repr__(self) -> str:
        shapes = ", ".join(f"{name} {getattr(value, 'shape', len(value))}" for name, value in self._found.items())
        return f"<kcc.rl.Dump: {shapes}>"


class _DumpHandle(c.Owned):
    kind = "rl_dump"

    def floats(self, array: c.Array, shape: tuple[int, ...]) -> np.ndarray:
        size = int(np.prod(shape))
        if size == 0:
            return np.empty(shape)
        memory = (ctypes.c_double * size).from_address(array.data)
        memory.owner = self  # the array keeps the memory, the memory the dump
        return np.ctypeslib.as_array(memory).reshape(shape)


def read_dump(*paths: str | os.PathLike, slice_by: str | None = None) -> Dump:
    """Reads a step from files as trainers dump them (docs/rl.md): .npz, .npy, .safetensors, .pt,
    .jsonl, directories of prime-rl token exports, or two traces, train then infer, which
    `slice_by` slices by a request field.

        dump = kcc.rl.read_dump("step.pt")
        kcc.rl.diagnose(**dump)
    """
    encoded = [c.path_bytes(path, "a path") for path in paths]
    texts = (ctypes.c_char_p * max(1, len(encoded)))(*encoded)
    owner = _DumpHandle(c.handle("kcc_rl_dump_read", texts, len(encoded), c.encode(slice_by, "slice_by")))
    call = c.RlBatch(struct_size=ctypes.sizeof(c.RlBatch))
    c.call("kcc_rl_dump_batch", owner, ctypes.byref(call))
    shape: tuple[int, ...] = (call.rows, call.columns)
    found: dict[str, Any] = {}
    offsets = None
    if call.offsets:
        offsets = np.ctypeslib.as_array((ctypes.c_int64 * (call.rows + 1)).from_address(call.offsets)).copy()
        shape = (int(offsets[-1]),)
    for name, array in (("train", call.train), ("rollout", call.rollout), ("mask", call.mask), ("old", call.old_logprobs)):
        if array.data:
            found[name] = owner.floats(array, shape)
    found.setdefault("train", np.empty(shape))  # a dump of no tokens
    found.setdefault("rollout", np.empty(shape))
    if call.advantages.data:
        found["advantages"] = owner.floats(call.advantages, (call.rows,) if call.advantage_per_row else shape)
    if offsets is not None:
        found["offsets"] = offsets
    if call.slice_of_row:
        numbers = (ctypes.c_int32 * call.rows).from_address(call.slice_of_row)
        found["slices"] = [call.slice_names[number].decode("utf-8", "replace") for number in numbers]
    return Dump(owner, found)


def lint(
    train: Any,
    rollout: Any,
    mask: Any = None,
    *,
    correction: dict[str, Any] | str | None = None,
    threads: int = 0,
    **more: Any,
) -> dict[str, Any]:
    """Names the semantic fault behind a gap, with its evidence (docs/rl-lint.md): "unsure" with its "candidates"
    where the tokens do not tell. With a correction also what is vacuous in its settings, under "settings"."""
    batch = Batch(train, rollout, mask, **more)
    if correction is not None:
        text, _ = _correction_text(correction)
        return _loads(c.text("kcc_rl_lint_correction", ctypes.byref(batch.call), text, c.thread_count(threads)))
    return _loads(c.text("kcc_rl_lint", ctypes.byref(batch.call)))


def replay(train: Any, rollout: Any, mask: Any = None, *, format: str = "json", threads: int = 0, **more: Any) -> Any:
    """Runs the batch through every correction; `format="html"` gives a page (docs/rl-replay.md)."""
    batch = Batch(train, rollout, mask, **more)
    if not isinstance(format, str) or format not in ("json", "html"):
        raise errors.InvalidInput(f"format is {format!r}; it can be \"json\" or \"html\"")
    text = c.text("kcc_rl_replay", ctypes.byref(batch.call), c.thread_count(threads), format.encode())
    return _loads(text) if format == "json" else text.decode()


class Dialect(c.Owned):
    """What a framework's own function gives: its metrics by its names, its arrays."""

    kind = "rl_dialect"

    def __init__(self, name: str, batch: Batch, options: dict[str, Any] | None = None, function: str | None = None):
        c.instance(batch, Batch, "batch")
        raw = c.handle(
            "kcc_rl_dialect_run",
            c.encode(name, "dialect"),
            c.encode(function, "function"),
            ctypes.byref(batch.call),
            None if options is None else c.json_bytes(options, "options"),
        )
        super().__init__(raw)

    @property
    def metrics(self) -> dict[str, float]:
        return _loads(c.text("kcc_rl_dialect_metrics", self))

    def array(self, name: str) -> list[np.ndarray]:
        """The rows of an array the function returns ("weights", "mask" …), copied."""
        values, offsets, rows = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_int64()
        c.call("kcc_rl_dialect_array", self, c.encode(name, "name"), ctypes.byref(values), ctypes.byref(offsets), ctypes.byref(rows))
        edges = np.ctypeslib.as_array(ctypes.cast(offsets, ctypes.POINTER(ctypes.c_int64)), (rows.value + 1,))
        if edges[-1] == 0:
            return [np.empty(0)] * rows.value
        flat = np.ctypeslib.as_array(ctypes.cast(values, ctypes.POINTER(ctypes.c_double)), (int(edges[-1]),))
        return [flat[edges[row] : edges[row + 1]].copy() for row in range(rows.value)]


def dialect(name: str, train: Any, rollout: Any, mask: Any = None, *, options: dict[str, Any] | None = None, function: str | None = None, **more: Any) -> Dialect:
    """Runs a framework's own diagnostics and correction: verl, trl, openrlhf, … (docs/rl-dialects.md)."""
    return Dialect(name, Batch(train, rollout, mask, **more), options, function)
