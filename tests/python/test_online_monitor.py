"""The online monitor in Python: the stream of a training run, and observations of any server."""

import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest

import kcc

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONTRACT = """
apiVersion: kcc/v1
kind: KernelContract
metadata: {name: watched, version: 1.0.0}
spec:
  slices:
    - {name: code, where: "'code' in tags"}
  numerical:
    - {id: N-1, metric: max_abs_log_ratio, atMost: 0.1, exceedance: 5%, slices: [all, code], level: L2}
  escalation: {L2: guard}
"""
POLICY = """
apiVersion: kcc/v1
kind: MonitorPolicy
metadata: {name: training, version: 1.0.0}
spec:
  falseAlarms: 1 per 10^5 requests
  panic: serve-safest
  audit: {sessionFilter: 64KiB}
  kernels:
    - {name: rollout, role: infer}
    - {name: trainer, role: fallback}
"""


def contract():
    return kcc.Contract(CONTRACT)


def policy():
    return kcc.MonitorPolicy(POLICY, "training.yaml")


def batch(seed, bad=0.0, rows=16, columns=8):
    """Log-probs near each other; in `bad` of the rows one token is far off."""
    rng = np.random.default_rng(seed)
    rollout = -rng.gamma(0.6, 0.8, (rows, columns)) - 0.2
    train = rollout + rng.uniform(-0.01, 0.01, rollout.shape)
    train[rng.random(rows) < bad, 0] -= 0.5
    return train, rollout


def run(monitor, seeds, bad=0.0, **more):
    return [monitor.step(*batch(seed, bad), **more) for seed in seeds]


def test_a_clean_run_raises_no_alarm_and_a_shifted_one_does():
    monitor = kcc.Monitor(contract(), policy=policy())
    clean = run(monitor, range(40), bad=0.02)
    assert all(not step.alarms and not step.guarded and step.serves == "rollout" for step in clean)
    assert clean[-1].metrics["kcc/monitor/counted"] == 16 and clean[-1].metrics["kcc/monitor/alarms"] == 0
    shifted = run(monitor, range(40, 80), bad=0.4)
    first = next(step for step in shifted if step.alarms)
    alarm = first.alarms[0]
    assert (alarm["kind"], alarm["clause"], alarm["slice"], alarm["kernel"]) == ("alarm", "N-1", "all", "rollout")
    assert alarm["reason"] and alarm["eValue"] >= alarm["eLevel"] > 0
    assert first.number - 40 <= 20, "320 rows of which 40 % are beyond what 5 % may be"
    assert first.guarded and first.serves == "trainer" and first.metrics["kcc/monitor/guarded"] == 1


def test_alarms_change_neither_a_verdict_nor_an_action():
    plain, watched = kcc.Monitor(contract()), kcc.Monitor(contract(), policy=policy())
    for seed in range(30):
        alone, step = plain.step(*batch(seed, 0.4)), watched.step(*batch(seed, 0.4))
        assert (step.verdict, step.action, step.report.data) == (alone.verdict, alone.action, alone.report.data)
        assert (alone.alarms, alone.guarded, alone.serves) == ([], False, None)
        assert {name: value for name, value in step.metrics.items() if "/monitor/" not in name} == alone.metrics
    assert watched.step(*batch(30)).guarded


def test_samples_of_one_prompt_are_one_session():
    monitor = kcc.Monitor(contract(), policy=policy())
    groups = np.repeat(np.arange(4), 4)
    first = monitor.step(*batch(0), sessions=groups)
    assert first.metrics["kcc/monitor/counted"] == 4
    again = monitor.step(*batch(1), sessions=[str(group) for group in groups])
    assert again.metrics["kcc/monitor/counted"] == 0, "the same prompts, in the same epoch"
    later = monitor.step(*batch(2), sessions=groups, time_ms=10 * 86_400_000)
    assert later.metrics["kcc/monitor/counted"] == 4
    status = monitor.online.status()
    assert (status["observations"], status["sessions"], status["kernels"][0]["audited"]) == (48, 40, 8)


def test_slices_and_logits_reach_the_stream():
    text = CONTRACT.replace("max_abs_log_ratio, atMost: 0.1", "max_kl, atMost: 0.1")
    monitor = kcc.Monitor(kcc.Contract(text), policy=policy())
    rng = np.random.default_rng(0)
    train = rng.standard_normal((6, 5, 11)).astype(np.float32)
    infer = train.copy()
    infer[0, 2, 3] += 6
    zeros = np.zeros((6, 5))
    tags = [["code"], [], ["code"], [], [], []]
    monitor.step(zeros, zeros, logits=(train, infer), tags=tags)
    pairs = {pair["slice"]: pair for pair in monitor.online.status()["kernels"][0]["clauses"]}
    assert (pairs["all"]["observations"], pairs["code"]["observations"]) == (6, 2)
    assert pairs["all"]["recent"] > 0 and pairs["code"]["recent"] > pairs["all"]["recent"]
    # Of log-probs alone nobody knows the KL: no evidence for either verdict, and no alarm.
    unknown = kcc.Monitor(kcc.Contract(text), policy=policy())
    for seed in range(20):
        assert not unknown.step(*batch(seed, 1.0)).alarms
    assert unknown.online.status()["kernels"][0]["verdict"] == "inconclusive"


