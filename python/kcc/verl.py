"""A drop-in for verl's rollout correction.

    from kcc.verl import compute_rollout_correction_and_rejection_mask

Same arguments, same metric names, same decisions; computed in double, so that k3 and the standard
deviation do not vanish at small mismatch. `install()` puts it in the place of verl's own.
"""

from __future__ import annotations

from typing import Any

from . import rl


def compute_rollout_correction_and_rejection_mask(
    old_log_prob: Any,
    rollout_log_prob: Any,
    response_mask: Any,
    rollout_is: str | None = None,
    rollout_is_threshold: str | float | None = 2.0,
    rollout_is_batch_normalize: bool = False,
    rollout_rs: str | None = None,
    rollout_rs_threshold: str | float | None = None,
) -> tuple[Any, Any, dict[str, float]]:
    """(weights, mask, metrics) as verl's function of the same name. The weights come as a DataProto
    where verl is installed, else as {"rollout_is_weights": tensor}; None without `rollout_is`."""
    import torch

    result = rl.dialect(
        "verl",
        old_log_prob.detach().float().cpu(),
        rollout_log_prob.detach().float().cpu(),
        response_mask.detach().cpu(),
        options={
            "rollout_is": rollout_is,
            "rollout_is_threshold": rollout_is_threshold,
            "rollout_is_batch_normalize": rollout_is_batch_normalize,
            "rollout_rs": rollout_rs,
            "rollout_rs_threshold": rollout_rs_threshold,
        },
        function="compute_rollout_correction_and_rejection_mask",
    )

    def tensor(name: str, like: Any) -> Any:
        rows = [torch.from_numpy(row) for row in result.array(name)]
        return torch.stack(rows).to(like)

    mask = tensor("mask", response_mask)
    weights = None
    if rollout_is is not None and rollout_is_threshold is not None:
        weights = _proto({"rollout_is_weights": tensor("weights", old_log_prob.detach())})
    metrics = {name: value for name, value in result.metrics.items() if name.startswith("rollout_corr/")}
    return weights, mask, metrics


def _proto(tensors: dict[str, Any]) -> Any:
    try:
        from verl.protocol import DataProto
    except ImportError:
        return tensors
    return DataProto.from_dict(tensors=tensors)


def install() -> None:
    """Replaces verl's function in its own module, for code that calls it there."""
    from verl.trainer.ppo import rollout_corr_helper

    rollout_corr_helper.compute_rollout_correction_and_rejection_mask = compute_rollout_correction_and_rejection_mask
