"""kcc: contracts for the gap between training and serving kernels.

    import kcc
    contract = kcc.Contract.read("contract.yaml")
    report = kcc.judge(contract, kcc.measure(train_logprobs, rollout_logprobs, contract, mask=mask))
    print(report.verdict)

`kcc.rl` holds the RL diagnostics and corrections, `kcc.Monitor` watches a training run,
`kcc.OnlineMonitor` kernels that serve; `kcc.trl`, `kcc.verl` and `kcc.ray` are for those frameworks. The
names below load libkcc when they are first used, so that `kcc.trace` and the kernels of `kcc.kernels`
need nothing but Python.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

# Name -> the module that defines it.
_HOMES = {
    "Contract": "contract",
    "check": "contract",
    "Monitor": "monitor",
    "Step": "monitor",
    "MonitorPolicy": "online",
    "OnlineMonitor": "online",
    "Report": "summary",
    "Summary": "summary",
    "judge": "summary",
    "measure": "summary",
    "Measurement": "summary",
    "begin_measure": "summary",
    "measure_traces": "summary",
    "TopK": "lists",
    "bound": "bounds",
    "register_metric": "metrics",
    "DTypeError": "errors",
    "DeviceError": "errors",
    "Error": "errors",
    "EvidenceError": "errors",
    "FileError": "errors",
    "InternalError": "errors",
    "InvalidInput": "errors",
    "ShapeError": "errors",
}
_MODULES = ("errors", "rl")
# Modules that need another package or that most do without: loaded when they are first named, and not by
# `from kcc import *`.
_ON_DEMAND = ("cuda", "ray", "trace", "trl", "verl")
__all__ = sorted([*_HOMES, *_MODULES])

if TYPE_CHECKING:
    from . import errors, rl
    from .bounds import bound
    from .contract import Contract, check
    from .errors import DeviceError, DTypeError, Error, EvidenceError, FileError, InternalError, InvalidInput, ShapeError
    from .lists import TopK
    from .metrics import register_metric
    from .monitor import Monitor, Step
    from .online import MonitorPolicy, OnlineMonitor
    from .summary import Measurement, Report, Summary, begin_measure, judge, measure, measure_traces


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from ._library import library

        value: Any = library.kcc_version().decode()
    elif name in _MODULES or name in _ON_DEMAND:
        value = importlib.import_module(f".{name}", __name__)
    elif name in _HOMES:
        value = getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
    else:
        raise AttributeError(f"module 'kcc' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
