"""OnlineMonitor: a contract watched while a kernel serves, one observation after the other.

The same monitor as `kcc monitor run` (docs/monitor.md): no clock and no files, time is data, and the
same observations give the same decisions. `kcc.Monitor` is what a training loop uses; it feeds one of
these with the rows of every step.
"""

from __future__ import annotations

import ctypes
import json
import os
import pathlib
from collections.abc import Mapping
from typing import Any

from . import _library as c
from . import errors
from .contract import Contract


class MonitorPolicy:
    """The text of a document of kind MonitorPolicy. What is wrong with it is said where it is first used."""

    def __init__(self, yaml: str, name: str = "policy"):
        self.yaml = c.utf8(yaml, "yaml").decode()
        c.encode(name, "name")
        self.name = name

    @classmethod
    def read(cls, path: str | os.PathLike) -> MonitorPolicy:
        name = os.fsdecode(c.path_bytes(path))
        try:
            return cls(pathlib.Path(name).read_text(encoding="utf-8"), name)
        except OSError as error:
            raise errors.FileError(f"{name}: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise errors.InvalidInput(f"{name}: {error}") from error

    def __repr__(self) -> str:
        return f"<kcc.MonitorPolicy {self.name}>"


class OnlineMonitor(c.Owned):
    """Watches kernels under a contract and a monitor policy.

    `contract` is a Contract or a path, `policy` a MonitorPolicy or a path. `stage` says whose clauses are
    watched. Threads may share it: each call waits its turn, and observations count in the order in which
    they come.
    """

    kind = "monitor"
    changes = True

    def __init__(
        self,
        contract: Contract | str | os.PathLike,
        policy: MonitorPolicy | str | os.PathLike,
        *,
        stage: str = "full",
    ):
        super().__init__(c.handle("kcc_monitor_new", *_documents(contract, policy, stage)))

    @classmethod
    def restore(
        cls,
        contract: Contract | str | os.PathLike,
        policy: MonitorPolicy | str | os.PathLike,
        data: bytes,
        *,
        stage: str = "full",
    ) -> OnlineMonitor:
        """What `save` gave, with the same contract, policy and stage: it decides as the saved one would have."""
        data = c.data_bytes(data)
        monitor = cls.__new__(cls)
        documents = _documents(contract, policy, stage)
        c.Owned.__init__(monitor, c.handle("kcc_monitor_restore", *documents, data, len(data)))
        return monitor

    def save(self) -> bytes:
        """The whole state, of a bounded size; equal states give equal bytes."""
        return c.text("kcc_monitor_save", self)

    def observe(self, observation: Mapping[str, Any] | str) -> dict[str, Any]:
        """Folds one observation, a dict or a line of JSON as `kcc monitor run` reads it, and gives what became
        of it: {"number", "handling", "serves", "changes"}. One that cannot be read changes nothing."""
        if isinstance(observation, Mapping):
            line = c.json_bytes(dict(observation), "observation")
        else:
            line = c.utf8(observation, "observation")
        return json.loads(c.text("kcc_monitor_observe", self, line, len(line)))

    def _observe_tokens(self, observation: c.Observation) -> dict[str, Any]:
        return json.loads(c.text("kcc_monitor_observe_tokens", self, ctypes.byref(observation)))

    def should_audit(self, request: str, kernel: str, *, session: str | None = None, time_ms: int = 0) -> bool:
        """Whether to audit the request, or to show it to a guarded kernel as a probe. A question alone."""
        out = ctypes.c_int()
        names = c.encode(request, "request"), c.encode(session, "session"), c.encode(kernel, "kernel")
        c.call("kcc_monitor_should_audit", self, *names, c.integer(time_ms, "time_ms"), ctypes.byref(out))
        return bool(out.value)

    def status(self) -> dict[str, Any]:
        """Who serves, and of every kernel its state, its health and the verdict of each clause on each slice."""
        return json.loads(c.text("kcc_monitor_status", self))

    def __repr__(self) -> str:
        status = self.status()
        return f"<kcc.OnlineMonitor after {status['observations']} observations, {status['serves']} serves>"


def _documents(contract: Any, policy: Any, stage: str) -> tuple:
    if not isinstance(contract, Contract):
        contract = Contract.read(contract)
    if not isinstance(policy, MonitorPolicy):
        policy = MonitorPolicy.read(policy)
    text = policy.yaml.encode()
    return contract, text, len(text), c.encode(policy.name, "name"), c.encode(stage, "stage")
