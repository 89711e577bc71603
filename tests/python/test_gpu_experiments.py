"""The experiments of bench/gpu (E1 and E2 on shapes, E3 on a stack of runs), on the CPU at sizes of seconds."""

import dataclasses
import json
import os
import pathlib
import struct
import subprocess
import sys

import numpy as np
import pytest

import kcc

torch = pytest.importorskip("torch")

ROOT = pathlib.Path(__file__).resolve().parents[2]
GPU = ROOT / "bench/gpu"
sys.path.insert(0, str(GPU))
import e3  # noqa: E402
import e3_arms  # noqa: E402
import e3_page  # noqa: E402
import stacked_llama as stacked  # noqa: E402
from kcc.model import llama  # noqa: E402

MODEL = ROOT / "models/kcc-lab"


def script(name, *arguments):
    command = [sys.executable, GPU / name, *map(str, arguments), "--device", "cpu", "--small"]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"}, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def answered():
    """Requests of eval.jsonl that are short: (line, prompt and output)."""
    lines = [json.loads(line) for line in (MODEL / "eval.jsonl").read_text().splitlines()]
    return [line for line in lines if "arithmetic" in line["tags"]][:12]


def logits_of(answered, names):
    """[names, tokens, vocab] of the outputs, by the stack."""
    config, weights = stacked.load(MODEL, len(names), "cpu")
    rounded = {name: tensor.clone() for name, tensor in weights.items()}
    stacked.quantise_into(rounded, weights, names)
    angles, rounding = stacked.Angles(config, 64, "cpu"), stacked.Rounding(names)
    with torch.no_grad():
        return torch.cat([
            stacked.forward(rounded, config, angles, torch.tensor(line["prompt"] + line["output"]).expand(len(names), 1, -1)[:, :, :-1],
                            len(line["output"]), rounding)[:, 0]
            for line in answered
        ], 1)  # fmt: skip


def test_the_stack_is_the_model(answered):
    found = logits_of(answered, ["f32", "f32"])
    model = llama.load(MODEL)
    with torch.no_grad():
        expected = torch.cat([
            model(torch.tensor([line["prompt"] + line["output"]])[:, :-1])[0, len(line["prompt"]) - 1 :] for line in answered
        ])  # fmt: skip
    assert (found - expected).abs().max() < 1e-4
    assert (found[0] == found[1]).all()


def test_the_4_bit_kernels_are_those_of_the_lab(answered, kcc, tmp_path):
    """The same errors, not only errors of the same size: log-ratios against float32 agree token by token."""
    requests = tmp_path / "requests.jsonl"
    requests.write_text("".join(json.dumps(line) + "\n" for line in answered))
    tokens = torch.tensor([token for line in answered for token in line["output"]])[:, None]
    mine = logits_of(answered, ["f32", "int4", "int4c"]).log_softmax(-1).gather(-1, tokens.expand(3, -1, 1))[..., 0]
    labs = []
    for place, kernel in enumerate(("lab:f32", "lab:int4?batch=invariant", "lab:int4?batch=invariant&scale=channel")):
        assert kcc("score", kernel, "--requests", requests, "-o", tmp_path / str(place)).code == 0
        data = (tmp_path / str(place) / "tokens-00000.safetensors").read_bytes()
        (size,) = struct.unpack_from("<Q", data)
        begin, end = json.loads(data[8 : 8 + size])["logprob"]["data_offsets"]
        labs.append(torch.from_numpy(np.frombuffer(data[8 + size + begin : 8 + size + end], "<f4").copy()))
    assert (mine[0] - labs[0]).abs().max() < 1e-4
    for ours, labs_own in zip(mine[1:], labs[1:]):
        ratios = torch.stack([ours - mine[0], labs_own - labs[0]])
        assert ratios.abs().mean() > 1e-4
        assert torch.corrcoef(ratios)[0, 1] > 0.99


@pytest.mark.parametrize("name", e3_arms.ARMS)
def test_corrections_are_those_of_the_library(name):
    arm = e3_arms.ARMS[name].with_threshold(2e-3)
    generator = torch.Generator().manual_seed(5)
    rollout = -torch.rand(40, 35, generator=generator) - 0.3
    old = rollout + 0.1 * torch.randn(40, 35, generator=generator) * torch.rand(40, 1, generator=generator)
    mask = torch.arange(35) < torch.randint(20, 36, (40, 1), generator=generator)
    corrected = kcc.rl.correct(old, rollout, mask, correction=arm.correction)
    weights, kept = e3_arms.weights_of(arm.correction, old - rollout, mask)
    assert (kept == corrected.mask).all()
    np.testing.assert_allclose(weights * kept, corrected.weights * corrected.mask, rtol=1e-4, atol=1e-6)


def test_figures_are_those_of_the_library():
    generator = torch.Generator().manual_seed(6)
    rollout = -torch.rand(1, 40, 35, generator=generator) - 0.3
    d = 0.1 * torch.randn(1, 40, 35, generator=generator)
    mask = torch.rand(1, 40, 35, generator=generator) < 0.8
    advantage = torch.randn(1, 40, 1, generator=generator)
    found = e3_arms.mismatch_figures(d, advantage, mask)
    expected = kcc.rl.diagnose(rollout[0] + d[0], rollout[0], mask[0], advantages=advantage[0, :, 0])["token"]
    for mine, theirs in (("mean_abs_log_ratio", "mean_abs_log_ratio"), ("k1", "k1"), ("k2", "k2"), ("k3", "k3"), ("tv", "tv"), ("ess", "ess")):
        assert found[mine].item() == pytest.approx(expected[theirs], rel=1e-3), mine


