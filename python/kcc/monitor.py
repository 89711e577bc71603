"""Monitor: a contract watched over a training run, step by step.

Each call of `step` diagnoses the batch, judges it under the contract, and gives corrected weights
and a flat dict of metrics for W&B or TensorBoard. Under torch.distributed every rank gets the
verdict of all ranks together, from the same bytes as one rank with all rows would have. Threads may
share a monitor: every step gets a number of its own and is in the total.

With a monitor policy (docs/monitor.md) the rows of all steps are one stream, too: changes that no single
step shows raise alarms. A step's verdict stays that of its own evidence.

Tensors may lie on a CUDA device. Log-probs are copied to the host, a few bytes a token; logits are
measured where they are (docs/gpu.md).
"""

from __future__ import annotations

import dataclasses
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from . import _arrays as arrays
from . import _library as c
from . import errors, rl
from ._step_rows import StepRows, fields_of, ids_of, sessions_of, tags_of
from .contract import Contract
from .observations import Row, StepWatch, Watched
from .online import MonitorPolicy, OnlineMonitor
from .summary import Measurement, Report, Summary, begin_measure, judge


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
    # With a policy, from all steps so far; they change nothing above.
    alarms: list[dict[str, Any]] = dataclasses.field(default_factory=list)  # "clause", "slice", "reason" …
    guarded: bool = False  # whether the kernel must not serve until evidence releases it
    serves: str | None = None  # the kernel that serves from now on; None: none does


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

    `policy` is a MonitorPolicy or a path: every row of a step is then an audited request of `kernel`, one of
    the policy (default: its only one of role infer), and a step has `alarms`, `guarded` and `serves`.
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
        policy: MonitorPolicy | str | os.PathLike | None = None,
        kernel: str | None = None,
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
        self._watch: StepWatch | None = None
        if policy is not None:
            if self.contract is None:
                raise errors.InvalidInput("policy: what is watched are the clauses of a contract, and there is none")
            self._policy = policy if isinstance(policy, MonitorPolicy) else MonitorPolicy.read(policy)
            self._watch = StepWatch(OnlineMonitor(self.contract, self._policy, stage=stage), kernel)
        elif kernel is not None:
            raise errors.InvalidInput("kernel: kernels are those of a policy, and there is none")

    @property
    def online(self) -> OnlineMonitor | None:
        """What watches the rows of all steps; None without a policy."""
        return None if self._watch is None else self._watch.online

    def state(self) -> dict[str, Any]:
        """For a checkpoint: plain values and bytes. A monitor made with the same arguments restores it."""
        with self._lock:
            online = None if self.online is None else self.online.save()
            return {"steps": self.steps, "total": self.total.to_bytes(), "online": online}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continues where `state` was taken; on failure nothing has changed."""
        if not isinstance(state, Mapping) or not {"steps", "total", "online"} <= state.keys():
            raise errors.DTypeError("state: pass what Monitor.state() gave")
        if (state["online"] is None) != (self._watch is None):
            raise errors.InvalidInput("state: taken with a policy and restored without, or the other way round")
        steps, total = c.integer(state["steps"], "steps"), rl.RlSummary.from_bytes(state["total"])
        watch = None
        if self._watch is not None:
            online = OnlineMonitor.restore(self.contract, self._policy, state["online"], stage=self._judging["stage"])
            watch = StepWatch(online, self._watch.kernel)
        with self._lock:
            self.steps, self.total, self._watch = steps, total, watch

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
        sessions: Sequence[Any] | None = None,
        time_ms: int | None = None,
        kernel: str | None = None,
    ) -> Step:
        """One batch [rows, columns] of log-probs. `slices` names a slice a row for the diagnostics; `tags`
        are what the contract's slices read (default: the row's slice). `advantages`, one per row or per token,
        are what slices on `token.advantage` read. `rewards` and `fields`, a value per row by name, are the
        requests' fields that slices and clauses read; `output_tokens` is up to the last token that counts, unless
        it is given. `ids` must be unique over ranks (default: rank and row). `logits` are both sides'
        [rows, columns, vocabulary]: the contract is then judged on them, with the sampled `tokens` if its clauses
        ask for them.

        With a policy: `sessions` names the prompt of each row. Samples of one prompt are alike, and of one
        session one row counts in the policy's epoch; without it every row is taken to be independent of the others.
        `time_ms` is the time of the step, by default its number in seconds; `kernel` is who sampled, where that is
        not the monitor's."""
        return self.begin(
            train, rollout, mask, advantages=advantages, old=old, tags=tags, slices=slices, ids=ids, rewards=rewards,
            fields=fields, logits=logits, tokens=tokens, sessions=sessions, time_ms=time_ms, kernel=kernel,
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
        sessions: Sequence[Any] | None = None,
        time_ms: int | None = None,
        kernel: str | None = None,
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
        tags = None if tags is None else tags_of(tags, rows)
        ids = None if ids is None else ids_of(ids, rows)
        fields = fields_of(fields, rewards, rows)
        sessions = None if sessions is None else sessions_of(sessions, rows)
        stream = self._stream(sessions, time_ms, kernel)
        if logits is None and tokens is not None:
            raise errors.InvalidInput("tokens: they are read with logits alone")
        measure = None
        if logits is not None:
            if self.contract is None:
                raise errors.InvalidInput("logits are judged under a contract, and the monitor has none")
            pair = _logits(logits, shape)
            about = StepRows(shape, mask, arrays.to_host(advantages), ids, tags, fields)
            begun = self._begin(*pair, about, logits=True, tokens=tokens)
            measure = lambda: self._measured(begun, rows, sessions)  # noqa: E731
        elif self.contract is not None:
            # The copies have arrived when this is called.
            about = StepRows(shape, host["mask"], host["advantages"], ids, tags, fields)
            measure = lambda: self._measured(  # noqa: E731
                self._begin(host["train"], host["rollout"], about), rows, sessions
            )
        # A batch may convert what it is given, so it is made of copies that have arrived.
        make = lambda: batch if batch is not None else rl.Batch(**host, slices=slices)  # noqa: E731
        return PendingStep(self, copies, make, measure, stream)

    def _stream(self, sessions: Any, time_ms: Any, kernel: Any) -> dict[str, Any]:
        """What the policy's monitor is told of a step beside its rows."""
        if self._watch is None:
            for name, value in {"sessions": sessions, "time_ms": time_ms, "kernel": kernel}.items():
                if value is not None:
                    raise errors.InvalidInput(f"{name}: read by the monitor of a policy, and there is none")
            return {}
        return {
            "time_ms": None if time_ms is None else c.integer(time_ms, "time_ms"),
            "kernel": None if kernel is None else self._watch.check(kernel),
        }

    def _measured(self, begun: Measurement, rows: int, sessions: list[str] | None) -> tuple[Summary, list[Row]]:
        if self._watch is None:
            return begun.finish(), []
        summary, tokens = begun.finish_tokens()
        return summary, tokens.rows(sessions, rows)

    def _finish(
        self, copies: _Copies, make: Callable[[], rl.Batch], measure: Callable[[], tuple[Summary, list[Row]]] | None,
        stream: dict[str, Any],
    ) -> Step:  # fmt: skip
        copies.wait()
        batch = make()
        summary, rows = (None, []) if measure is None else measure()
        corrected = None
        if self.correction is None:
            diagnostics = rl.RlSummary().add(batch, threads=self.threads)
        else:
            diagnostics, corrected = rl.step_batch(batch, self.correction, threads=self.threads)
        summary, diagnostics, rows = self._gather(summary, diagnostics, rows)

        report = None if summary is None else judge(self.contract, summary, **self._judging)
        judgements = [] if self.limits is None else diagnostics.judge(self.limits)
        figures = diagnostics.figures()
        watched = Watched([], False, None, {})
        with self._lock:
            number = self.steps + 1
            if self._watch is not None:
                watched = self._watch.fold(rows, step=number, **stream)
            self.summary = summary
            self.total.merge(diagnostics)
            self.steps = number
        metrics = self._metrics(report, judgements, figures, corrected)
        return Step(
            number=number,
            verdict=_worst(report, judgements),
            action="log" if report is None else report.action,
            metrics=metrics | {self.prefix + name: value for name, value in watched.metrics.items()},
            report=report,
            judgements=judgements,
            figures=figures,
            weights=None if corrected is None else copies.back(corrected.weights),
            mask=None if corrected is None else copies.back(corrected.mask),
            alarms=watched.alarms,
            guarded=watched.guarded,
            serves=watched.serves,
        )

    def _begin(self, train: Any, rollout: Any, about: StepRows, **more: Any) -> Measurement:
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

    def _gather(
        self, summary: Summary | None, diagnostics: rl.RlSummary, rows: list[Row]
    ) -> tuple[Summary | None, rl.RlSummary, list[Row]]:
        _, distributed = self._world()
        if distributed is None:
            return summary, diagnostics, rows
        parts: list[Any] = [None] * distributed.get_world_size(self._group)
        mine = (None if summary is None else summary.to_bytes(), diagnostics.to_bytes(), rows)
        distributed.all_gather_object(parts, mine, group=self._group)
        summary = None if summary is None else Summary.from_bytes(parts[0][0])
        diagnostics = rl.RlSummary.from_bytes(parts[0][1])
        rows = [row for part in parts for row in part[2]]
        for measured, diagnosed, _ in parts[1:]:
            if summary is not None:
                summary.merge(Summary.from_bytes(measured))
            diagnostics.merge(rl.RlSummary.from_bytes(diagnosed))
        return summary, diagnostics, rows


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
