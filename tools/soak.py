#!/usr/bin/env python3
"""The gateway under a mixed load for half an hour, while one thing after the other goes wrong around it.

    tools/soak.py [--seconds 1800] [--seed 1] [--clients 24] [--json FILE]

Two gateways: one before scripted kernels (tools/scripted_upstream.py) that are killed, stall, cut streams, speak no HTTP, say
429 and 5xx, drift and come back, while the configuration is reloaded and the disk is full in turn; and one before servers of the
lab with their own faults. One thing goes wrong at a time, so that every request has a kernel that is well. At the end:

  no crash; memory does not grow; every client heard the answer to its own request, or, where content had come before its kernel
  failed, that it broke off; the counts of clients, gateways and kernels add up; every decision is decided again to the byte.

Prints what happened, and ends with 1 where something of this is not so. The order of what goes wrong follows from the seed.
"""

import argparse
import asyncio
import collections
import contextlib
import json
import os
import pathlib
import resource
import signal
import subprocess
import sys
import tempfile
import time

import gateway_processes
import run_docs
from soak_client import Clients, lab_ask, scripted_ask
from soak_disturb import BREAKS, Disturber, LabDisturber

# Mebibytes that a process may have grown by over the last two thirds of the run. What `why` remembers grows to 18 of them.
GROWTH_MIB_MAX = 24
MOST_MIB_MAX = 300


