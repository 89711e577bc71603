"""Monitor: a contract watched over a training run, step by step.

Each call of `step` diagnoses the batch, judges it under the contract, and gives corrected weights
and a flat dict of metrics for W&B or TensorBoard. Under torch.distributed every rank gets the
verdict of all ranks together, from the same bytes as one rank with all rows would have. Threads may
share a monitor: every step gets a number of its own and is in the total.

Tensors may lie on a CUDA device. Log-probs are copied to the host, a few bytes a token; logits are
measured where they are (docs/gpu.md).
"""

from __future__ import annotations

import dataclasses
import math
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from . import _arrays as arrays
from . import _library as c
from . import errors, rl
from .contract import Contract
from .summary import Measurement, Report, Summary, begin_measure, judge, truth


@dataclasses.dataclass
class Step:
    """What one step amounts to."""

    number: int
    verdict: str  # of this step's evidence alone: satisfied, violated, inconclusive, error
    action: str  # what the contract orders: log, guard, freeze, fallback, rollback
    metrics: dict[str, float]  # "kcc/token/k3" …, ready to log
    report: Report | None  # under the contract
    judgements: list[dict[str, Any]]  # of the limits
    figures: dict[str, Any]  # rl diagnostics by slice, "" is everything
    weights: Any = None  # of the batch's shape; None without a correction
    mask: Any = None  # after rejection


