"""Top-k lists as one side's evidence: what a server returns where a trainer has logits."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from . import _arrays as arrays
from . import errors


class TopK(NamedTuple):
    """The k most likely tokens of one side, in falling order: `ids` and `logprobs` [tokens, k] or
    [requests, tokens, k]. -1 as id fills up shorter lists. `sampled` are the log-probs of the sampled
    tokens, [tokens] or [requests, tokens], where the server returned them: they need not be in the lists.
    """

    ids: Any
    logprobs: Any
    sampled: Any = None


class ListView:
    """The lists as the library reads them: adjacent rows of int32 and float32, copied where they are not."""

    place = None

    def __init__(self, lists: TopK, name: str):
        shape, other = (
            arrays.view(arrays.from_lists(arrays.to_host(values), field), field, ndim=(2, 3)).shape
            for field, values in ((f"{name}.ids", lists.ids), (f"{name}.logprobs", lists.logprobs))
        )
        if other != shape:
            raise errors.ShapeError(f"{name}.logprobs has shape {other}, {name}.ids has {shape}")
        if shape[-1] == 0:
            raise errors.ShapeError(f"{name}: lists of at least one entry")
        self.shape = shape
        self.ids = arrays.column(lists.ids, f"{name}.ids", np.int32)
        self.logprobs = arrays.column(lists.logprobs, f"{name}.logprobs", np.float32)
        self.sampled = None
        if lists.sampled is not None:
            rows = int(np.prod(shape[:-1], dtype=np.int64))
            self.sampled = arrays.column(lists.sampled, f"{name}.sampled", np.float64, rows)

    def fill(self, call: Any, side: str) -> None:
        """Sets the fields of a call; `self` must outlive it."""
        setattr(call, f"{side}_top_ids", self.ids.ctypes.data)
        setattr(call, f"{side}_top_logprobs", self.logprobs.ctypes.data)
        setattr(call, f"{side}_top_k", self.shape[-1])
        if self.sampled is not None:
            setattr(call, f"{side}_logprobs", arrays.view(self.sampled, side).array())
