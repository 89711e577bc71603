"""Metrics of the user's own that Python computes: `@register_metric`.

A contract defines the metric (spec.metrics) with the version of the function that computes it. Measuring
arrays computes one value a request and hands it to the core as the request's field of that name; the
verdict comes from the core, as for every other metric.
"""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import math
import re
import textwrap
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from . import errors

UNITS = ("", "ms", "token", "token/s", "MB", "nat", "logit", "ulp")
DIRECTIONS = ("lower", "higher", "signed")


@dataclasses.dataclass(frozen=True)
class Metric:
    """A registered function and its definition."""

    name: str
    function: Callable[..., float | None]
    unit: str
    direction: str
    min: float | None
    max: float | None
    version: str

    @property
    def definition(self) -> str:
        """The item of spec.metrics that a contract needs, in YAML."""
        parts = [f"name: {self.name}", "of: request", f"from: {self.name}"]
        if self.unit:
            parts.append(f"unit: {self.unit}")
        parts.append(f"direction: {self.direction}")
        parts += [f"{end}: {value!r}" for end, value in (("min", self.min), ("max", self.max)) if value is not None]
        return "{" + ", ".join([*parts, f"version: {self.version!r}"]) + "}"

    def differs(self, defined: Mapping[str, Any]) -> bool:
        """Whether a contract's definition is another one than this."""
        mine = {"of": "request", "from": self.name, "unit": self.unit, "direction": self.direction,
                "min": self.min, "max": self.max, "version": self.version}  # fmt: skip
        return any(defined.get(key) != value for key, value in mine.items())


_registered: dict[str, Metric] = {}
_lock = threading.Lock()


def source_version(function: Callable) -> str:
    """ "sha256:" and the digest of the function's source, indentation aside. What it calls is not in it: a function
    that rests on more than its own text is given a `version`."""
    try:
        source = textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError) as error:
        raise errors.InvalidInput(f"register_metric: the source of {function!r} is not to be had; give a version") from error
    return "sha256:" + hashlib.sha256(source.encode()).hexdigest()


def _end(value: Any, name: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise errors.DTypeError(f"register_metric: {name} is a {type(value).__name__}; pass a number")
    try:
        number = float(value)
    except OverflowError as error:
        raise errors.InvalidInput(f"register_metric: {name} is too large for a number") from error
    if not math.isfinite(number):
        raise errors.InvalidInput(f"register_metric: {name} is {number}; leave it out where there is no end")
    return number


def _text(value: Any, name: str, pattern: str, words: str) -> None:
    if not isinstance(value, str) or re.fullmatch(pattern, value) is None:
        raise errors.InvalidInput(f"register_metric: {name} {value!r:.80} is not {words}")


def register_metric(
    name: str,
    *,
    direction: str,
    unit: str = "",
    of: str = "request",
    min: float | None = None,
    max: float | None = None,
    version: str | None = None,
) -> Callable[[Callable], Callable]:
    """Makes a function a metric of requests. It is called for each request of a measurement with the request's fields
    (a dict), its rows of both sides' arrays (NumPy) and their mask (None: all count), and returns a number; None or
    NaN: missing.

    >>> @register_metric("worst_gap", direction="lower", min=0, unit="nat", version="1")
    ... def worst_gap(request, train, infer, mask):
    ...     return float(abs(train - infer).max())
    >>> print(definition("worst_gap"))
    {name: worst_gap, of: request, from: worst_gap, unit: nat, direction: lower, min: 0.0, version: '1'}
    """
    if of != "request":
        raise errors.InvalidInput(f"register_metric: of is {of!r}; Python computes metrics of requests only (docs/python.md)")
    _text(name, "name", r"[a-z][a-z0-9_]{0,63}", "lower-case letters, digits and '_'")
    if not isinstance(unit, str) or unit not in UNITS:
        raise errors.InvalidInput(f"register_metric: unknown unit {unit!r}; there are {', '.join(UNITS[1:])}, or none")
    if not isinstance(direction, str) or direction not in DIRECTIONS:
        raise errors.InvalidInput(f"register_metric: unknown direction {direction!r}; write lower, higher or signed")
    least, most = _end(min, "min"), _end(max, "max")
    if version is not None:
        _text(version, "version", r"[!-~]{1,128}", "printable ASCII without blanks, at most 128 characters")

    def register(function: Callable) -> Callable:
        if not callable(function) or isinstance(function, type):
            raise errors.DTypeError(f"register_metric: {function!r} is not a function")
        made = Metric(name, function, unit, direction, least, most, source_version(function) if version is None else version)
        with _lock:
            before = _registered.get(name)
            if before is not None and before.version != made.version:
                raise errors.InvalidInput(f"register_metric: {name!r} is registered already, with another version")
            _registered[name] = made
        return function

    return register


def definition(name: str) -> str:
    """What spec.metrics of a contract says of a registered metric."""
    with _lock:
        if name not in _registered:
            raise errors.InvalidInput(f"no metric {name!r} is registered")
        return _registered[name].definition


def unregister_metric(name: str) -> None:
    """Forgets a registered metric, if there is one."""
    with _lock:
        _registered.pop(name, None)


def wanted_of(defined: Sequence[Mapping[str, Any]]) -> list[Metric]:
    """The registered functions of a contract's own metrics. Fails where one is defined otherwise than registered: its
    values would be judged as what they are not."""
    wanted = []
    for row in defined:
        with _lock:
            metric = _registered.get(row["name"])
        if metric is None:
            continue
        if metric.differs(row):
            raise errors.InvalidInput(
                f"the contract defines {metric.name!r} otherwise than the registered function; its definition is\n"
                f"    - {metric.definition}"
            )
        wanted.append(metric)
    return wanted


def value_of(metric: Metric, request: Mapping[str, Any], rows: tuple[Any, Any, Any]) -> float | None:
    """None: missing."""
    try:
        value = metric.function(dict(request), *rows)
    except Exception as error:
        what = f"metric {metric.name!r} of request {request['id']!r}"
        raise errors.EvidenceError(f"{what}: {type(error).__name__}: {error}") from error
    if value is None:
        return None
    if isinstance(value, (str, bytes)) or getattr(value, "ndim", 0) > 0:
        raise errors.DTypeError(f"metric {metric.name!r} gave a {type(value).__name__}; return a number")
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise errors.DTypeError(f"metric {metric.name!r} gave {value!r:.80}; return a number") from error
    return number if math.isfinite(number) else None
