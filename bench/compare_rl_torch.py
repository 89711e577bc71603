#!/usr/bin/env python3
"""Times kcc's diagnose + correct + judge beside verl's and TRL's own work on the same step.

  python bench/compare_rl_torch.py --verl VERL_CHECKOUT [--threads 1] [--memory]

verl's rollout_corr_helper.py is loaded from a checkout of verl (none of it is kept here); the modules
it imports but does not compute with are stood in for. TRL's block lives inside its trainer, so its
operations are written anew: the ratio, its truncation and the metrics of the sampling/ group.
kcc is called through its Python package on the same tensors; its weights must be torch's.
--memory prints the peak of each beside the caller's tensors instead of times (bench/rl_memory.py).
"""

import argparse
import importlib.util
import os
import pathlib
import sys
import time
import types

import torch

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent.parent / "python"), str(pathlib.Path(__file__).resolve().parent)]
import kcc  # noqa: E402
from rl_memory import MALLOC, peak_of  # noqa: E402


def load_verl(checkout):
    """The real helper, with stand-ins for what it only imports."""

    def masked_sum(values, mask, axis=None):
        return torch.where(mask.bool(), values, torch.zeros_like(values)).sum(axis)

    def masked_mean(values, mask, axis=None):
        return masked_sum(values, mask, axis) / (mask.sum(axis) + 1e-8)

    class DataProto:
        @staticmethod
        def from_dict(tensors):
            return tensors

    functional = types.ModuleType("verl.utils.torch_functional")
    functional.masked_sum, functional.masked_mean = masked_sum, masked_mean
    protocol = types.ModuleType("verl.protocol")
    protocol.DataProto = DataProto
    algorithm = types.ModuleType("verl.trainer.config.algorithm")
    algorithm.RolloutCorrectionConfig = object
    workers = types.ModuleType("verl.workers.config.actor")
    workers.PolicyLossConfig = object
    modules = {
        "verl.utils.torch_functional": functional,
        "verl.protocol": protocol,
        "verl.trainer.config.algorithm": algorithm,
        "verl.workers.config.actor": workers,
    }
    for name, module in list(modules.items()):
        parts = name.split(".")
        for i in range(1, len(parts)):
            sys.modules.setdefault(".".join(parts[:i]), types.ModuleType(".".join(parts[:i])))
        sys.modules[name] = module
    sys.modules["verl.utils"].torch_functional = functional
    path = pathlib.Path(checkout) / "verl/trainer/ppo/rollout_corr_helper.py"
    spec = importlib.util.spec_from_file_location("rollout_corr_helper", path)
    helper = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(helper)
    return helper.compute_rollout_correction_and_rejection_mask


def trl_block(train, rollout, mask):
    difference = (train - rollout) * mask
    ratio = torch.exp(difference.sum(-1, keepdim=True))
    ratio = torch.where(ratio > 3.0, torch.zeros_like(ratio), ratio)
    token = torch.clamp(torch.exp(difference), max=3.0)
    delta = torch.abs(train - rollout)[mask.bool()]
    flat = token[mask.bool()]
    metrics = [delta.mean().item(), delta.max().item(), flat.min().item(), flat.mean().item()]
    return ratio, token, metrics + [flat.max().item()]


def best_of(runs, function):
    best = float("inf")
    for _ in range(runs):
        start = time.perf_counter()
        function()
        best = min(best, time.perf_counter() - start)
    return 1e3 * best


def rest(seconds):
    """Waits awake: a sleep would let the core's clock fall."""
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--verl", help="a checkout of verl")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--memory", action="store_true")
    options = parser.parse_args()
    if options.memory and not MALLOC.items() <= os.environ.items():
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **MALLOC})
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    rows, columns = 512, 4096
    rollout = -0.3 - torch.randn(rows, columns).abs()
    train = rollout + 0.02 * torch.randn(rows, columns)
    lengths = torch.randint(1, columns + 1, (rows, 1))
    mask = (torch.arange(columns)[None, :] < lengths).float()
    correction = {"weight": {"mode": "truncate", "level": "token", "high": 3.0}}
    limits = {"tv_rows": 0.05, "token.k3": 0.001}

    def kcc_step():
        summary, corrected = kcc.rl.step(train, rollout, mask, correction=correction, threads=options.threads)
        return summary.judge(limits), corrected

    judged, corrected = kcc_step()
    wanted = trl_block(train, rollout, mask)[1] * mask
    # torch subtracts and exponentiates in float32, kcc in double: a rounding of the difference apart.
    torch.testing.assert_close(corrected.weights, wanted, rtol=2e-6, atol=0)
    assert [each["outcome"] for each in judged] == ["satisfied", "satisfied"], judged
    contenders = {
        "kcc: diagnose + correct + judge": kcc_step,
        "TRL's operations": lambda: trl_block(train, rollout, mask),
    }
    if options.verl:
        verl = load_verl(options.verl)
        contenders["verl: compute_rollout_correction_and_rejection_mask"] = lambda: verl(
            train, rollout, mask, rollout_is="token", rollout_is_threshold=2.0,
            rollout_rs="seq_mean_k1", rollout_rs_threshold="0.99_1.01",
        )
    print(f"512 x 4096 tokens, {options.threads} thread(s)")
    with torch.no_grad():
        if options.memory:
            for name, function in contenders.items():
                peak = peak_of(function)[0]
                print(f"  {name:<55}{peak / 2**20:9.1f} MiB  {peak / train.nbytes:6.2f} arrays")
            return
        # In turns, so that a busy moment of the machine meets all of them, and none before the
        # others' threads are asleep: torch's spin for some milliseconds after their last work, on
        # the core that the next contender's second thread would get.
        best = dict.fromkeys(contenders, float("inf"))
        for _ in range(15):
            for name, function in contenders.items():
                rest(0.015)
                best[name] = min(best[name], best_of(1, function))
    ours = next(iter(best.values()))
    for name, ms in best.items():
        print(f"  {name:<55}{ms:9.1f} ms  {ms / ours:6.1f}x")


if __name__ == "__main__":
    main()
