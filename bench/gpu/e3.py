#!/usr/bin/env python3
"""E3 on a GPU: GRPO on products of three digits by one, sampled by kernels that are not the trained one.

    python3 bench/gpu/e3.py OUT --steps 3000                        # writes OUT/curves.jsonl, summary.json, summary.md
    python3 bench/gpu/e3.py OUT --steps 3000 --seconds 500          # stops in time, with its state in OUT/state.pt
    python3 bench/gpu/e3.py OUT --steps 3000 --resume --seconds 500 # goes on from there
    python3 bench/gpu/e3.py OUT --device cpu --small --steps 2      # two runs of two steps

All runs, arms times seeds, are trained at once in one stack (stacked_llama.py). Runs of a seed get the same
problems and the same random numbers in every arm. K_train is float32; a step is one update on 64 answers to 8
problems. The recipe is --help; what the arms do is e3_arms.py, what is expected and found e3_page.py. To
repeat it at another size, change RECIPE or give another checkpoint with --model.
"""

import argparse
import dataclasses
import gzip
import json
import os
import pathlib
import shutil
import sys
import time
import zlib

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parents[2] / "python")]

import e3_arms as arms_module  # noqa: E402
import e3_page  # noqa: E402
import stacked_llama as llama  # noqa: E402
import torch  # noqa: E402

from kcc.model import corpus  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]


@dataclasses.dataclass(frozen=True)
class Recipe:
    problems: int = 8  # a step
    samples: int = 8  # of each problem
    length: int = 35  # tokens of the longest answer and its end
    rate: float = 1e-4
    clip: float = 0.2
    gradient: float = 1.0
    betas: tuple = (0.9, 0.98)
    evaluated: int = 256  # held-out problems
    evaluate_every: int = 50
    log_every: int = 10
    calibration_batches: int = 4
    kept_at_calibration: float = 0.95  # share of the sequences that a fitted threshold keeps before the first step


def document(a, b):
    """A product in the words of kcc.model.corpus."""
    steps, carry = [], 0
    for digit in str(a)[::-1]:
        total = int(digit) * b + carry
        steps.append(f"{digit}*{b}+{carry}={total}")
        carry = total // 10
    return corpus.Document("arithmetic", f"{a}*{b}", " ".join(steps) + f" so {a * b}")


class Task:
    """7,200 products; a sixteenth is held out by the hash of its prompt."""

    def __init__(self, recipe, device):
        documents = [document(a, b) for a in range(100, 1000) for b in range(2, 10)]
        self.prompts = torch.tensor([each.prompt_ids for each in documents], device=device)
        answers = [each.answer_ids + [corpus.PAD] * (recipe.length - len(each.answer_ids)) for each in documents]
        self.answers = torch.tensor(answers, device=device)
        held_out = [zlib.crc32(each.prompt.encode()) % 16 == 0 for each in documents]
        self.training = torch.tensor([i for i, held in enumerate(held_out) if not held], device=device)
        order = torch.randperm(sum(held_out), generator=torch.Generator().manual_seed(0))
        self.evaluation = torch.tensor([i for i, held in enumerate(held_out) if held])[order][: recipe.evaluated]

    def reward(self, problems, tokens):
        """1 for the whole answer, its working and its end. problems [runs, sequences]"""
        return (tokens == self.answers[problems]).all(-1).float()


class Sampler:
    """Rollouts of a stack of weights, as a CUDA graph where there is CUDA: their thousands of launches as one."""

    def __init__(self, weights, config, angles, names, shape, device, graphed):
        runs, sequences, before, length = shape
        self.prompts = torch.zeros(runs, sequences, before, dtype=torch.long, device=device)
        self.uniform = torch.zeros(runs, sequences, length, device=device)
        rounding = llama.Rounding(names)
        self._work = lambda: llama.rollout(weights, config, angles, rounding, self.prompts, self.uniform)
        self._graph = None
        if graphed and device.type == "cuda":
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                self._work()
            torch.cuda.current_stream().wait_stream(stream)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                self._found = self._work()
            self._graph = graph

    def __call__(self, prompts, uniform):
        """Tokens, log-probs, mask. On CUDA they are overwritten by the next call."""
        self.prompts.copy_(prompts)
        self.uniform.copy_(uniform)
        if self._graph is None:
            return self._work()
        self._graph.replay()
        return self._found


