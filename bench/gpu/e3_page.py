#!/usr/bin/env python3
"""summary.json and summary.md of E3 from OUT/curves.jsonl and OUT/meta.json (bench/gpu/e3.py).

    python3 bench/gpu/e3_page.py OUT

A figure of an arm is the mean over its seeds with Student's 95 % interval, where there are two or more. Differences
from the exact arm are of the same seed, which had the same problems and random numbers. What would have falsified
each expectation was written down before the long run.
"""

import json
import math
import pathlib
import statistics
import sys

# Student's t at 97.5 %, by degrees of freedom.
STUDENT = [None, 12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228]
FALLEN = 0.2  # a run has fallen where the reward of 40 steps is below
LONG = 40


def interval(values):
    """{"mean", "half"}; half of the width is null for one value."""
    values = [value for value in values if value is not None and not math.isnan(value)]
    if not values:
        return None
    half = None
    if len(values) > 1:
        t = STUDENT[len(values) - 1] if len(values) <= len(STUDENT) else 1.96
        half = t * statistics.stdev(values) / math.sqrt(len(values))
    return {"mean": statistics.fmean(values), "half": half}


class Run:
    """The lines of one arm and seed."""

    def __init__(self, lines, log_every):
        self.steps = [line for line in lines if "reward" in line]
        self.evaluations = [line for line in lines if "eval_reward_train" in line]
        self._window = max(LONG // log_every, 1)

    def late(self, name):
        """Mean over the last third of the evaluations or steps, whichever has it."""
        lines = self.evaluations if name.startswith("eval_") else self.steps
        lines = [line for line in lines if name in line]
        if not lines:
            return None
        last = [line for line in lines if line["step"] > lines[-1]["step"] * 2 / 3] or lines
        return statistics.fmean(line[name] for line in last)

    def early(self, name):
        values = [line[name] for line in self.steps[: self._window] if name in line]
        return statistics.fmean(values) if values else None

    def _windows(self, name):
        for end in range(self._window, len(self.steps) + 1):
            part = self.steps[end - self._window : end]
            yield part[-1]["step"], statistics.fmean(line[name] for line in part)

    def fell(self):
        """The step at which the reward of 40 steps was below 0.2 after it had been above; None: never."""
        above = False
        for step, value in self._windows("reward"):
            above = above or value >= FALLEN
            if above and value < FALLEN:
                return step
        return None

    def left(self, name, factor=2.0):
        """The step at which the mean of 40 steps was beyond `factor` times that of the first 40; None: never."""
        start = self.early(name)
        for step, value in self._windows(name):
            if start is not None and abs(value) > factor * abs(start):
                return step
        return None


def read(out):
    meta = json.loads((out / "meta.json").read_text())
    lines = {}
    for text in (out / "curves.jsonl").read_text().splitlines():
        line = json.loads(text)
        lines.setdefault((line["arm"], line["seed"]), []).append(line)
    log_every = meta["recipe"]["log_every"]
    names = [arm["name"] for arm in meta["arms"]]
    return meta, {name: {seed: Run(lines.get((name, seed), []), log_every) for seed in meta["seeds"]} for name in names}


SIGNALS = ("mean_abs_log_ratio", "k1", "k3", "ess", "kept", "ppo_cut", "skew_up", "skew_down", "gradient")


def summary_of(meta, runs):
    arms = {}
    exact = runs.get("exact")
    for name, by_seed in runs.items():
        row = {
            "reward_train": interval([run.late("eval_reward_train") for run in by_seed.values()]),
            "reward_infer": interval([run.late("eval_reward_infer") for run in by_seed.values()]),
            "infer_minus_train": interval([_minus(run.late("eval_reward_infer"), run.late("eval_reward_train")) for run in by_seed.values()]),
            "seeds": [run.late("eval_reward_train") for run in by_seed.values()],
            "fell": [run.fell() for run in by_seed.values()],
        }
        if exact and name != "exact":
            row["minus_exact"] = interval([
                _minus(run.late("eval_reward_train"), exact[seed].late("eval_reward_train")) for seed, run in by_seed.items()
            ])  # fmt: skip
        for signal in SIGNALS:
            row[signal] = {
                "early": interval([run.early(signal) for run in by_seed.values()]),
                "late": interval([run.late(signal) for run in by_seed.values()]),
                "doubled": [run.left(signal) for run in by_seed.values()],
            }
        largest = [line["max_abs_log_ratio"] for run in by_seed.values() for line in run.steps]
        row["largest_abs_log_ratio"] = max(largest, default=None)
        for figure in ("kl_reference", "flips", "full_tv", "full_kl", "entropy"):
            row[figure] = interval([run.late(f"eval_{figure}") for run in by_seed.values()])
        arms[name] = row
    summary = {"kccE3Gpu": 1, **meta, "figures": arms}
    summary["expectations"] = [{"expected": text, "seen": seen, "figures": figures} for text, seen, figures in expectations(arms)]
    return summary


def _minus(left, right):
    return None if left is None or right is None else left - right


def _text(one, places=3):
    if one is None:
        return "–"
    if one["half"] is None:
        return f"{one['mean']:.{places}f}"
    return f"{one['mean']:.{places}f} ± {one['half']:.{places}f}"


def _short(one):
    return "–" if one is None else f"{one['mean']:.2g}"


def _steps(found):
    return ", ".join("–" if step is None else f"{step:,}" for step in found)


def _below(one):
    """Whether an interval lies below 0; None where nothing can be said."""
    if one is None or one["half"] is None:
        return None
    return one["mean"] + one["half"] < 0


def expectations(arms):
    """(what was expected and what would have falsified it, whether it was seen, figures); of the arms that ran."""

    def falls(name):
        return [step for step in arms[name]["fell"] if step is not None]

    bypass = [name for name in ("int3 bypass", "int4c bypass", "int4 bypass") if name in arms]
    if bypass:
        yield (
            "mismatch alone destroys training in bypass mode (falsified if a seed of int3, int4c or int4 holds)",
            all(len(falls(name)) == len(arms[name]["fell"]) for name in bypass),
            "; ".join(f"{name}: {_steps(arms[name]['fell'])}" for name in bypass),
        )
    if len(bypass) > 1 and all(falls(name) for name in bypass):
        means = [statistics.fmean(falls(name)) for name in bypass]
        yield (
            "sooner with more mismatch (falsified if int3, int4c and int4 fall in another order)",
            means == sorted(means),
            ", ".join(f"{mean:.0f}" for mean in means),
        )
    if "fp8 bypass" in arms:
        yield (
            "fp8 bypass does not fall, and costs reward all the same (falsified by a fall, or if the difference from exact is not below 0)",
            None if _below(arms["fp8 bypass"].get("minus_exact")) is None
            else not falls("fp8 bypass") and _below(arms["fp8 bypass"]["minus_exact"]),
            f"{_text(arms['fp8 bypass'].get('minus_exact'))}; fell {_steps(arms['fp8 bypass']['fell'])}",
        )  # fmt: skip
    plain = [name for name in ("fp8", "int4", "int3") if name in arms]
    if plain:
        yield (
            "the second paper: with recomputed log-probs and no correction training falls, too, in two stages, by step 1,665",
            any(falls(name) for name in plain),
            "; ".join(f"{name}: {_steps(arms[name]['fell'])}" for name in plain),
        )
    for strict, loose in (("int4 TIS + RS", "int4 TIS"), ("int4 RS", "int4")):
        if strict in arms and loose in arms:
            gap = arms[strict]["reward_train"], arms[loose]["reward_train"]
            known = None not in gap and None not in (gap[0]["half"], gap[1]["half"])
            yield (
                f"a threshold of 1e-3, below the kernel's own k3, costs reward: {strict} against {loose} (falsified if the intervals overlap)",
                gap[0]["mean"] + gap[0]["half"] < gap[1]["mean"] - gap[1]["half"] if known else None,
                f"{_text(gap[0])} against {_text(gap[1])}; kept {_short(arms[strict]['kept']['early'])} to {_short(arms[strict]['kept']['late'])}",
            )
    if "int3" in arms:
        served = arms["int3"]["infer_minus_train"]
        yield (
            "without correction the served policy is optimised: its reward is above the trained one's (falsified if the interval has 0)",
            None if served is None or served["half"] is None else served["mean"] - served["half"] > 0,
            f"int3: {_text(served)}" + (f"; int3 TIS: {_text(arms['int3 TIS']['infer_minus_train'])}" if "int3 TIS" in arms else ""),
        )
    if "stale" in arms:
        yield (
            "staleness of the same kind of size is not mismatch: zero mismatch with sampling weights up to 7 steps old does not fall",
            not falls("stale"),
            f"{_text(arms['stale'].get('minus_exact'))} from exact, mean abs log-ratio {_short(arms['stale']['mean_abs_log_ratio']['late'])}",
        )
    fallen = [name for name in arms if falls(name)]
    if fallen:
        quiet = [
            name for name in fallen
            if any(k is None or k > step for k, step in zip(arms[name]["k3"]["doubled"], arms[name]["fell"]) if step is not None)
        ]  # fmt: skip
        yield (
            "the second paper: k3 says nothing before the fall (it does where it has doubled by then, in each seed)",
            len(quiet) == len(fallen),
            "; ".join(f"{name}: k3 doubled at {_steps(arms[name]['k3']['doubled'])}, fell at {_steps(arms[name]['fell'])}" for name in fallen),
        )


def _two_by_two(arms):
    """Who samples against who recomputes."""
    names = (("f32", "exact", "f32/int4"), ("int4", "int4", "int4/int4"))
    if not all(name in arms for row in names for name in row[1:]):
        return
    yield "\n| sampled by | old log-probs by f32 | old log-probs by int4 |\n|---|---|---|"
    for kernel, *row in names:
        yield f"| {kernel} | " + " | ".join(f"{_text(arms[name]['reward_train'])}, fell {_steps(arms[name]['fell'])}" for name in row) + " |"


def page_of(summary):
    recipe, arms = summary["recipe"], summary["figures"]
    yield "# E3 on a GPU: mismatch, corrections and reward\n"
    yield (
        f"GRPO on products of three digits by one, from `models/kcc-lab` ({summary['parameters'] / 1e6:.2f} M parameters), {len(arms)} arms × "
        f"{len(summary['seeds'])} seeds in one stack: {summary['step']:,} steps, {summary['secondsPerStep']:.3f} s for a step of all runs. "
        f"{summary['device']}, PyTorch {summary['torch']}. Made by `bench/gpu/e3.py`.\n"
    )
    yield (
        f"A step: {recipe['problems']} problems × {recipe['samples']} answers at temperature 1, AdamW at {recipe['rate']:g}, PPO clip "
        f"{recipe['clip']}, gradients no longer than {recipe['gradient']:g}, one update. K_train is float32 (the products of its backward pass "
        f"{'in TF32' if summary['backward'] == 'high' else 'too'}); reward is 1 for a whole answer, working included. Held-out reward is on "
        f"{recipe['evaluated']} problems that no step sees. ± is Student's 95 % interval over seeds. Kernels are imitations of the lab's formats "
        "(`bench/gpu/stacked_llama.py`). *Kept* is the share of tokens with a weight above 0, *PPO cut* of those whose gradient the PPO clip removes; "
        "*fell* is the step, by seed, at which the reward of 40 training steps was below 0.2.\n"
    )
    yield "| arm | reward, K_train | K_rollout − K_train | minus exact | fell | mean abs log-ratio | k3 early | k3 late | kept early | kept late | PPO cut |"
    yield "|---|---|---|---|---|---|---|---|---|---|---|"
    for name, row in arms.items():
        k3, kept = row["k3"], row["kept"]
        yield (
            f"| {name} | {_text(row['reward_train'])} | {_text(row['infer_minus_train'])} | {_text(row.get('minus_exact'))} | "
            f"{_steps(row['fell'])} | {_short(row['mean_abs_log_ratio']['early'])} | {_short(k3['early'])} | {_short(k3['late'])} | "
            f"{_short(kept['early'])} | {_short(kept['late'])} | {_short(row['ppo_cut']['late'])} |"
        )
    yield "\n| arm | largest abs log-ratio | argmax flips | full KL | ESS | skew, A > 0 | skew, A < 0 | KL to reference | gradient | entropy |"
    yield "|---|---|---|---|---|---|---|---|---|---|"
    for name, row in arms.items():
        largest = row["largest_abs_log_ratio"]
        late = [_short(row[signal]["late"]) for signal in ("ess", "skew_up", "skew_down")]
        yield (
            f"| {name} | {'–' if largest is None else f'{largest:.2g}'} | {_short(row['flips'])} | {_short(row['full_kl'])} | {' | '.join(late)} | "
            f"{_short(row['kl_reference'])} | {_short(row['gradient']['late'])} | {_short(row['entropy'])} |"
        )
    yield from _two_by_two(arms)
    yield "\nFigures without *early* (the first 40 steps) are means over the last third.\n"
    yield "Thresholds fitted before the first step: " + ", ".join(f"{name} {value:.2g}" for name, value in summary["thresholds"].items()) + ".\n"
    yield "| expected, and what would have falsified it | seen | figures |\n|---|---|---|"
    for row in summary["expectations"]:
        seen = {True: "yes", False: "no", None: "open"}[row["seen"]]
        yield f"| {row['expected']} | {seen} | {row['figures']} |"
    yield (
        "\nThe first paper counts its bound as falsified where arms with and without correction differ by less than noise. An upper bound "
        "is not falsified by a small difference, only by a bias above it; `bench/rl_bias_bounds` looks for one."
    )


def write(out):
    meta, runs = read(out)
    summary = summary_of(meta, runs)
    (out / "summary.json").write_text(json.dumps(summary, indent=1) + "\n")
    (out / "summary.md").write_text("\n".join(page_of(summary)) + "\n")


if __name__ == "__main__":
    write(pathlib.Path(sys.argv[1]))