class Memory:
    """A process's resident memory over time."""

    def __init__(self, gateway):
        self.gateway, self.samples = gateway, []

    async def run(self, every_s):
        began = time.monotonic()
        while True:
            with contextlib.suppress(OSError):
                self.samples.append((time.monotonic() - began, self.gateway.memory_mib))
            await asyncio.sleep(every_s)

    def growth(self):
        """(MiB over the last two thirds by a straight line, the most at any time)."""
        late = self.samples[len(self.samples) // 3 :]
        mean_t = sum(t for t, _ in late) / len(late)
        mean_m = sum(m for _, m in late) / len(late)
        spread = sum((t - mean_t) ** 2 for t, _ in late)
        slope = sum((t - mean_t) * (m - mean_m) for t, m in late) / spread if spread else 0
        return slope * (late[-1][0] - late[0][0]), max(m for _, m in self.samples)


def gateway_counts(gateway):
    """What the gateway counted, from /metrics."""
    metrics = gateway.metrics
    ends = {end: int(metrics[f'kcc_gateway_requests_total{{end="{end}"}}']) for end in ("own", "refused", "left")}
    kernels = {"sent": "kernel_sent", "answered": "kernel_answered", "failed": "kernel_failures", "cut": "kernel_cut"}
    return ends | {
        "came": int(metrics["kcc_gateway_requests_came_total"]), "under_way": int(metrics["kcc_gateway_requests_under_way"]),
        "retried": int(metrics["kcc_gateway_retries_total"]),
        **{what: {kernel: int(metrics[f'kcc_{name}_total{{kernel="{kernel}"}}']) for kernel in gateway.kernels}
           for what, name in kernels.items()},
    }  # fmt: skip


class Checks:
    def __init__(self):
        self.failed, self.held = [], []

    def that(self, held, words, otherwise=""):
        (self.held if held else self.failed).append(words if held else f"{words}; {otherwise}" if otherwise else f"not so: {words}")

    def equal(self, left, right, words):
        self.that(left == right, f"{words}: {left}" if left == right else f"{words}: {left} is not {right}")


def check_clients(checks, clients, name):
    checks.equal(sum(clients.ends.values()), clients.sent, f"{name}: every request had an end")
    wrong = [result.words for result in clients.notable if result.end == "wrong"]
    checks.that(not wrong, f"{name}: no answer was another's, half of one, or none", f"{len(wrong)} were: {wrong[:5]}")
    errors = [f"{result.kernel or 'the gateway'} at {result.began:.1f}: {result.words}" for result in clients.notable if result.end == "error"]
    checks.that(not errors, f"{name}: no request got an error, since one kernel was always well", f"{len(errors)} did: {errors[:5]}")


def check_breaks(checks, clients, disturbances, name):
    """Streams break off only while a kernel was made to."""
    windows = [(began - 30, ended) for what, began, ended in disturbances if any(word in what for word in BREAKS)]
    odd = [result for result in clients.notable if result.end in ("told", "broken") and
           not any(began <= result.began <= ended for began, ended in windows)]  # fmt: skip
    checks.that(not odd, f"{name}: answers broke off only where a kernel did", f"{len(odd)} did otherwise: {odd[:3]}")


def check_counts(checks, clients, counts, name):
    """What clients saw and what the gateway counted are one set of requests, to the last one."""
    checks.equal(counts["came"], clients.sent, f"{name}: requests that came = sent by clients")
    checks.equal(counts["under_way"], 0, f"{name}: none is under way")
    ends = sum(counts["answered"].values()) + sum(counts["cut"].values()) + counts["own"] + counts["refused"] + counts["left"]
    checks.equal(ends, counts["came"], f"{name}: answered + cut + own + refused + left = came")
    checks.equal(counts["refused"], clients.by_kernel["", "error"], f"{name}: refused = errors that no kernel said")
    # A client that left may have gone before or after the gateway had said all: together they are known.
    over = 0
    for kernel in counts["answered"]:
        whole = sum(clients.by_kernel[kernel, end] for end in ("right", "garbage", "error"))
        broke = sum(clients.by_kernel[kernel, end] for end in ("told", "broken"))
        for counted, seen, what in ((counts["answered"][kernel], whole, "answered"), (counts["cut"][kernel], broke, "cut")):
            if counted or seen:
                checks.that(counted >= seen, f"{name}: {kernel} {what}: the gateway's {counted} hold the clients' {seen}")
            over += counted - seen
    checks.equal(over + counts["left"], clients.ends["left"], f"{name}: what the gateway counted beyond = clients that left")


def check_kernels(checks, counts, kernels, killed, left):
    """What the gateway sent and what scripted kernels got."""
    for name, kernel in kernels.items():
        got, sent = kernel.counts, counts["sent"][name]
        if name in killed:  # what a dead one had not read, or did not live to count
            lost = sent - got["came"]
            checks.that(0 <= lost <= counts["failed"][name] + left, f"{name}: of {sent} sent {got['came']} were read, the rest failed")
        else:
            checks.equal(sent, got["came"], f"{name}: sent = read by the kernel")
        whole = got["whole"] + got["garbage"]
        checks.that(counts["answered"][name] <= whole + got["refused"], f"{name}: {counts['answered'][name]} answered of {whole} said")
    tries = sum(counts["sent"].values())
    checks.equal(tries, counts["came"] - counts["own"] - counts["refused"] + counts["retried"], "sent = came + retried, but for what no kernel saw")


def check_replay(checks, kcc, gateway, name):
    done = subprocess.run([kcc, "monitor", "replay", gateway.log, "--contract", gateway.contract, "--policy", gateway.policy],
                          capture_output=True, text=True, check=False)  # fmt: skip
    said = done.stdout.strip() if done.returncode == 0 else (done.stdout + done.stderr).strip()[:600]
    checks.that(done.returncode == 0, f"{name}: {said}")


def scripted_gateway(pool, folder):
    kernels = {name: pool.scripted(folder, name, pace=2) for name in ("a", "b", "c")}
    audit = pool.scripted(folder, "audit")
    places = {"a": ("infer", kernels["a"].url), "b": ("guard", kernels["b"].url), "c": ("fallback", kernels["c"].url),
              "audit": ("audit", audit.url)}  # fmt: skip
    policy = gateway_processes.policy_of(places, audit={"rate": "20%", "probeRate": "20%", "oncePerSession": False})
    contract = json.loads(json.dumps(gateway_processes.CONTRACT))
    contract["spec"]["numerical"][0] |= {"exceedance": "30%", "atMost": 2}
    gateway = pool.gateway(folder / "gateway", places, policy=policy, contract=contract, session=["body:user"],
                           telemetry={"log": "gateway.log"}, scoring={"timeout": "2s", "determinism": "5%"},
                           times={"connect": "1s", "firstByte": "1500ms", "between": "1500ms", "idle": "60s", "write": "10s"})  # fmt: skip
    return gateway, kernels, audit


def lab_gateway(pool, folder):
    broken, well = pool.lab("lab:f32", "--allow-faults"), pool.lab("lab:f32")
    places = {"f32": ("infer", broken.url), "spare": ("guard", well.url), "audit": ("audit", well.url)}
    policy = gateway_processes.policy_of(places, audit={"rate": "30%", "probeRate": 1, "oncePerSession": False})
    gateway = pool.gateway(folder / "lab-gateway", places, policy=policy, telemetry={"log": "gateway.log"},
                           times={"firstByte": "3s", "between": "3s"})  # fmt: skip
    answers = {}
    for a in range(2, 10):
        prompt = f"<s><user>{a}*{(a * 3) % 8 + 2}<assistant>"
        reply = well.post("/v1/completions", model="kcc-lab", prompt=prompt, temperature=0, max_tokens=8)
        answers[prompt] = reply.json["choices"][0]["text"]
    return gateway, broken, answers


async def settle(gateway, seconds=20):
    """Until nothing is under way and nothing waits to be scored."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        counts = await asyncio.to_thread(gateway_counts, gateway)
        if counts["under_way"] == 0 and gateway.status["rates"]["waiting"] == 0:
            return
        await asyncio.sleep(0.2)


async def soak(options, pool, folder, kcc):
    gateway, kernels, audit = scripted_gateway(pool, folder)
    lab, faulty, answers = lab_gateway(pool, folder)
    before = {name: kernel.counts["came"] for name, kernel in kernels.items()}
    assert not any(before.values()), before
    until = time.monotonic() + options.seconds
    memory = [Memory(gateway), Memory(lab)]
    samplers = [asyncio.create_task(one.run(min(5, options.seconds / 60))) for one in memory]
    clients = Clients(gateway.host, scripted_ask, options.clients, 0.15, options.seed)
    lab_clients = Clients(lab.host, lab_ask(answers), 3, 0.4, options.seed)
    each = 2.0 if options.seconds < 300 else 4.0
    # Calm for longer than a request may wait for a kernel that stalled, which then needs another that is well.
    disturber = Disturber(pool, folder, gateway, kernels, audit, options.seed, each, 2.0)
    lab_disturber = LabDisturber(faulty, options.seed, 2 * each)
    await asyncio.gather(disturber.run(until), lab_disturber.run(until))
    await asyncio.sleep(max(0, until - time.monotonic()))
    await asyncio.gather(clients.stop(), lab_clients.stop())
    await asyncio.gather(settle(gateway), settle(lab))
    for sampler in samplers:
        sampler.cancel()
    checks = Checks()
    counts, lab_counts = gateway_counts(gateway), gateway_counts(lab)
    status = gateway.status
    for one, its, name in ((clients, counts, "scripted"), (lab_clients, lab_counts, "lab")):
        check_clients(checks, one, name)
        check_counts(checks, one, its, name)
    check_breaks(checks, clients, disturber.done, "scripted")
    check_kernels(checks, counts, disturber.kernels, disturber.killed, clients.ends["left"])
    checks.that(not gateway.ended and not lab.ended, "no crash")
    growths = []
    for one, name in zip(memory, ("scripted", "lab")):
        grown, most = one.growth()
        growths.append({"gateway": name, "grown_mib": round(grown, 2), "most_mib": round(most, 1),
                        "samples": [[round(t, 1), round(m, 1)] for t, m in one.samples[:: max(1, len(one.samples) // 60)]]})  # fmt: skip
        # In a short run it still grows to what it then keeps.
        growth_max = GROWTH_MIB_MAX if options.seconds >= 600 else 4 * GROWTH_MIB_MAX
        checks.that(grown < growth_max and most < MOST_MIB_MAX,
                    f"{name}: memory grew by {grown:.1f} MiB over the last two thirds, and was at most {most:.0f} MiB")
    for one, name in ((gateway, "scripted"), (lab, "lab")):
        code, errors = await asyncio.to_thread(one.end)
        checks.that(code == 0, f"{name}: ended with {code}" + (f": {errors[-500:]}" if code else ""))
        check_replay(checks, kcc, one, name)
    for what in ("alarm", "guard", "release", "reload"):
        seen = sum(entry["kind"] == what for entry in status["history"])
        if options.seconds >= 600:
            checks.that(seen > 0, f"the soak showed what it is about: {seen} times {what}")
    return checks, {
        "seconds": options.seconds, "seed": options.seed, "memory": growths, "counts": counts, "labCounts": lab_counts,
        "clients": {name: dict(one.ends) for name, one in (("scripted", clients), ("lab", lab_clients))},
        "history": dict(collections.Counter(entry["kind"] for entry in status["history"])), "rates": status["rates"],
        "disturbances": [{"what": what, "seconds": round(ended - began, 1)} for what, began, ended in disturber.done],
        "held": checks.held, "failed": checks.failed,
    }  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=1800)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--clients", type=int, default=24)
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is ended
    gateway_processes.more_files()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    kcc = os.environ.get("KCC_BINARY") or run_docs.kcc_binary()
    print(f"soak: {options.seconds:.0f} s, seed {options.seed}, {options.clients} clients", flush=True)
    with tempfile.TemporaryDirectory(prefix="kcc-soak-") as name, gateway_processes.Pool(kcc) as pool:
        checks, report = asyncio.run(soak(options, pool, pathlib.Path(name), kcc))
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(report, indent=1) + "\n")
    for entry in report["disturbances"]:
        print(f"  {entry['seconds']:6.1f} s  {entry['what']}")
    print("\n".join(f"held    {words}" for words in checks.held))
    print("\n".join(f"FAILED  {words}" for words in checks.failed))
    print(f"soak: {report['clients']}")
    sys.exit(1 if checks.failed else 0)


if __name__ == "__main__":
    main()