class Experiment:
    def __init__(self, options, recipe):
        self.recipe, self.device = recipe, torch.device(options.device)
        names = options.arms.split(";") if options.arms else list(arms_module.ARMS)
        self.arms = [arm for arm in arms_module.ARMS.values() if arm.name in {name.strip() for name in names}]
        if len(self.arms) != len(names):
            sys.exit(f"arms are {'; '.join(arms_module.ARMS)}")
        self.arms.sort(key=lambda arm: list(llama.KERNELS).index(arm.rollout))
        self.seeds = options.seeds
        count = len(self.seeds)
        self.runs = [(arm, seed) for arm in self.arms for seed in self.seeds]
        self.slice_of = {arm.name: slice(i * count, (i + 1) * count) for i, arm in enumerate(self.arms)}
        self.rollout_names = [arm.rollout for arm, _ in self.runs]
        self.task = Task(recipe, self.device)
        self.config, self.weights = llama.load(options.model, len(self.runs), self.device)
        self.reference = {name: tensor[:1].clone() for name, tensor in self.weights.items()}
        self.sampling = {name: tensor.clone() for name, tensor in self.weights.items()}
        for tensor in self.weights.values():
            tensor.requires_grad_()
        before = self.task.prompts.shape[1]
        self.angles = llama.Angles(self.config, before + recipe.length, self.device)
        shape = (len(self.runs), recipe.problems * recipe.samples, before, recipe.length)
        self.refresh(0)
        make = (self.config, self.angles)
        self.sample = Sampler(self.sampling, *make, self.rollout_names, shape, self.device, not options.eager)
        self.sample_train = Sampler(self.weights, *make, ["f32"] * len(self.runs), shape, self.device, not options.eager)
        self.optimizer = torch.optim.AdamW(
            self.weights.values(), lr=recipe.rate, betas=recipe.betas, weight_decay=0.0, fused=self.device.type == "cuda"
        )
        # Runs whose old log-probs another kernel computes.
        others = [run for run, (arm, _) in enumerate(self.runs) if arm.old not in ("f32", arms_module.BYPASS)]
        self.others = torch.tensor(others, dtype=torch.long, device=self.device)
        self.names_of_others = [self.runs[run][0].old for run in others]
        # Runs whose sampling weights are older than their own.
        waiting = [run for run, (arm, _) in enumerate(self.runs) if arm.lag > 1]
        self.waiting = torch.tensor(waiting, dtype=torch.long, device=self.device)
        self.step = 0
        self.thresholds = {}

    # --- what a step is given

    def _numbers(self, seed, step, sequences, what):
        """The same in every arm, and in a run that was resumed: they follow from seed and step."""
        generator = torch.Generator(self.device).manual_seed((seed * 1_000_003 + step) * 8 + what)
        shape = (sequences, self.recipe.length)
        return torch.rand(shape, generator=generator, device=self.device).clamp_min(1e-7)

    def _by_run(self, of_seed):
        return torch.stack([of_seed(seed) for seed in self.seeds]).repeat(len(self.arms), *[1] * of_seed(self.seeds[0]).dim())

    def _problems(self, step, what):
        def of_seed(seed):
            generator = torch.Generator(self.device).manual_seed((seed * 1_000_003 + step) * 8 + what)
            drawn = torch.rand(len(self.task.training), generator=generator, device=self.device)
            return self.task.training[drawn.topk(self.recipe.problems).indices].repeat_interleave(self.recipe.samples)

        return self._by_run(of_seed)

    def refresh(self, step):
        """The sampling kernels get the weights of now, but for those that wait for their turn."""
        waiting = {run for run, (arm, _) in enumerate(self.runs) if step % arm.lag}
        llama.quantise_into(self.sampling, self.weights, self.rollout_names, skip=waiting)

    def _draw(self, sampler, problems, step, what):
        uniform = self._by_run(lambda seed: self._numbers(seed, step, problems.shape[1], what))
        return sampler(self.task.prompts[problems], uniform)

    def _score(self, weights, config_tokens, rounding=llama.NOTHING):
        """Logits of the answers' tokens, given prompts and answers."""
        return llama.forward(weights, self.config, self.angles, config_tokens[:, :, :-1], self.recipe.length, rounding)

    def _old_of_others(self, inputs, tokens):
        """Log-probs by the quantised kernels that recompute for `others`."""
        weights = {name: tensor.detach()[self.others] for name, tensor in self.weights.items()}
        names = self.names_of_others
        llama.quantise_into(weights, {name: tensor.clone() for name, tensor in weights.items()}, names)
        with torch.no_grad():
            logits = self._score(weights, inputs[self.others], llama.Rounding(names))
            return llama.log_probs(logits, tokens[self.others])

    # --- one step

    def calibrate(self):
        """The mean k3 of a sequence that a share of them stays below before the first step, by kernel."""
        found = {}
        for batch in range(self.recipe.calibration_batches):
            problems = self._problems(batch, 6)
            tokens, rolled, mask = self._draw(self.sample, problems, batch, 7)
            with torch.no_grad():
                inputs = torch.cat([self.task.prompts[problems], tokens], -1)
                d = llama.log_probs(self._score(self.weights, inputs), tokens) - rolled
                k3 = arms_module.masked_mean(d.expm1() - d, mask)
            for name, begin, end in llama.spans(self.rollout_names):
                found.setdefault(name, []).append(k3[begin:end].flatten().cpu())
        kept = self.recipe.kept_at_calibration
        self.thresholds = {name: float(torch.cat(parts).quantile(kept)) for name, parts in found.items()}
        self.arms = [arm.with_threshold(self.thresholds[arm.rollout]) for arm in self.arms]

    def update(self, backward):
        """One update of every run; figures, [runs] each, that nobody has waited for."""
        self.refresh(self.step)
        problems = self._problems(self.step, 0)
        tokens, rolled, mask = self._draw(self.sample, problems, self.step, 1)
        reward = self.task.reward(problems, tokens)
        groups = reward.unflatten(1, (self.recipe.problems, self.recipe.samples))
        spread = groups - groups.mean(-1, keepdim=True)
        advantage = (spread / (groups.std(-1, unbiased=False, keepdim=True) + 1e-4)).flatten(1)[..., None]
        inputs = torch.cat([self.task.prompts[problems], tokens], -1)
        torch.set_float32_matmul_precision("highest")
        logp = llama.log_probs(self._score(self.weights, inputs), tokens)
        now = logp.detach()
        old = now.clone()
        if self.names_of_others:
            old[self.others] = self._old_of_others(inputs, tokens)
        values, cuts, kept_all, changed = [], [], [], []
        for arm in self.arms:
            at = self.slice_of[arm.name]
            base = rolled[at] if arm.old == arms_module.BYPASS else old[at]
            value, cut = arms_module.surrogate(logp[at] - base, advantage[at], self.recipe.clip, arm.dual_clip)
            d = base - rolled[at]
            weight, kept = arms_module.weights_of(arm.correction, d, mask[at])
            values.append(value * weight * kept)
            cuts.append(cut & mask[at])
            kept_all.append(weight * kept > 0)
            moved = (weight - d.exp()).abs() > 1e-6 if arm.correction.get("weight") else torch.zeros_like(kept)
            changed.append(moved & mask[at])
        count = mask.sum((1, 2))
        # A run's gradient is its own: the sum over runs mixes none.
        loss = -(torch.cat(values).masked_fill(~mask, 0.0).sum((1, 2)) / count).sum()
        torch.set_float32_matmul_precision(backward)
        loss.backward()
        torch.set_float32_matmul_precision("highest")
        length = self._limit_gradients()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        share = lambda parts: torch.cat(parts).sum((1, 2)) / count  # noqa: E731
        self.step += 1
        return {
            "reward": reward.mean(1),
            "tokens": count / reward.shape[1],
            "idle_groups": (groups.std(-1, unbiased=False) == 0).float().mean(1),
            **arms_module.mismatch_figures(now - rolled, advantage, mask),
            "kept": share(kept_all),
            "ppo_cut": share(cuts),
            "weight_cut": share(changed),
            "gradient": length,
        }

    def _limit_gradients(self):
        """Each run's gradient is made no longer than the recipe's; one that is not finite becomes zero."""
        gradients = [tensor.grad for tensor in self.weights.values()]
        squares = torch.stack([gradient.flatten(1).square().sum(1) for gradient in gradients])
        length = squares.sum(0).sqrt()
        factor = (self.recipe.gradient / length.clamp_min(1e-12)).clamp_max(1)
        for gradient in gradients:
            gradient.mul_(factor.view(-1, *[1] * (gradient.dim() - 1)))
            torch.nan_to_num_(gradient, 0.0, 0.0, 0.0)
        return length

    # --- evaluation

    @torch.no_grad()
    def evaluate(self):
        """Held-out reward under both policies, and both policies' distributions on the same answers."""
        self.refresh(self.step)
        batch = self.recipe.problems * self.recipe.samples
        rewards = {"train": [], "infer": []}
        figures = {}
        for number, part in enumerate(self.task.evaluation.split(batch)):
            padded = torch.cat([part, part.new_zeros(batch - len(part))]) if len(part) < batch else part
            problems = padded.to(self.device).expand(len(self.runs), -1)
            for side, sampler in (("infer", self.sample), ("train", self.sample_train)):
                tokens, _, mask = self._draw(sampler, problems, self.step * 64 + number, 2)
                rewards[side].append(self.task.reward(problems, tokens)[:, : len(part)])
            if number == 0:
                figures = self._distributions(problems, tokens, mask)
        for side, parts in rewards.items():
            figures[f"reward_{side}"] = torch.cat(parts, 1).mean(1)
        return figures

    def _distributions(self, problems, tokens, mask):
        inputs = torch.cat([self.task.prompts[problems], tokens], -1)
        train = self._score(self.weights, inputs).log_softmax(-1)
        both = (1, 2)
        entropy = -(train.exp() * train).sum(-1)
        figures = {"entropy": arms_module.masked_mean(entropy, mask, both)}
        infer = self._score(self.sampling, inputs, llama.Rounding(self.rollout_names)).log_softmax(-1)
        figures["full_kl"] = arms_module.masked_mean((infer.exp() * (infer - train)).sum(-1), mask, both)
        figures["full_tv"] = arms_module.masked_mean((infer.exp() - train.exp()).abs().sum(-1) / 2, mask, both)
        flips = (infer.argmax(-1) != train.argmax(-1)).float()
        figures["flips"] = arms_module.masked_mean(flips, mask, both)
        del infer
        runs = len(self.runs)
        as_one = self._score(self.reference, inputs.flatten(0, 1)[None]).view(runs, *train.shape[1:])
        apart = (train.exp() * (train - as_one.log_softmax(-1))).sum(-1)
        return figures | {"kl_reference": arms_module.masked_mean(apart, mask, both)}

    # --- state

    def save(self, path):
        part = path.with_suffix(".part")
        torch.save({
            "step": self.step, "thresholds": self.thresholds, "identity": self.identity(),
            "weights": {name: tensor.detach() for name, tensor in self.weights.items()},
            "waiting": {name: tensor[self.waiting] for name, tensor in self.sampling.items()},
            "optimizer": self.optimizer.state_dict(),
        }, part)  # fmt: skip
        os.replace(part, path)

    def restore(self, path):
        state = torch.load(path, map_location=self.device, weights_only=True)
        if state["identity"] != self.identity():
            sys.exit(f"{path} is of other arms, seeds or another recipe: {state['identity']}")
        with torch.no_grad():
            for name, tensor in self.weights.items():
                tensor.copy_(state["weights"][name])
                self.sampling[name][self.waiting] = state["waiting"][name]
        self.optimizer.load_state_dict(state["optimizer"])
        self.step, self.thresholds = state["step"], state["thresholds"]
        self.arms = [arm.with_threshold(self.thresholds[arm.rollout]) for arm in self.arms]

    def identity(self):
        return json.dumps([[arm.name for arm in self.arms], self.seeds, dataclasses.asdict(self.recipe)])

    def described(self):
        return {
            "recipe": dataclasses.asdict(self.recipe),
            "seeds": self.seeds,
            "arms": [dataclasses.asdict(arm) for arm in self.arms],
            "thresholds": self.thresholds,
            "parameters": sum(tensor.numel() for tensor in self.reference.values()),
            "torch": torch.__version__,
            "device": torch.cuda.get_device_name() if self.device.type == "cuda" else "CPU",
        }


