"""The rows of a training step as observations of the online monitor.

What was measured of every token comes from the library in one visit (`kcc_measure_finish_tokens`). An
observation is plain bytes and lists here, so that ranks can send theirs to each other; every rank then
folds those of all ranks in one order and has the same monitor.
"""

from __future__ import annotations

import ctypes
import dataclasses
import json
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _library as c
from . import errors

if TYPE_CHECKING:
    from .online import OnlineMonitor

_ARRAYS = {
    "positions": np.int32, "tokens": np.int32, "gold": np.int32, "infer_argmax": np.int32, "train_argmax": np.int32,
    "advantages": np.float64,
}  # fmt: skip


class Tokens(c.Owned):
    """What a measurement made of every token."""

    kind = "tokens"

    def rows(self, sessions: list[str] | None, requests: int) -> list[Row]:
        """Every request of the measurement, copied."""
        made = []
        for number in range(requests):
            view = c.Observation(struct_size=ctypes.sizeof(c.Observation))
            c.call("kcc_tokens_observation", self, number, ctypes.byref(view))
            made.append(Row.of(view, None if sessions is None else sessions[number]))
        return made


@dataclasses.dataclass
class Row:
    """One request: its record, and one array for each thing that is known of its tokens."""

    record: dict[str, Any]
    session: str | None
    count: int
    masked: int
    arrays: dict[str, np.ndarray]  # by the name of the C struct's member
    columns: list[tuple[bytes, np.ndarray, np.ndarray | None]]  # name, values, upper ends

    @classmethod
    def of(cls, view: c.Observation, session: str | None) -> Row:
        count = view.rows
        given = {name: _copy(getattr(view, name), dtype, count) for name, dtype in _ARRAYS.items()}
        columns = []
        for place in range(view.column_count):
            column = view.columns[place]
            values = _copy(column.values, np.float64, count)
            columns.append((column.name, values, _copy(column.upper, np.float64, count)))
        return cls(
            record=json.loads(view.infer_request),
            session=session,
            count=count,
            masked=view.masked,
            arrays={name: values for name, values in given.items() if values is not None},
            columns=columns,
        )

    def observation(self, kernel: bytes, time_ms: int, step: int) -> tuple[c.Observation, list[Any]]:
        """For the library, and what must live while it reads. Ids repeat from step to step, so that the step is
        a part of them; the monitor would take them for the same request."""
        record = c.json_bytes({**self.record, "id": f"{step}/{self.record['id']}"}, "request")
        session = c.encode(self.session, "session")
        columns = (c.Column * len(self.columns))()
        for place, (name, values, upper) in enumerate(self.columns):
            columns[place] = c.Column(name, values.ctypes.data, None if upper is None else upper.ctypes.data)
        made = c.Observation(
            struct_size=ctypes.sizeof(c.Observation), time_ms=time_ms, kernel=kernel, session=session, audited=1,
            one_record=1, infer_request=record, rows=self.count, masked=self.masked, columns=columns,
            column_count=len(columns), **{name: values.ctypes.data for name, values in self.arrays.items()},
        )  # fmt: skip
        return made, [record, session, columns]


def _copy(address: int | None, dtype: type, count: int) -> np.ndarray | None:
    if not address:
        return None
    size = count * np.dtype(dtype).itemsize
    return np.frombuffer(ctypes.string_at(address, size), dtype=dtype)


ALARMS = ("alarm", "proof", "broken")  # of the changes that the monitor tells; the others follow from them


@dataclasses.dataclass
class Watched:
    """What the rows of one step have changed."""

    alarms: list[dict[str, Any]]
    guarded: bool  # whether the step's kernel is, now
    serves: str | None
    metrics: dict[str, float]


class StepWatch:
    """An OnlineMonitor that is fed with the rows of training steps."""

    def __init__(self, online: OnlineMonitor, kernel: str | None):
        self.online = online
        kernels = self.online.status()["kernels"]
        self.kernels = [each["name"] for each in kernels]
        infer = [each["name"] for each in kernels if each["role"] == "infer"]
        if kernel is None and len(infer) != 1:
            raise errors.InvalidInput(f"kernel: the policy has {len(infer)} kernels of role infer ({', '.join(infer)}); say which")
        self.kernel = self.check(kernel if kernel is not None else infer[0])

    def check(self, kernel: str) -> str:
        c.encode(kernel, "kernel")
        if kernel not in self.kernels:
            raise errors.InvalidInput(f"kernel: the policy lists no {kernel!r}; there are {', '.join(self.kernels)}")
        return kernel

    def fold(self, rows: list[Row], kernel: str | None, time_ms: int | None, step: int) -> Watched:
        """The rows of all ranks, in the order of ranks. Time is the step's number in seconds unless it is given."""
        name = self.kernel if kernel is None else kernel
        time_ms = 1000 * step if time_ms is None else time_ms
        alarms: list[dict[str, Any]] = []
        counted = 0
        for row in rows:
            observation, keep = row.observation(c.encode(name, "kernel") or b"", time_ms, step)
            decision = self.online._observe_tokens(observation)
            del keep
            counted += decision["handling"] == "counted"
            for change in decision["changes"]:
                if change["kind"] in ALARMS:
                    alarms.append({"clause": None, "slice": None, "action": None} | change)
        status = self.online.status()
        now = next(each for each in status["kernels"] if each["name"] == name)
        guarded = now["state"] == "guarded"
        metrics = {
            "monitor/alarms": float(len(alarms)),
            "monitor/guarded": float(guarded),
            "monitor/health": float(now["health"]),
            "monitor/counted": float(counted),  # the others repeat a session or a request
        }
        return Watched(alarms, guarded, status["serves"] or None, metrics)
