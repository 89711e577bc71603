"""What a numerical gap can cost, and back (docs/bounds.md)."""

from __future__ import annotations

import json
from typing import Any

from . import _library as c


def bound(**options: float | bool | str) -> dict[str, Any]:
    """The bounds of `kcc bound --json`, with its options as keywords.

    Forward from one of span, linf, l2, tv, kl, abs_log_ratio; backward from reward_drift or
    gradient_bias; with temperature, reward_max, rewards_from_zero, advantage_max, score_norm_max,
    advantages ("outcome" or "token"), tokens, weight_min, weight_max.

    >>> answer = bound(linf=0.05, reward_max=1.0)
    >>> round(answer["bounds"]["tv"]["atMost"], 6)
    0.024995
    """
    return json.loads(c.text("kcc_bound", c.json_bytes(options, "options")))