class Curves:
    """OUT/curves.jsonl: a line for each run and interval of steps, with means, the largest of the maxima, and evaluations."""

    def __init__(self, path, runs, step):
        self._path, self._runs = path, runs
        kept = []
        if step and path.exists():  # lines beyond the saved state are computed again
            kept = [line for line in path.read_text().splitlines(True) if json.loads(line)["step"] <= step]
        path.write_text("".join(kept))
        self._sums, self._count = None, 0

    def add(self, figures):
        names = sorted(figures)
        new = torch.stack([figures[name].float() for name in names])
        largest = [name.startswith("max_") for name in names]
        if self._sums is None:
            self._names, self._sums, self._largest = names, torch.zeros_like(new), torch.tensor(largest, device=new.device)
        self._sums = torch.where(self._largest[:, None], torch.maximum(self._sums, new), self._sums + new)
        self._count += 1

    def write(self, step, evaluated=None):
        """Waits for the device."""
        columns = {}
        if self._count:
            divisor = torch.where(self._largest, 1.0, float(self._count))[:, None]
            columns |= dict(zip(self._names, (self._sums / divisor).tolist()))
            self._sums, self._count = None, 0
        columns |= {f"eval_{name}": values.tolist() for name, values in (evaluated or {}).items()}
        with self._path.open("a") as file:
            for run, (arm, seed) in enumerate(self._runs):
                line = {"step": step, "arm": arm.name, "seed": seed}
                line |= {name: float(f"{values[run]:.4g}") for name, values in columns.items()}
                file.write(json.dumps(line) + "\n")


