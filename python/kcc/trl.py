"""kcc in a TRL GRPO run.

    trainer = GRPOTrainer(...)
    watch = kcc.trl.watch(trainer, "contract.yaml")
    trainer.train()

Every loss computation is measured: the trainer's log-probs of the sampled tokens against those that
the rollout engine reported (vLLM, or `rollout_func`). kcc's metrics and verdicts join TRL's logs.
With a correction, its weights multiply the advantages, which is where an importance weight stands
in the GRPO loss; rejected tokens get weight 0.

TRL divides logits by its temperature, so that is what the log-probs are at. Where the trainer samples
from less than the whole distribution (top-p, top-k, min-p, penalties), nothing is estimated.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable
from typing import Any

try:
    from transformers import TrainerCallback
except ImportError as error:
    raise ImportError("kcc.trl needs TRL: pip install trl") from error

from . import errors
from .contract import Contract
from .monitor import Monitor, Step


# What a contract can order, mildest first; from `freeze` on nothing may be updated.
ACTIONS = ("log", "guard", "freeze", "fallback", "rollback")
STOPPING = frozenset(ACTIONS[ACTIONS.index("freeze") :])


class KccCallback(TrainerCallback):
    """Made by `watch`. `steps` holds every Step of this process; `last` is the latest."""

    def __init__(self, monitor: Monitor, stop_on: Iterable[str], slices: Callable[[dict], list[str]] | None):
        self.monitor = monitor
        self.steps: list[Step] = []
        self._stop_on = _actions(stop_on)
        self._slices = slices
        self._inputs: dict[str, Any] | None = None

    @property
    def last(self) -> Step | None:
        return self.steps[-1] if self.steps else None

    def attach(self, trainer: Any) -> None:
        compute_loss, logps = trainer._compute_loss, trainer._get_per_token_logps_and_entropies

        def watched_loss(model: Any, inputs: dict[str, Any]) -> Any:
            self._inputs = inputs
            try:
                return compute_loss(model, inputs)
            finally:
                self._inputs = None

        def watched_logps(*args: Any, **kwargs: Any) -> Any:
            result = logps(*args, **kwargs)
            if self._inputs is not None:  # the loss's own call, not that for the old policy
                self._measure(self._inputs, result[0])
            return result

        # Around `log`, not `on_log`: TRL's history is written before callbacks see the logs.
        log = trainer.log

        def watched_log(logs: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
            return log({**logs, **self._logs()}, *args, **kwargs)

        trainer.log = watched_log
        trainer._compute_loss = watched_loss
        trainer._get_per_token_logps_and_entropies = watched_logps

    def _logs(self) -> dict[str, Any]:
        if self.last is None:
            return {}
        prefix = self.monitor.prefix
        return {**self.last.metrics, f"{prefix}verdict": self.last.verdict, f"{prefix}action": self.last.action}

    def _measure(self, inputs: dict[str, Any], per_token_logps: Any) -> None:
        rollout = inputs.get("sampling_per_token_logps")
        if rollout is None:
            raise errors.InvalidInput(
                "the batch holds no log-probs of the rollout engine: use vLLM, or a rollout_func that returns logprobs"
            )
        mask = inputs["completion_mask"]
        if "tool_mask" in inputs:
            mask = mask * inputs["tool_mask"]
        train = per_token_logps.detach().float().cpu()
        rollout = rollout.detach().float().cpu()
        # What vLLM could not tell, TRL marks with NaN. Nothing is left out of the mask for it: a token
        # without a log-prob is an error that names its place, and one at -inf counts as it is.
        mask = mask.cpu()
        old = inputs.get("old_per_token_logps")
        advantages = inputs["advantages"]
        step = self.monitor.step(
            train,
            rollout,
            mask,
            old=None if old is None else old.detach().float().cpu(),
            advantages=advantages.detach().float().cpu(),
            slices=None if self._slices is None else self._slices(inputs),
            fields=_request_fields(inputs),
            sessions=None if self.monitor.online is None else _prompts(inputs),
        )
        self.steps.append(step)
        if step.weights is not None:
            per_token = advantages.unsqueeze(1) if advantages.dim() == 1 else advantages
            inputs["advantages"] = per_token * step.weights.to(advantages)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> Any:
        if self.last is not None and self._stops(self.last):
            control.should_training_stop = True
        return control

    def _stops(self, step: Step) -> bool:
        ordered = {step.action} if step.verdict == "violated" else set()
        for alarm in step.alarms:
            ordered |= {"alarm", f"alarm:{alarm['clause']}", alarm["action"]}
        return not self._stop_on.isdisjoint(ordered)


# What samples from the whole distribution. TRL leaves out top-k by 0, by -1 or by None.
_NEUTRAL = {"top_p": (None, 1.0), "top_k": (None, 0, -1), "min_p": (None, 0.0), "repetition_penalty": (None, 1.0)}


def _sampling(trainer: Any) -> dict[str, Any]:
    """Monitor's temperatures, by what the trainer says of its sampling."""
    args = getattr(trainer, "args", None)

    def said(name: str) -> Any:
        return getattr(trainer, name, getattr(args, name, None))

    temperature = said("temperature")
    if temperature is None:
        raise errors.InvalidInput("the trainer does not say its temperature; pass temperature= and sampling_temperature=")
    altered = any(said(name) not in neutral for name, neutral in _NEUTRAL.items())
    # Further arguments of the engine are taken as they are; what they do to sampling is not known.
    further = ("generation_kwargs", "vllm_structured_outputs_regex", "vllm_guided_decoding_regex")
    altered = altered or any(getattr(args, name, None) for name in further)
    return {"temperature": temperature, "sampling_temperature": 0.0 if altered else temperature}