class Monitor:
    """Watches the gap between trainer and rollout engine under a contract.

    `contract` is a Contract or a path; each clause's quantity is measured exactly. `limits` are
    figures at most so much, e.g. {"token.tv": 0.01} (docs/rl.md): cheaper by far, since they come
    with the diagnostics. Give either or both. `correction` is in canonical words (docs/rl.md), e.g.
    {"weight": {"mode": "truncate", "level": "token", "high": 2.0}}. `group` is a torch.distributed
    process group; by default the world if torch.distributed is initialised, `group=False` for none.
    `temperature` and `sampling_temperature` are those of `kcc.measure`: of the distributions, and of
    sampling where that differs; 0 where the tokens were not drawn from the whole distribution.
    `train_fingerprint` and `infer_fingerprint` name the two builds, e.g. "vllm-0.18 fp8": a contract
    that asks for `kernel_fingerprint` needs infer's.
    """

    def __init__(
        self,
        contract: Contract | str | os.PathLike | None = None,
        *,
        limits: dict[str, float] | None = None,
        correction: dict[str, Any] | None = None,
        prefix: str = "kcc/",
        group: Any = None,
        threads: int = 0,
        about: str | None = None,
        stage: str = "offline",
        temperature: float = 1.0,
        sampling_temperature: float | None = None,
        train_fingerprint: str = "",
        infer_fingerprint: str = "",
    ):
        if contract is None and limits is None:
            raise errors.InvalidInput("Monitor needs a contract or limits")
        if limits is not None and not isinstance(limits, Mapping):
            raise errors.DTypeError(f"limits is a {type(limits).__name__}; pass a dict such as {{\"token.tv\": 0.01}}")
        if contract is None and not limits:
            raise errors.InvalidInput("limits: none is given, and there is no contract to judge by")
        if not isinstance(prefix, str):
            raise errors.DTypeError(f"prefix is a {type(prefix).__name__}; pass a text")
        if contract is not None and not isinstance(contract, Contract):
            contract = Contract.read(contract)
        self.contract = contract
        self.limits = limits
        self.correction = correction
        self.prefix = prefix
        self.threads = c.thread_count(threads)
        self.steps = 0
        self.total = rl.RlSummary()  # of every step and rank so far
        self.summary: Summary | None = None  # of the last step, all ranks
        self._group = group
        self._lock = threading.Lock()  # of the three above
        self._judging = {"about": about, "stage": stage}
        self._sampling = {
            "temperature": c.real(temperature, "temperature"),
            "sampling_temperature": None
            if sampling_temperature is None
            else c.real(sampling_temperature, "sampling_temperature"),
        }
        self._names = {"train_fingerprint": train_fingerprint, "infer_fingerprint": infer_fingerprint}

    def step(
        self,
        train: Any,
        rollout: Any,
        mask: Any = None,
        *,
        advantages: Any = None,
        old: Any = None,
        tags: Sequence[Sequence[str]] | None = None,
        slices: Sequence[str] | None = None,
        ids: Sequence[str] | None = None,
        rewards: Any = None,
        fields: Mapping[str, Sequence[Any]] | None = None,
        logits: tuple[Any, Any] | None = None,
        tokens: Any = None,
    ) -> Step:
        """One batch [rows, columns] of log-probs. `slices` names a slice a row for the diagnostics; `tags`
        are what the contract's slices read (default: the row's slice). `advantages`, one per row or per token,
        are what slices on `token.advantage` read. `rewards` and `fields`, a value per row by name, are the
        requests' fields that slices and clauses read; `output_tokens` is up to the last token that counts, unless
        it is given. `ids` must be unique over ranks (default: rank and row). `logits` are both sides'
        [rows, columns, vocabulary]: the contract is then judged on them, with the sampled `tokens` if its clauses
        ask for them."""
        return self.begin(
            train, rollout, mask, advantages=advantages, old=old, tags=tags, slices=slices, ids=ids, rewards=rewards,
            fields=fields, logits=logits, tokens=tokens,
        ).finish()  # fmt: skip

    def begin(
        self,
        train: Any,
        rollout: Any,
        mask: Any = None,
        *,
        advantages: Any = None,
        old: Any = None,
        tags: Sequence[Sequence[str]] | None = None,
        slices: Sequence[str] | None = None,
        ids: Sequence[str] | None = None,
        rewards: Any = None,
        fields: Mapping[str, Sequence[Any]] | None = None,
        logits: tuple[Any, Any] | None = None,
        tokens: Any = None,
    ) -> PendingStep:
        """`step` in two parts. This one starts to measure logits on the device that holds them, and to copy
        what else lies there, and waits for neither; `finish` of what it returns gives the step. A trainer
        calls this after its forward pass and `finish` when the backward pass is under way. `mask` and
        `tokens` should be on the host: with logits they are needed at once, and copying them waits."""
        if logits is not None:
            mask = arrays.to_host(mask)
        copies = _Copies()
        given = {"train": train, "rollout": rollout, "mask": mask, "old": old, "advantages": advantages}
        host = {name: copies.start(value) for name, value in given.items()}
        batch = None
        shape = tuple(train.shape) if arrays.is_cuda(train) else ()
        if len(shape) != 2:
            copies.wait()
            batch = rl.Batch(**host, slices=slices)
            shape = batch.shape
        rows = shape[0]
        if tags is None and slices is not None:
            tags = [[name] for name in slices]
        tags = None if tags is None else _tags(tags, rows)
        ids = None if ids is None else _ids(ids, rows)
        fields = _fields(fields, rewards, rows)
        if logits is None and tokens is not None:
            raise errors.InvalidInput("tokens: they are read with logits alone")
        measure = None
        if logits is not None:
            if self.contract is None:
                raise errors.InvalidInput("logits are judged under a contract, and the monitor has none")
            pair = _logits(logits, shape)
            about = _Rows(shape, mask, arrays.to_host(advantages), ids, tags, fields)
            measure = self._begin(*pair, about, logits=True, tokens=tokens).finish
        elif self.contract is not None:
            # The copies have arrived when this is called.
            about = _Rows(shape, host["mask"], host["advantages"], ids, tags, fields)
            measure = lambda: self._begin(host["train"], host["rollout"], about).finish()  # noqa: E731
        # A batch may convert what it is given, so it is made of copies that have arrived.
        make = lambda: batch if batch is not None else rl.Batch(**host, slices=slices)  # noqa: E731
        return PendingStep(self, copies, make, measure)

    def _finish(
        self, copies: _Copies, make: Callable[[], rl.Batch], measure: Callable[[], Summary] | None
    ) -> Step:
        copies.wait()
        batch = make()
        summary = None if measure is None else measure()
        corrected = None
        if self.correction is None:
            diagnostics = rl.RlSummary().add(batch, threads=self.threads)
        else:
            diagnostics, corrected = rl.step_batch(batch, self.correction, threads=self.threads)
        summary, diagnostics = self._gather(summary, diagnostics)

        report = None if summary is None else judge(self.contract, summary, **self._judging)
        judgements = [] if self.limits is None else diagnostics.judge(self.limits)
        figures = diagnostics.figures()
        with self._lock:
            self.summary = summary
            self.total.merge(diagnostics)
            self.steps += 1
            number = self.steps
        return Step(
            number=number,
            verdict=_worst(report, judgements),
            action="log" if report is None else report.action,
            metrics=self._metrics(report, judgements, figures, corrected),
            report=report,
            judgements=judgements,
            figures=figures,
            weights=None if corrected is None else copies.back(corrected.weights),
            mask=None if corrected is None else copies.back(corrected.mask),
        )

    def _begin(self, train: Any, rollout: Any, about: _Rows, **more: Any) -> Measurement:
        rank, _ = self._world()
        lengths = about.lengths()
        return begin_measure(
            train, rollout, self.contract, mask=about.mask, advantages=about.token_advantages(), lengths=lengths,
            requests=about.requests(rank, lengths), clauses_only=True, threads=self.threads,
            **self._sampling, **self._names, **more,
        )  # fmt: skip

    def _metrics(
        self, report: Report | None, judgements: list, figures: dict[str, Any], corrected: rl.Corrected | None
    ) -> dict[str, float]:
        metrics: dict[str, float] = {}
        if report is not None:
            metrics[f"{self.prefix}health"] = float(report.health)
            metrics[f"{self.prefix}convergent"] = float(report.convergent)
        metrics.update(_verdict_metrics(self.prefix, _worst(report, judgements)))
        for each in judgements:
            metrics.update(_verdict_metrics(f"{self.prefix}limit/{each['figure']}/", each["outcome"]))
        for clause in [] if report is None else report.clauses:
            for row in clause["slices"]:
                name = f"{self.prefix}clause/{clause['id']}/{row['slice']}"
                metrics.update(_verdict_metrics(f"{name}/", row["verdict"]))
                if isinstance(row.get("value"), (int, float)):
                    metrics[f"{name}/value"] = float(row["value"])
        for slice_name, values in figures.items():
            where = f"{self.prefix}{slice_name}/" if slice_name else self.prefix
            metrics.update(_flatten(values, where))
        if corrected is not None:
            metrics.update(_flatten(corrected.figures[0], f"{self.prefix}correction/"))
        return metrics

    def _world(self) -> tuple[int, Any]:
        """This rank and the group, or (0, None) without torch.distributed."""
        if self._group is False:
            return 0, None
        try:
            import torch.distributed as distributed
        except ImportError:
            return 0, None
        if not distributed.is_available() or not distributed.is_initialized():
            return 0, None
        return distributed.get_rank(self._group), distributed

    def _gather(self, summary: Summary | None, diagnostics: rl.RlSummary) -> tuple[Summary | None, rl.RlSummary]:
        _, distributed = self._world()
        if distributed is None:
            return summary, diagnostics
        parts: list[Any] = [None] * distributed.get_world_size(self._group)
        mine = (None if summary is None else summary.to_bytes(), diagnostics.to_bytes())
        distributed.all_gather_object(parts, mine, group=self._group)
        summary = None if summary is None else Summary.from_bytes(parts[0][0])
        diagnostics = rl.RlSummary.from_bytes(parts[0][1])
        for measured, diagnosed in parts[1:]:
            if summary is not None:
                summary.merge(Summary.from_bytes(measured))
            diagnostics.merge(rl.RlSummary.from_bytes(diagnosed))
        return summary, diagnostics