def parsed():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--seconds", type=float, help="stop after these, with everything written and the state saved")
    parser.add_argument("--resume", action="store_true", help="go on from OUT/state.pt")
    parser.add_argument("--copy", type=pathlib.Path, help="a folder that gets a copy of what is small: all but the state")
    parser.add_argument("--arms", help=f"of {'; '.join(arms_module.ARMS)}; separated by semicolons")
    parser.add_argument("--seeds", type=lambda text: [int(each) for each in text.split(",")], default=[10, 11, 12])
    parser.add_argument("--rate", type=float, default=1e-4, help="3e-4 ends the exact arm, too")
    parser.add_argument("--model", type=pathlib.Path, default=ROOT / "models/kcc-lab")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--backward", choices=("highest", "high"), default="high", help="high: products of the backward pass in TF32")
    parser.add_argument("--eager", action="store_true", help="sample without CUDA graphs")
    parser.add_argument("--small", action="store_true", help="two runs of four answers")
    return parser.parse_args()


def main():
    begun = time.monotonic()
    options = parsed()
    recipe = Recipe(rate=options.rate)
    if options.small:
        options.arms, options.seeds = options.arms or "exact; int4 TIS + RS fitted", options.seeds[:1]
        recipe = dataclasses.replace(recipe, problems=2, samples=2, evaluated=4, evaluate_every=2, log_every=1, calibration_batches=1)
    torch.manual_seed(0)
    out = options.out
    out.mkdir(parents=True, exist_ok=True)
    state = out / "state.pt"
    if options.resume and not state.exists():
        sys.exit(f"there is no {state} to go on from")
    experiment = Experiment(options, recipe)
    if options.resume:
        experiment.restore(state)
    else:
        experiment.calibrate()
    first = experiment.step
    curves = Curves(out / "curves.jsonl", experiment.runs, first)
    if not options.resume:
        curves.write(0, experiment.evaluate())
    print(f"{len(experiment.runs)} runs, from step {first}, set up in {time.monotonic() - begun:.1f} s", flush=True)
    stepping, told = time.monotonic(), 0
    while experiment.step < options.steps:
        curves.add(experiment.update(options.backward))
        if experiment.step % recipe.log_every:
            continue
        due = experiment.step % recipe.evaluate_every == 0 or experiment.step == options.steps
        curves.write(experiment.step, experiment.evaluate() if due else None)
        now = time.monotonic()
        if now - told > 20:
            told, each = now, (now - stepping) / (experiment.step - first)
            print(f"step {experiment.step}, {each:.3f} s a step, {now - begun:.0f} s", flush=True)
        if options.seconds and now - begun > options.seconds:
            break
    taken = experiment.step - first
    meta = experiment.described() | {"step": experiment.step, "backward": options.backward}
    meta["secondsPerStep"] = (time.monotonic() - stepping) / max(taken, 1)
    (out / "meta.json").write_text(json.dumps(meta, indent=1) + "\n")
    e3_page.write(out)
    if options.copy:
        options.copy.mkdir(parents=True, exist_ok=True)
        with gzip.open(options.copy / "curves.jsonl.gz", "wb") as file:
            file.write((out / "curves.jsonl").read_bytes())
        for name in ("meta.json", "summary.json", "summary.md"):
            shutil.copy(out / name, options.copy / name)
    if experiment.step < options.steps:
        experiment.save(state)
    print(f"step {experiment.step} of {options.steps}, {meta['secondsPerStep']:.3f} s a step; {out / 'summary.md'}")


if __name__ == "__main__":
    main()