def test_a_checkpoint_goes_on_as_if_nothing_had_been():
    whole, before = kcc.Monitor(contract(), policy=policy()), kcc.Monitor(contract(), policy=policy())
    run(whole, range(12), bad=0.3)
    run(before, range(7), bad=0.3)
    after = kcc.Monitor(contract(), policy=policy())
    after.restore(before.state())
    last = run(after, range(7, 12), bad=0.3)[-1]
    assert last.number == 12 and after.state() == whole.state()
    with pytest.raises(kcc.InvalidInput, match="policy"):
        kcc.Monitor(contract()).restore(before.state())
    other = kcc.Monitor(contract(), policy=kcc.MonitorPolicy(POLICY.replace("10^5", "10^6")))
    with pytest.raises(kcc.Error):
        other.restore(before.state())
    assert other.steps == 0
    with pytest.raises(kcc.DTypeError, match="state"):
        after.restore({"steps": 1})


def observation(number, kl, **more):
    tokens = {"position": list(range(len(kl))), "kl": kl}
    return {"time_ms": number, "request": f"r{number}", "kernel": "rollout", "audited": True, "train": {},
            "tokens": tokens, **more}  # fmt: skip


def kl_contract():
    return kcc.Contract(CONTRACT.replace("max_abs_log_ratio, atMost: 0.1", "max_kl, atMost: 0.1"))


def test_observations_of_any_server():
    monitor = kcc.OnlineMonitor(kl_contract(), policy())
    for number in range(50):
        decision = monitor.observe(observation(number, [0.01, 0.02]))
        assert decision["handling"] == "counted" and decision["changes"] == [] and decision["serves"] == "rollout"
    assert monitor.observe(observation(3, [5.0]))["handling"] == "duplicate"
    saved = monitor.save()
    changes = []
    for number in range(50, 150):
        changes += monitor.observe(json.dumps(observation(number, [0.01, 0.5])))["changes"]
    assert [change["kind"] for change in changes][:2] == ["alarm", "guard"]
    assert monitor.status()["serves"] == "trainer"
    restored = kcc.OnlineMonitor.restore(kl_contract(), policy(), saved)
    for number in range(50, 150):
        restored.observe(observation(number, [0.01, 0.5]))
    assert restored.save() == monitor.save()
    assert isinstance(monitor.should_audit("r1", "rollout", session="s", time_ms=5), bool)
    assert "trainer serves" in repr(monitor)


def test_a_file_is_a_policy(tmp_path):
    path = tmp_path / "policy.yaml"
    path.write_text(POLICY)
    monitor = kcc.Monitor(contract(), policy=path)
    assert monitor.step(*batch(0)).serves == "rollout"
    assert monitor.online.save() == kcc_after(batch(0)).online.save()


def kcc_after(arrays):
    monitor = kcc.Monitor(contract(), policy=policy())
    monitor.step(*arrays)
    return monitor


TWO = POLICY.replace("    - {name: trainer", "    - {name: other, role: infer}\n    - {name: trainer")

