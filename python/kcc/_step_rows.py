"""What a training step says of its rows beside the two sides' numbers, checked and in plain Python."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from . import _arrays as arrays
from . import _library as c
from . import errors
from .summary import truth


def tags_of(tags: Any, rows: int) -> list[list[str]]:
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


def ids_of(ids: Any, rows: int) -> list[str]:
    ids = c.row_list(ids, "ids", "a text")
    if len(ids) != rows:
        raise errors.ShapeError(f"ids: {len(ids)} for {rows} rows")
    return ids


def sessions_of(sessions: Any, rows: int) -> list[str]:
    """A text or a number for each row; numbers are taken by their text."""
    sessions = arrays.to_host(sessions)
    if hasattr(sessions, "tolist"):
        sessions = sessions.tolist()
    sessions = c.row_list(sessions, "sessions", "the name of its prompt")
    if len(sessions) != rows:
        raise errors.ShapeError(f"sessions: {len(sessions)} for {rows} rows")
    for row, each in enumerate(sessions):
        if not isinstance(each, (str, int)) or each == "":
            raise errors.DTypeError(f"sessions: row {row} has {each!r:.60}; pass a text or an integer for each")
    names = [str(each) for each in sessions]
    for name in set(names):
        c.encode(name, "sessions")
    return names


def fields_of(fields: Any, rewards: Any, rows: int) -> dict[str, list[Any]]:
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
class StepRows:
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