class _Copies:
    """Copies of a step's CUDA tensors in the host's memory, on their way until `wait` has returned."""

    def __init__(self) -> None:
        self.device: Any = None
        self.events: list[Any] = []

    def start(self, value: Any) -> Any:
        """The value itself where it is on the host already."""
        if not arrays.is_cuda(value):
            return value
        import torch

        self.device = value.device
        copy = torch.empty(value.shape, dtype=value.dtype, pin_memory=True)
        with torch.cuda.device(value.device):
            copy.copy_(value.detach(), non_blocking=True)
            event = torch.cuda.Event()
            event.record()
        self.events.append(event)
        return copy

    def wait(self) -> None:
        for event in self.events:
            event.synchronize()

    def back(self, value: Any) -> Any:
        """To the device that the step came from."""
        there = self.device is not None and hasattr(value, "data_ptr")
        return value.to(self.device, non_blocking=True) if there else value


class PendingStep:
    """A step that was begun (Monitor.begin). Keeps its tensors; nobody may change them before `finish`."""

    def __init__(self, monitor: Monitor, *parts: Any):
        self._monitor = monitor
        self._parts: tuple | None = parts

    def finish(self) -> Step:
        """Waits for what was begun and gives the step, once."""
        parts, self._parts = self._parts, None
        if parts is None:
            raise errors.InvalidInput("the step has been finished before")
        return self._monitor._finish(*parts)


def _logits(logits: Any, shape: tuple) -> tuple[Any, Any]:
    if not isinstance(logits, (list, tuple)) or len(logits) != 2:
        raise errors.DTypeError("logits: pass a pair (train, infer) of arrays [rows, columns, vocabulary]")
    for side, of_side in zip(("train", "infer"), logits):
        arrays.dimensions(of_side, f"the {side} logits")
        its = tuple(of_side.shape)
        if len(its) != 3 or its[:2] != tuple(shape):
            raise errors.ShapeError(f"the {side} logits have shape {its}; they must have {shape} and the vocabulary")
    return logits[0], logits[1]


