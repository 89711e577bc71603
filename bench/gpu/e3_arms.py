"""The arms of E3 and the corrections they use, in the words of `kcc rl correct` (docs/rl.md).

An arm says which kernel samples, where the old log-probs of the PPO ratio come from, and what is done about
w = exp(old - rollout). `weights_of` is kcc.rl.correct on tensors of a device, for the words used here;
tests/python/test_gpu_e3.py holds it to the library.
"""

import dataclasses

import torch

BYPASS = "bypass"  # the rollout's own log-probs are the old ones
TRUNCATE = {"weight": {"mode": "truncate", "high": 2.0}}
CALIBRATED = "calibrated"  # stands for a threshold that the kernel's own k3 decides, before the first step


def rejecting(high):
    return {"reject": [{"statistic": "k3", "aggregate": "sequence_mean", "high": high}]}


@dataclasses.dataclass(frozen=True)
class Arm:
    name: str
    rollout: str  # the kernel that samples
    old: str = "f32"  # the kernel that computes the old log-probs, or BYPASS
    correction: dict = dataclasses.field(default_factory=dict)
    lag: int = 1  # steps for which the sampling weights are kept
    dual_clip: float | None = None

    def with_threshold(self, threshold):
        rules = [
            rule | {"high": threshold if rule["high"] == CALIBRATED else rule["high"]}
            for rule in self.correction.get("reject", [])
        ]
        correction = self.correction | ({"reject": rules} if rules else {})
        return dataclasses.replace(self, correction=correction)


def _arms():
    strict, fitted = rejecting(1e-3), rejecting(CALIBRATED)
    yield Arm("exact", "f32")
    yield Arm("stale", "f32", BYPASS, lag=8)
    yield Arm("f32/int4", "f32", "int4")
    yield Arm("int4/int4", "int4", "int4")
    yield Arm("int4", "int4")
    yield Arm("int4 bypass", "int4", BYPASS)
    yield Arm("int4 bypass, dual clip", "int4", BYPASS, dual_clip=3.0)
    yield Arm("int4 paper", "int4", correction={"weight": {"mode": "clip", "low": 0.8, "high": 1.2}})
    yield Arm("int4 TIS", "int4", correction=TRUNCATE)
    yield Arm("int4 clip", "int4", correction={"weight": {"mode": "clip", "low": 0.5, "high": 2.0}})
    yield Arm("int4 mask", "int4", correction={"weight": {"mode": "mask", "low": 0.5, "high": 2.0}})
    sequence = {"mode": "mask", "level": "sequence", "low": 0.0, "high": 2.0}
    yield Arm("int4 sequence MIS", "int4", correction={"weight": sequence})
    yield Arm("int4 RS", "int4", correction=strict)
    yield Arm("int4 RS fitted", "int4", correction=fitted)
    yield Arm("int4 TIS + RS", "int4", correction=TRUNCATE | strict)
    yield Arm("int4 TIS + RS fitted", "int4", correction=TRUNCATE | fitted)
    yield Arm("int4c bypass", "int4c", BYPASS)
    yield Arm("int3", "int3")
    yield Arm("int3 bypass", "int3", BYPASS)
    yield Arm("int3 TIS", "int3", correction=TRUNCATE)
    yield Arm("int3 TIS + RS fitted", "int3", correction=TRUNCATE | fitted)
    yield Arm("fp8", "fp8")
    yield Arm("fp8 bypass", "fp8", BYPASS)
    yield Arm("fp8 TIS + RS", "fp8", correction=TRUNCATE | strict)


# Ordered by the kernel that samples, so that the runs of a kernel are neighbours in the stack.
ARMS = {arm.name: arm for arm in _arms()}


def masked_mean(x, mask, dims=(-1,)):
    return (x * mask).sum(dims) / mask.sum(dims).clamp_min(1)


def _level(d, mask, level):
    if level == "sequence":
        return (d * mask).sum(-1, keepdim=True).expand_as(d)
    if level == "token":
        return d
    raise ValueError(f"weights of level {level} are not computed here; kcc.rl.correct does")


def _weight(d, mask, rule):
    mode = rule.get("mode", "off")
    if mode == "off":
        return torch.ones_like(d)
    w = _level(d, mask, rule.get("level", "token")).exp()
    if mode == "truncate":
        return w.clamp_max(rule["high"])
    if mode == "clip":
        return w.clamp(rule["low"], rule["high"])
    if mode == "mask":
        return w.masked_fill((w < rule["low"]) | (w > rule["high"]), 0.0)
    if mode == "full":
        return w
    raise ValueError(f"no weights of mode {mode!r}")


def weights_of(correction, d, mask):
    """Weights and the mask after rejection of d = old - rollout, [..., sequences, length]."""
    kept = mask
    for rule in correction.get("reject", []):
        if (rule["statistic"], rule["aggregate"]) != ("k3", "sequence_mean"):
            raise ValueError(f"{rule} is not computed here; kcc.rl.correct does")
        k3 = masked_mean(d.expm1() - d, mask)
        kept = kept & (k3 <= rule["high"])[..., None]
    return _weight(d, mask, correction.get("weight", {})), kept


def surrogate(log_ratio, advantage, clip, dual_clip=None):
    """What PPO maximises for each token, and where its gradient is cut to zero."""
    ratio = log_ratio.exp()
    bounded = ratio.clamp(1 - clip, 1 + clip)
    value = torch.minimum(ratio * advantage, bounded * advantage)
    cut = ((advantage > 0) & (ratio > 1 + clip)) | ((advantage < 0) & (ratio < 1 - clip))
    if dual_clip is not None:
        floor = dual_clip * advantage
        cut = cut | ((advantage < 0) & (ratio > dual_clip))
        value = torch.where(advantage < 0, torch.maximum(value, floor), value)
    return value, cut


def mismatch_figures(d, advantage, mask):
    """Figures of d = train - rollout over the tokens of each run; d [runs, sequences, length]."""
    both = (-2, -1)
    w = d.exp().masked_fill(~mask, 0.0)
    count = mask.sum(both).clamp_min(1)
    squares = w.square().sum(both).clamp_min(1e-30)
    pushed = -(w - 1) * advantage
    sequence = (d * mask).sum(-1).exp()
    return {
        "mean_abs_log_ratio": masked_mean(d.abs(), mask, both),
        "max_abs_log_ratio": d.abs().masked_fill(~mask, 0.0).amax(both),
        "k1": masked_mean(-d, mask, both),
        "k2": masked_mean(d.square() / 2, mask, both),
        "k3": masked_mean(d.expm1() - d, mask, both),
        "tv": masked_mean((1 - d.exp()).clamp_min(0), mask, both),
        "ess": w.sum(both).square() / (count * squares),
        "ess_sequence": sequence.sum(-1).square() / (d.shape[-2] * sequence.square().sum(-1).clamp_min(1e-30)),
        "skew_up": masked_mean(pushed, mask & (advantage > 0), both),
        "skew_down": masked_mean(pushed, mask & (advantage < 0), both),
    }
