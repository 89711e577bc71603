"""The monitor: step by step, over ranks, in a real GRPO run, in verl's place."""

import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import torch

import kcc

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONTRACT = ROOT / "python/kcc/data/contract.yaml"
TRUNCATE = {"weight": {"mode": "truncate", "level": "token", "high": 2.0}}


def step(seed=0, rows=8, noise=0.01):
    rng = np.random.default_rng(seed)
    rollout = -rng.gamma(0.6, 0.8, (rows, 32)).astype(np.float32)
    train = np.minimum(rollout + noise * rng.standard_normal(rollout.shape).astype(np.float32), 0)
    return train, rollout, np.arange(32) < rng.integers(8, 33, rows)[:, None]


def test_every_step_has_a_verdict_metrics_and_weights():
    monitor = kcc.Monitor(CONTRACT, limits={"token.k3": 1e-3}, correction=TRUNCATE)
    slices = ["math", "code"] * 4
    quiet = monitor.step(*step(), slices=slices)
    loud = monitor.step(*step(seed=1, noise=0.5), slices=slices)
    assert (quiet.number, quiet.verdict, loud.verdict, loud.action) == (1, "satisfied", "violated", "fallback")
    assert quiet.metrics["kcc/clause/N-RLHF-1/code/satisfied"] == 1
    assert loud.metrics["kcc/limit/token.k3/satisfied"] == 0
    assert all(isinstance(value, float) for value in quiet.metrics.values())
    assert quiet.weights.shape == (8, 32) and quiet.mask.dtype == np.bool_
    assert set(quiet.figures) == {"", "math", "code"}
    assert monitor.total.figures()[""]["tokens"] == quiet.figures[""]["tokens"] + loud.figures[""]["tokens"]


def test_the_build_that_a_monitor_is_told_covers_the_fingerprint():
    text = CONTRACT.read_text() + (
        "  observability:\n"
        "    - {id: O-1, metric: trace_field_coverage, atLeast: 1, fields: [kernel_fingerprint], level: L3}\n"
        "    - {id: O-2, metric: fingerprint_match_rate, atLeast: 1, level: L3}\n"
    )
    contract = kcc.Contract(text)

    def rows(**names):
        report = kcc.Monitor(contract, **names).step(*step(), slices=["math", "code"] * 4).report
        return {clause["id"]: clause["slices"][0] for clause in report.clauses}

    told, untold = rows(infer_fingerprint="vllm-0.18 fp8"), rows()
    assert told["O-1"]["verdict"] == "satisfied"
    assert untold["O-1"]["verdict"] == "violated"
    assert "missing: kernel_fingerprint from 8 of 8 requests" in untold["O-1"]["reason"]
    # Nobody has said which replica answered.
    assert told["O-2"]["verdict"] == untold["O-2"]["verdict"] == "inconclusive"


SLICED = """
apiVersion: kcc/v1
kind: KernelContract
metadata: {name: sliced, version: 1.0.0}
spec:
  slices:
    - {name: pushed-up, where: token.advantage > 0}
    - {name: long, where: output_tokens >= 20}
    - {name: solved, where: reward > 0.5}
    - {name: hard, where: difficulty == 'hard'}
    - {name: tagged, where: "'x' in tags"}
  numerical:
    - {id: N-1, metric: mean_abs_log_ratio, atMost: 0.02, slices: [all, pushed-up, long, solved, hard, tagged], level: L3}
"""


def rows_of(report):
    return {row["slice"]: row for row in report.clauses[0]["slices"]}