def _tags(tags: Any, rows: int) -> list[list[str]]:
    tags = c.row_list(tags, "tags", "a list of texts")
    if len(tags) != rows:
        raise errors.ShapeError(f"tags: {len(tags)} lists for {rows} rows")
    for row, each in enumerate(tags):
        if isinstance(each, (str, bytes)) or not isinstance(each, Iterable):
            raise errors.DTypeError(f"tags: row {row} has a {type(each).__name__}; pass a list of texts for each")
        tags[row] = list(each)
        if not all(isinstance(tag, str) for tag in tags[row]):
            raise errors.DTypeError(f"tags: row {row} holds something other than texts")
    return tags


def _ids(ids: Any, rows: int) -> list[str]:
    ids = c.row_list(ids, "ids", "a text")
    if len(ids) != rows:
        raise errors.ShapeError(f"ids: {len(ids)} for {rows} rows")
    return ids


def _fields(fields: Any, rewards: Any, rows: int) -> dict[str, list[Any]]:
    """A list of `rows` plain values by name; None where a row has none."""
    if fields is not None and not isinstance(fields, Mapping):
        raise errors.DTypeError(f"fields is a {type(fields).__name__}; pass a dict of lists, a value for each row")
    given = dict(fields or {})
    if rewards is not None:
        if "reward" in given:
            raise errors.InvalidInput("fields has a \"reward\", and rewards are given too")
        given["reward"] = rewards
    for reserved in ("id", "tags"):
        if reserved in given:
            raise errors.InvalidInput(f"fields: pass {reserved!r} as `{'ids' if reserved == 'id' else 'tags'}`")
    for name, values in given.items():
        values = arrays.to_host(values)
        if hasattr(values, "tolist"):
            values = values.tolist()
        values = c.row_list(values, f"fields[{name!r}]", "a value")
        if len(values) != rows:
            raise errors.ShapeError(f"fields[{name!r}]: {len(values)} values for {rows} rows")
        given[name] = [_plain(value) for value in values]
    return given


def _plain(value: Any) -> Any:
    """A scalar of NumPy or torch as Python's; None for nan, which frameworks write for "none"."""
    value = value.item() if hasattr(value, "item") else value
    return None if isinstance(value, float) and math.isnan(value) else value


@dataclasses.dataclass
class _Rows:
    """What is known of a batch's rows beside the two sides' numbers."""

    shape: tuple
    mask: Any
    advantages: Any
    ids: list[str] | None
    tags: list[list[str]] | None
    fields: dict[str, list[Any]]

    def lengths(self) -> np.ndarray:
        """Tokens up to the last that counts: what follows is padding, and no output."""
        if self.mask is None:
            return np.full(self.shape[0], self.shape[1], dtype=np.int64)
        counts = truth(self.mask).reshape(self.shape[0], -1)
        last = counts.shape[1] - np.argmax(counts[:, ::-1], axis=1) if counts.shape[1] else np.zeros(len(counts))
        return np.where(counts.any(axis=1), last, 0).astype(np.int64)

    def token_advantages(self) -> np.ndarray | None:
        """One per token, as slices read them."""
        if self.advantages is None:
            return None
        values = arrays.column(self.advantages, "advantages", np.float32)
        if values.size == self.shape[0]:
            values = np.repeat(values, self.shape[1])
        if values.size != self.shape[0] * self.shape[1]:
            raise errors.ShapeError(f"advantages: {values.size} for {self.shape[0]} rows of {self.shape[1]} tokens")
        return values

    def requests(self, rank: int, lengths: np.ndarray) -> list[dict[str, Any]]:
        made = []
        for row in range(self.shape[0]):
            request = {
                "id": f"{rank:06d}-{row:08d}" if self.ids is None else self.ids[row],
                "output_tokens": int(lengths[row]),
            }
            if self.tags is not None:
                request["tags"] = self.tags[row]
            request |= {name: values[row] for name, values in self.fields.items() if values[row] is not None}
            made.append(request)
        return made


_ORDER = ("violated", "error", "inconclusive", "satisfied")


def _verdict_metrics(where: str, verdict: str) -> dict[str, float]:
    """One curve for each verdict, 1 where it is that one: a missing 1 of `satisfied` says too little."""
    return {f"{where}{name}": float(verdict == name) for name in _ORDER if name != "error" or verdict == "error"}


def _worst(report: Report | None, judgements: list) -> str:
    verdicts = [each["outcome"] for each in judgements]
    if report is not None:
        verdicts.append(report.verdict)
    return min(verdicts, key=_ORDER.index)


def _flatten(values: Any, where: str) -> dict[str, float]:
    flat: dict[str, float] = {}
    for key, value in values.items():
        if isinstance(value, bool):
            flat[where + key] = float(value)
        elif isinstance(value, (int, float)):
            flat[where + key] = float(value)
        elif isinstance(value, dict):
            flat.update(_flatten(value, f"{where}{key}/"))
    return flat