WRONG = {
    "a policy that is none": (lambda: kcc.OnlineMonitor(contract(), kcc.MonitorPolicy("kind: x", "p.yaml")), "p.yaml"),
    "a policy that is not there": (lambda: kcc.Monitor(contract(), policy="/no/such/policy.yaml"), "policy.yaml"),
    "a policy without a contract": (lambda: kcc.Monitor(limits={"token.k3": 1}, policy=policy()), "contract"),
    "which of two kernels": (lambda: kcc.Monitor(contract(), policy=kcc.MonitorPolicy(TWO)), "rollout, other"),
    "a kernel that is not there": (lambda: kcc.Monitor(contract(), policy=policy(), kernel="x"), "rollout, trainer"),
    "a kernel without a policy": (lambda: kcc.Monitor(contract(), kernel="rollout"), "policy"),
    "sessions without a policy": (lambda: kcc.Monitor(contract()).step(*batch(0), sessions=["a"] * 16), "policy"),
    "too few sessions": (lambda: kcc_after(batch(0)).step(*batch(1), sessions=["a"]), "16 rows"),
    "a session that is a float": (lambda: kcc_after(batch(0)).step(*batch(1), sessions=[0.5] * 16), "row 0"),
    "a time that is a text": (lambda: kcc_after(batch(0)).step(*batch(1), time_ms="now"), "time_ms"),
    "a time beyond 64 bits": (lambda: kcc_after(batch(0)).step(*batch(1), time_ms=2**63), "64 bits"),
    "a stage": (lambda: kcc.OnlineMonitor(contract(), policy(), stage="now"), "offline, shadow"),
    "a misspelt key": (lambda: kcc_after(batch(0)).online.observe({"reqest": "a"}), "reqest"),
    "no JSON": (lambda: kcc_after(batch(0)).online.observe("{"), "JSON"),
    "a number": (lambda: kcc_after(batch(0)).online.observe(3), "observation"),
    "a kernel of no policy": (lambda: kcc.OnlineMonitor(contract(), policy()).should_audit("r", "x"), "'x'"),
    "bytes that were not saved": (lambda: kcc.OnlineMonitor.restore(contract(), policy(), b"123"), "monitor"),
    "a text to restore": (lambda: kcc.OnlineMonitor.restore(contract(), policy(), "123"), "bytes"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_an_error_of_kccs(name):
    call, says = WRONG[name]
    with pytest.raises(kcc.Error, match=says):
        call()


def test_a_step_that_is_refused_can_be_given_again():
    monitor = kcc.Monitor(contract(), policy=policy())
    monitor.step(*batch(0))
    with pytest.raises(kcc.Error):
        monitor.step(*batch(1), kernel="x")
    assert monitor.step(*batch(1)).number == 2


THREADS = """
import sys, threading
sys.path[:0] = [{python!r}, {tests!r}]
from test_online_monitor import *
shared, runs = kcc.OnlineMonitor(kl_contract(), policy()), []
def observe(first):
    for number in range(first, 400, 4):
        shared.observe(observation(number, [0.01]))
        shared.status(), shared.save()
monitor = kcc.Monitor(contract(), policy=policy())
def train(first):
    runs.extend(run(monitor, range(first, 24, 4)))
threads = [threading.Thread(target=work, args=(first,)) for first in range(4) for work in (observe, train)]
[thread.start() for thread in threads]
[thread.join(60) for thread in threads]
assert shared.status()["observations"] == 400 and shared.status()["duplicates"] == 0
assert sorted(step.number for step in runs) == list(range(1, 25))
assert monitor.online.status()["observations"] == 24 * 16 and monitor.online.status()["duplicates"] == 0
print("fine")
"""


def test_threads_share_a_monitor():
    code = THREADS.format(python=str(ROOT / "python"), tests=str(ROOT / "tests/python"))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "fine", done.stderr


RANKS = """
import sys
sys.path[:0] = [{python!r}, {tests!r}]
import torch.distributed as distributed
from test_online_monitor import *
rank = int(sys.argv[1])
distributed.init_process_group("gloo", init_method="file://" + sys.argv[2], rank=rank, world_size=2)
monitor = kcc.Monitor(contract(), policy=policy())
for seed in range(6):
    train, rollout = batch(seed, 0.3)
    half = slice(8 * rank, 8 * rank + 8)
    step = monitor.step(train[half], rollout[half], ids=[f"row{{row:02d}}" for row in range(16)][half])
print(len(step.alarms), step.guarded, monitor.online.save().hex())
distributed.destroy_process_group()
"""


def test_every_rank_has_the_monitor_of_all_rows(tmp_path):
    pytest.importorskip("torch")
    code = RANKS.format(python=str(ROOT / "python"), tests=str(ROOT / "tests/python"))
    ranks = [
        subprocess.Popen([sys.executable, "-c", code, str(rank), str(tmp_path / "store")], stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, text=True)
        for rank in range(2)
    ]  # fmt: skip
    said = [rank.communicate(timeout=300) for rank in ranks]
    assert said[0][0] and said[0][0] == said[1][0], said
    alone = kcc.Monitor(contract(), policy=policy(), group=False)
    for seed in range(6):
        step = alone.step(*batch(seed, 0.3), ids=[f"row{row:02d}" for row in range(16)])
    assert said[0][0].split() == [str(len(step.alarms)), str(step.guarded), alone.online.save().hex()]


def test_one_record_of_both_sides_compares_nothing():
    """The trainer's batch has one reward for a row: that it equals itself is no evidence of agreement."""
    text = CONTRACT.replace(
        "  escalation:", "  statistical:\n    - {id: B-1, metric: reward_drift, atMost: 0.1, level: L2}\n  escalation:"
    )
    monitor = kcc.Monitor(kcc.Contract(text), policy=policy())
    for seed in range(20):
        assert not monitor.step(*batch(seed), rewards=np.ones(16)).alarms
    rows = {row["clause"]: row for row in monitor.online.status()["kernels"][0]["clauses"] if row["slice"] == "all"}
    assert rows["B-1"]["verdict"] == "inconclusive"