@pytest.mark.parametrize("kind", [np.asarray, torch.as_tensor])
def test_advantages_rewards_and_fields_reach_the_slices(kind):
    train, rollout, mask = step()
    lengths = mask.sum(axis=1)
    advantages = np.array([1, -1, 0.5, -0.5, 0, 2, -2, 1], np.float32)
    rewards = np.array([1, 0, 1, np.nan, 0, 1, 0, 1], np.float32)
    result = kcc.Monitor(kcc.Contract(SLICED)).step(
        *map(kind, (train, rollout, mask)), advantages=kind(advantages), rewards=kind(rewards),
        fields={"difficulty": ["hard", "easy"] * 4}, tags=[["x"]] * 2 + [[]] * 6,
    )  # fmt: skip
    tokens = {name: row["count"]["tokens"] for name, row in rows_of(result.report).items()}
    assert tokens == {
        "all": lengths.sum(),
        "pushed-up": lengths[advantages > 0].sum(),
        "long": lengths[lengths >= 20].sum(),
        "solved": lengths[rewards > 0.5].sum(),
        "hard": lengths[::2].sum(),
        "tagged": lengths[:2].sum(),
    }
    assert 0 < tokens["long"] < tokens["all"], "the padded width is no length"
    per_token = np.repeat(advantages[:, None], 32, axis=1)
    again = kcc.Monitor(kcc.Contract(SLICED)).step(train, rollout, mask, advantages=per_token)
    assert rows_of(again.report)["pushed-up"]["count"] == rows_of(result.report)["pushed-up"]["count"]


def test_a_field_that_no_request_has_is_told_apart_from_an_empty_slice():
    train, rollout, mask = step()
    monitor = kcc.Monitor(kcc.Contract(SLICED))
    bare = rows_of(monitor.step(train, rollout, mask).report)
    assert {row["verdict"] for name, row in bare.items() if name not in ("all", "long")} == {"inconclusive"}
    assert "no request has the field 'reward'" in bare["solved"]["reason"]
    assert "no request has the field 'tags'" in bare["tagged"]["reason"]
    assert "no token has an advantage" in bare["pushed-up"]["reason"]
    given = monitor.step(
        train, rollout, mask, advantages=np.full(8, -1.0), rewards=[0.0] * 8, tags=[[]] * 8, fields={"difficulty": ["easy"] * 8}
    )
    for name, row in rows_of(given.report).items():
        if name in ("solved", "hard", "tagged"):
            assert row["verdict"] == "inconclusive" and "no request of the evidence is in this slice" in row["reason"], name


def test_metrics_tell_the_verdicts_apart():
    train, rollout, mask = step()
    metrics = kcc.Monitor(kcc.Contract(SLICED)).step(train, rollout, mask).metrics
    shown = {name: metrics[f"kcc/clause/N-1/solved/{name}"] for name in ("satisfied", "violated", "inconclusive")}
    assert shown == {"satisfied": 0, "violated": 0, "inconclusive": 1}
    assert metrics["kcc/clause/N-1/all/satisfied"] == 1
    assert (metrics["kcc/satisfied"], metrics["kcc/inconclusive"], metrics["kcc/violated"]) == (0, 1, 0)
    loud = kcc.Monitor(limits={"token.k3": 1e-9}).step(train, rollout, mask).metrics
    assert loud["kcc/violated"] == 1 and loud["kcc/limit/token.k3/violated"] == 1


@pytest.mark.parametrize(
    "more, error",
    [
        ({"fields": [1]}, kcc.DTypeError),
        ({"fields": {"reward": [1]}}, kcc.ShapeError),
        ({"fields": {"reward": [1] * 8}, "rewards": [1] * 8}, kcc.InvalidInput),
        ({"fields": {"id": ["a"] * 8}}, kcc.InvalidInput),
        ({"rewards": 1.0}, kcc.DTypeError),
    ],
)
def test_wrong_fields_are_refused(more, error):
    with pytest.raises(error):
        kcc.Monitor(kcc.Contract(SLICED)).step(*step(), **more)


def test_modules_for_frameworks_are_there_when_named():
    code = "import kcc; kcc.verl.compute_rollout_correction_and_rejection_mask; kcc.ray.measure; kcc.trace.write_trace; kcc.trl.watch"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT / "python", check=False)
    assert done.returncode == 0, done.stderr
    lazy = "import sys, kcc; assert not {'torch', 'transformers', 'ray'} & set(sys.modules)"
    assert subprocess.run([sys.executable, "-c", lazy], cwd=ROOT / "python", check=False).returncode == 0