def test_e3_goes_on_where_it_was_stopped(tmp_path):
    script("e3.py", tmp_path / "whole", "--steps", 2)
    assert "step 1 of 2" in script("e3.py", tmp_path / "parts", "--steps", 2, "--seconds", 0.001)
    assert "step 2 of 2" in script("e3.py", tmp_path / "parts", "--steps", 2, "--resume", "--copy", tmp_path / "copy")
    whole, parts = ((tmp_path / name / "curves.jsonl").read_text() for name in ("whole", "parts"))
    assert whole == parts
    lines = [json.loads(line) for line in whole.splitlines()]
    assert {line["arm"] for line in lines} == {"exact", "int4 TIS + RS fitted"}
    last = {line["arm"]: line for line in lines if line["step"] == 2}
    assert last["exact"]["mean_abs_log_ratio"] < 1e-5 < 1e-4 < last["int4 TIS + RS fitted"]["mean_abs_log_ratio"]
    summary = json.loads((tmp_path / "copy/summary.json").read_text())
    assert summary["step"] == 2 and 0 < summary["thresholds"]["int4"] < 1
    assert "| exact |" in (tmp_path / "copy/summary.md").read_text()


def test_an_update_raises_what_was_rewarded(monkeypatch):
    """The advantage times the change of log-probs is above 0 in every run, of the first step that has an advantage."""
    arguments = ["e3.py", "unused", "--device", "cpu", "--arms", "exact; int4 bypass", "--seeds", "10"]
    monkeypatch.setattr(sys, "argv", arguments)
    experiment = e3.Experiment(e3.parsed(), dataclasses.replace(e3.Recipe(), problems=2, samples=6))

    def batch():
        problems = experiment._problems(experiment.step, 0)
        tokens, _, mask = experiment._draw(experiment.sample, problems, experiment.step, 1)
        reward = experiment.task.reward(problems, tokens)
        groups = reward.unflatten(1, (2, 6))
        return problems, tokens, mask, reward, (groups - groups.mean(-1, keepdim=True)).flatten(1)

    while (batch()[-1] == 0).all(1).any():
        experiment.step += 1
    problems, tokens, mask, reward, spread = batch()
    inputs = torch.cat([experiment.task.prompts[problems], tokens], -1)

    def log_probs():
        with torch.no_grad():
            return (stacked.log_probs(experiment._score(experiment.weights, inputs), tokens) * mask).sum(-1)

    before = log_probs()
    figures = experiment.update("highest")
    assert (figures["gradient"] > 0).all() and (figures["reward"] == reward.mean(1)).all()
    assert ((log_probs() - before) * spread).sum(1).gt(0).all()


def curve(rewards, k3=1e-3):
    """Lines of one run, an interval of 10 steps each."""
    for place, reward in enumerate(rewards):
        line = {"step": 10 * (place + 1), "reward": reward, "k3": k3}
        yield line | ({"eval_reward_train": reward} if place % 5 == 4 else {})


def test_a_fall_is_a_fall_of_40_steps():
    steady, falls, never_rose = [0.5] * 20, [0.5] * 10 + [0.1] * 10, [0.1] * 20
    assert e3_page.Run(list(curve(steady)), 10).fell() is None
    assert e3_page.Run(list(curve(never_rose)), 10).fell() is None
    assert e3_page.Run(list(curve(falls)), 10).fell() == 140
    assert e3_page.Run(list(curve(falls)), 10).late("eval_reward_train") == pytest.approx(0.1)


def test_intervals_are_students():
    assert e3_page.interval([0.5]) == {"mean": 0.5, "half": None}
    assert e3_page.interval([None]) is None
    # R: t.test(c(.70, .74, .73))$conf.int
    found = e3_page.interval([0.70, 0.74, 0.73])
    assert found["mean"] == pytest.approx(0.723333, abs=1e-6) and found["half"] == pytest.approx(0.051711, abs=1e-5)


def test_e1_and_e2(tmp_path):
    script("e1_e2.py", tmp_path)
    data = json.loads((tmp_path / "e1_e2.json").read_text())
    cells = data["cells"]
    assert [cell["error"] for cell in cells if "error" in cell] == []
    assert {cell["part"] for cell in cells} == {"evaluation", "prefill", "pairs", "decode"}
    by_format = {cell["format"]: cell for cell in cells if cell["part"] == "evaluation"}
    kl = {format: cell["figures"]["p50_kl"] for format, cell in by_format.items()}
    assert kl["fp16"] < kl["bf16"] < kl["fp8"]
    assert by_format["fp16"]["verdicts"]["serving"] == "satisfied"
    alone = [cell for cell in cells if cell["part"] == "decode" and cell["length"] == 1]
    assert alone and all(cell["unequal_rows"] == 0 and cell["verdicts"]["exact"] == "satisfied" for cell in alone)
    page = (tmp_path / "h200.md").read_text()
    assert "### tiny: prefill against float32" in page and "What did not run" not in page