def _request_fields(inputs: dict[str, Any]) -> dict[str, Any]:
    """What TRL's batch says of a row, under the names that contracts read."""
    prompt = inputs.get("prompt_mask")
    return {} if prompt is None else {"prompt_tokens": prompt.sum(dim=1).cpu()}


def _prompts(inputs: dict[str, Any]) -> list[str]:
    """A name for the prompt of each row, by its tokens: TRL shuffles the samples of a group."""
    ids, mask = inputs["prompt_ids"].cpu(), inputs["prompt_mask"].cpu()
    return [hashlib.sha256(repr(row[counts != 0].tolist()).encode()).hexdigest() for row, counts in zip(ids, mask)]


def _actions(names: Iterable[str]) -> frozenset[str]:
    names = frozenset([names] if isinstance(names, str) else names)
    for name in sorted(names - frozenset(ACTIONS) - {"alarm"}):
        if not name.startswith("alarm:"):
            raise errors.InvalidInput(f"stop_on: {name!r} is no action; there are {', '.join(ACTIONS)}, alarm, alarm:CLAUSE")
    return names


def watch(
    trainer: Any,
    contract: Contract | str | os.PathLike,
    *,
    correction: dict[str, Any] | None = None,
    stop_on: Iterable[str] = STOPPING,
    slices: Callable[[dict], list[str]] | None = None,
    **options: Any,
) -> KccCallback:
    """Watches a GRPOTrainer under a contract. `stop_on`: actions of a violation that end the training; by
    default those that order no further update: freeze, which contracts/rl-post-training.yaml orders for its
    L3 clauses, fallback and rollback. `stop_on=()` only logs. With a `policy` its alarms end the training, too,
    where they order one of these; "alarm" names all of them, "alarm:N-1" those of a clause. `slices` names the slice of every row of a
    batch. Further options are Monitor's; `temperature` and `sampling_temperature` are the trainer's unless
    given."""
    if not {"temperature", "sampling_temperature"} <= options.keys():
        options = {**_sampling(trainer), **options}
    callback = KccCallback(Monitor(contract, correction=correction, **options), stop_on, slices)
    callback.attach(trainer)
    trainer.add_callback(callback)
    return callback