def test_a_monitor_without_a_measure_is_refused():
    with pytest.raises(kcc.InvalidInput, match="contract or limits"):
        kcc.Monitor()
    with pytest.raises(kcc.InvalidInput, match="token.k3"):
        kcc.Monitor(limits={"token.k33": 1}).step(*step())


RANK = """
import os, sys
import numpy as np, torch.distributed as distributed
sys.path.insert(0, {python!r})
import kcc
rank, world = int(sys.argv[1]), int(sys.argv[2])
if world > 1:
    distributed.init_process_group("gloo", init_method="file://" + sys.argv[3], rank=rank, world_size=world)
rng = np.random.default_rng(0)
rollout = -rng.gamma(0.6, 0.8, (8, 32)); train = np.minimum(rollout + 0.01, 0)
rows = slice(rank * 8 // world, (rank + 1) * 8 // world)
monitor = kcc.Monitor({contract!r})
ids = ["r%d" % row for row in range(8)]
result = monitor.step(train[rows], rollout[rows], ids=ids[rows], slices=["math"] * 8 and (["math", "code"] * 4)[rows])
open(sys.argv[4], "wb").write(monitor.summary.to_bytes() + monitor.total.to_bytes())
open(sys.argv[4] + ".json", "w").write(result.report.render("json"))
"""


def test_two_gloo_ranks_merge_to_the_bytes_of_one(tmp_path):
    script = tmp_path / "rank.py"
    script.write_text(RANK.format(python=str(ROOT / "python"), contract=str(CONTRACT)))

    def run(rank, world):
        command = [sys.executable, script, str(rank), str(world), tmp_path / "rendezvous", tmp_path / f"{rank}-{world}"]
        return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)

    for processes in ([run(0, 1)], [run(0, 2), run(1, 2)]):
        for process in processes:
            _, stderr = process.communicate(timeout=120)
            assert process.returncode == 0, stderr
    reports = [json.loads((tmp_path / f"{name}.json").read_text()) for name in ("0-1", "0-2", "1-2")]
    assert reports[0] == reports[1] == reports[2]
    single = (tmp_path / "0-1").read_bytes()
    assert (tmp_path / "0-2").read_bytes() == single and (tmp_path / "1-2").read_bytes() == single


def test_verls_function_in_verls_place():
    import kcc.verl

    train, rollout, mask = (torch.from_numpy(each) for each in step(noise=0.5))
    weights, kept, metrics = kcc.verl.compute_rollout_correction_and_rejection_mask(
        train, rollout, mask.long(), rollout_is="token", rollout_is_threshold=2.0,
        rollout_rs="token_k1", rollout_rs_threshold="0.5_2.0",
    )
    ratio = (train - rollout).exp().clamp(max=2.0) * mask
    torch.testing.assert_close(weights["rollout_is_weights"], ratio)
    assert kept.dtype == torch.long and kept.sum() < mask.sum()
    assert metrics["rollout_corr/kl"] == pytest.approx((rollout - train)[mask].mean().item(), rel=1e-4)


def test_a_monitor_records_the_temperatures_it_is_told():
    rollout = np.full((400, 8), -0.5, np.float32)
    contract = kcc.Contract("""
apiVersion: kcc/v1
kind: KernelContract
metadata: {name: sampled, version: 1.0.0}
spec:
  assumptions: {temperature: 1.0, tokensMax: 8}
  decision: {about: traffic}
  numerical:
    - {id: N-1, metric: mean_tv, atMost: 0.2, level: L3}
""")
    verdict = lambda **sampling: kcc.Monitor(contract, **sampling).step(rollout, rollout).verdict  # noqa: E731
    assert verdict() == verdict(sampling_temperature=1.0) == "satisfied"
    assert verdict(sampling_temperature=0.0) == verdict(sampling_temperature=0.7) == "inconclusive"
    assert verdict(temperature=0.7) == "error"
