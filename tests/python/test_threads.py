"""Handles that threads share: every call waits its turn, none corrupts another's, none waits for ever.

ctypes lets other threads run during a call, so two of them can be inside libkcc with one handle. Each
case runs in a process of its own: what it guards against ends the process.
"""

import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]

COMMON = """
import threading, numpy as np, kcc
rng = np.random.default_rng(0)
rollout = -rng.gamma(0.6, 0.8, (4, 16))
train = np.minimum(rollout + 0.01 * rng.standard_normal((4, 16)), 0)
CONTRACT = kcc.Contract('''
apiVersion: kcc/v1
kind: KernelContract
metadata: {name: threads, version: 1.0.0}
spec:
  numerical:
    - {id: N-1, metric: mean_abs_log_ratio, atMost: 0.02, level: L3}
''')

def part(number):
    requests = [f"{number}-{row}" for row in range(4)]
    return kcc.measure(train, rollout, CONTRACT, requests=requests, threads=1)

def together(*works):
    wrong = []
    start = threading.Barrier(len(works))

    def run(work):
        start.wait()
        try:
            work()
        except BaseException as error:
            wrong.append(repr(error))

    threads = [threading.Thread(target=run, args=(work,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not any(thread.is_alive() for thread in threads), "threads wait for each other"
    assert not wrong, wrong
"""

CASES = {
    "a summary that four threads merge into and two read": """
parts = [part(number) for number in range(240)]
alone = part(1000)
for each in parts:
    alone.merge(each)
shared = part(1000)
def merge(first):
    for each in parts[first::4]:
        shared.merge(each)
def read():
    for _ in range(40):
        kcc.judge(CONTRACT, shared)
        kcc.Summary.from_bytes(shared.to_bytes())
        assert shared.tokens >= 64 and shared.requests >= 4
together(*[lambda first=first: merge(first) for first in range(4)], read, read)
assert shared.to_bytes() == alone.to_bytes()
""",
    "an RL summary that four threads add to, merge into and read": """
wide = -rng.gamma(0.6, 0.8, (40, 2))
def batch(number):
    return kcc.rl.Batch(wide, wide, slices=[f"s{(number * 7 + row) % 120}" for row in range(40)])
batches = [batch(number) for number in range(40)]
alone = kcc.rl.RlSummary()
for each in batches:
    alone.add(each)
shared = kcc.rl.RlSummary()
def add(first):
    for each in batches[first::4]:
        if first % 2:
            shared.add(each, threads=1)
        else:
            shared.merge(kcc.rl.RlSummary().add(each, threads=1))
def read():
    for _ in range(10):
        kcc.rl.RlSummary.from_bytes(shared.to_bytes())
together(*[lambda first=first: add(first) for first in range(4)], read, read)
assert shared.to_bytes() == alone.to_bytes()
""",
    "two summaries, each merged into the other": """
one, two = kcc.rl.RlSummary(), kcc.rl.RlSummary()
for summary in (one, two):
    summary.add(kcc.rl.Batch(train, rollout))
empty = kcc.rl.RlSummary()
def cross(first, second):
    for _ in range(12):  # the counts double each time
        first.merge(second)
    for _ in range(300):
        first.merge(empty)
        second.to_bytes()
together(lambda: cross(one, two), lambda: cross(two, one), lambda: cross(one, one))
""",
    "a monitor that four threads step": """
monitor = kcc.Monitor(CONTRACT, limits={"token.k3": 1e-3}, group=False, threads=1)
numbers = []
def steps():
    for _ in range(50):
        numbers.append(monitor.step(train, rollout).number)
together(steps, steps, steps, steps)
assert sorted(numbers) == list(range(1, 201)), sorted(numbers)[-3:]
assert monitor.total.figures()[""]["tokens"] == 200 * 64
""",
    "an online monitor that four threads feed and three read": """
POLICY = kcc.MonitorPolicy('''
apiVersion: kcc/v1
kind: MonitorPolicy
metadata: {name: threads, version: 1.0.0}
spec:
  falseAlarms: 1 per 10^6 requests
  panic: serve-safest
  audit: {sessionFilter: 64KiB}
  kernels: [{name: fast, role: infer}, {name: safe, role: fallback}]
''')
def observation(number):
    return {"time_ms": 1, "request": f"r{number}", "kernel": "fast", "audited": True, "train": {},
            "tokens": {"position": [0, 1], "abs_log_ratio": [0.001 * (number % 7), 0.05 if number % 50 == 0 else 0.0]}}
shared = kcc.OnlineMonitor(CONTRACT, POLICY)
folded = {}  # by the number that each decision has
def feed(first):
    for number in range(first, 400, 4):
        folded[shared.observe(observation(number))["number"]] = number
def read():
    for number in range(60):
        status = shared.status()
        assert status["kernels"][0]["audited"] == status["observations"] <= 400
        shared.should_audit(f"r{number}", "fast")
        assert kcc.OnlineMonitor.restore(CONTRACT, POLICY, shared.save()).status()["observations"] <= 400
together(*[lambda first=first: feed(first) for first in range(4)], read, read, read)
assert sorted(folded) == list(range(1, 401))
alone = kcc.OnlineMonitor(CONTRACT, POLICY)
for place in sorted(folded):
    alone.observe(observation(folded[place]))
assert shared.save() == alone.save()
""",
}


@pytest.mark.parametrize("name", CASES)
def test_threads_share(name):
    code = COMMON + CASES[name]
    environment = {"PYTHONPATH": str(ROOT / "python"), "PATH": "/usr/bin:/bin"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
