#!/usr/bin/env python3
"""How soon the gateway sees a fault in live traffic, beside what `kcc monitor simulate` says.

    bench/gateway/detection.py [--runs 60] [--seed 1] [--json FILE] [--page PAGE]

Each run starts a gateway with no history before two servers of the lab that agree to the bit, and breaks the one that serves for
requests with a tag. Of the requests half have it, at random: with a clause that one request in twenty may break, the shift is ten
times the limit, from the first request on, as in the simulation. Each is sent when the evidence of the one before is there. Counted are the audited requests up to the alarm. The median of
the runs must lie within the middle 90 % of what medians of as many simulated streams are. The route must have moved within a
second of the alarm, and a stream that was under way must end whole. Exit code 1 where something is not so, or where there are fewer
than 50 runs: then a median is held against nothing. --page writes the table of docs/results/gateway-detection.md.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import gateway_processes  # noqa: E402
import run_docs  # noqa: E402

FACTOR, LIMIT = 10, 0.05
REQUESTS_MAX = 400
SIMULATED = 600  # streams
MEDIANS = 4000
RUNS_LEAST = 50

CONTRACT = {
    "apiVersion": "kcc/v1", "kind": "KernelContract", "metadata": {"name": "detection", "version": "1.0.0"},
    "spec": {"numerical": [{"id": "N-1", "metric": "max_abs_log_ratio", "atMost": 0.01, "exceedance": LIMIT, "window": "request",
                            "level": "L2"}],
             "escalation": {"L2": "guard", "L3": "fallback"}},
}  # fmt: skip


def kernels_of(broken, well):
    return {"f32": ("infer", broken.url), "spare": ("guard", well.url), "audit": ("audit", well.url)}


def policy_of(kernels):
    policy = gateway_processes.policy_of(kernels)
    policy["spec"]["shifts"] = [FACTOR]
    return policy


def until_told(gateway, requests):
    """Until so many have become evidence, or are said to be lost: whose answers take longer would else be counted later, and a broken kernel's
    take longer. A stream that is under way is not waited for."""
    deadline = time.monotonic() + 10
    while len(gateway.decisions()) < requests and time.monotonic() < deadline:
        time.sleep(0.002)


def live(pool, folder, broken, well, drawn):
    """(audited requests up to the alarm, milliseconds from it to the route or to the last request that still went to the guarded
    kernel, whether the stream ended whole)."""
    kernels = kernels_of(broken, well)
    gateway = pool.gateway(folder, kernels, contract=CONTRACT, policy=policy_of(kernels), scoring={"determinism": 0})
    body = {"model": "kcc-lab", "temperature": 0, "max_tokens": 2}
    stream, last_sent = None, 0

    def draw():
        return ["bad"] if drawn.random() < FACTOR * LIMIT else []

    for number in range(REQUESTS_MAX):
        if number == 5:
            # It is one of the requests, and must be drawn as they are: a good one more in each run is seen in the median.
            stream = gateway.stream("/v1/completions", **body | {"max_tokens": 300, "prompt": "<s><user>9*9<assistant>", "ignore_eos": True},
                                    tags=draw())  # fmt: skip
            assert stream.next()
        prompt = f"<s><user>{drawn.randrange(2, 10)}*{drawn.randrange(2, 10)}<assistant>"
        sent = time.time() * 1000
        reply = gateway.post("/v1/completions", **body, prompt=prompt, tags=draw())
        assert reply.status == 200, reply.body
        if reply.headers["x-kcc-kernel"] != "f32":
            break
        last_sent = sent
        until_told(gateway, number + 1)
    # The route is in force before anybody is told of it.
    deadline = time.monotonic() + 5
    alarm = route = None
    while (alarm is None or route is None) and time.monotonic() < deadline:
        history = gateway.status["history"]
        alarm = next((entry for entry in history if entry["kind"] == "alarm"), None)
        route = next((entry for entry in history if entry["kind"] == "route" and entry["serves"] == "spare"), None)
    whole = stream is None or list(stream)[-1] == "[DONE]"
    # What is sampled before the scorer knows its kernels is lost, and no observation.
    counted = [line for line in gateway.decisions() if line["handling"] == "counted"]
    seen = next((at for at, line in enumerate(counted, 1) if any(c["kind"] == "alarm" for c in line["changes"])), None)
    gateway.end()
    pool.processes.remove(gateway)
    if alarm is None or route is None or seen is None:
        return REQUESTS_MAX, float("inf"), whole
    return seen, round(max(route["atMs"] - alarm["atMs"], last_sent - alarm["atMs"])), whole


def simulated(kcc, folder, contract, policy):
    """Observations up to the alarm of so many streams, each from a seed of its own."""

    def one(seed):
        out = folder / f"simulated-{seed}"
        subprocess.run([kcc, "monitor", "simulate", contract, "--policy", policy, "--clause", "N-1", "--runs", "1", "--observations",
                        str(REQUESTS_MAX), "--seed", str(seed), "-o", out], check=True, capture_output=True)  # fmt: skip
        shifts = json.loads((out / "operating.json").read_text())["shifts"]
        return next(shift["observations"] for shift in shifts if shift["factor"] == FACTOR)

    with concurrent.futures.ThreadPoolExecutor(2) as threads:
        return list(threads.map(one, range(1, SIMULATED + 1)))


def interval_of_medians(delays, count, drawn):
    medians = sorted(statistics.median(drawn.choices(delays, k=count)) for _ in range(MEDIANS))
    return medians[int(0.05 * MEDIANS)], medians[int(0.95 * MEDIANS)]


PAGE = """\
# How soon a fault is seen in live traffic

    make program && .venv/bin/python bench/gateway/detection.py --runs {runs} --page gateway-detection.md    # in docs/results

Each of {runs} runs starts a gateway with no history before two servers of the lab that agree to the bit, and breaks the one that serves for
half of the requests, at random. The clause allows one request in twenty to breach it, so the shift is ten times the limit, from the
first request on. One request of each run is a long stream, drawn as the others are; the others are sent when the evidence of the one before
is there. Counted are the audited requests up to the alarm. Beside it stands `kcc monitor simulate` on the same contract and policy:
{streams} streams, from which medians of {runs} are drawn {medians:,} times. Written by the command above, whose exit code says whether it holds.
The figures are counts of requests; {load}.

| | seen | asked for | |
|---|---:|---:|---|
| median of the live runs, in audited requests | {median:g} | {low:g} to {high:g}: nine of ten simulated medians of {runs} runs | {median_held} |
| from an alarm to its route, or to the last request that was still sent to the guarded kernel: the slowest | {slowest:g} ms | ≤ 1,000 ms | {slowest_held} |
| streams under way that ended whole | {whole} of {runs} | all | {whole_held} |

| audited requests up to the alarm | least | a quarter below | median | mean | a quarter above | most |
|---|---:|---:|---:|---:|---:|---:|
| live, {runs} runs | {live_row} |
| simulated, {streams} streams | {simulated_row} |
"""


def quartiles(delays):
    low, middle, high = statistics.quantiles(delays, n=4, method="inclusive")
    return " | ".join(f"{value:g}" for value in (min(delays), low, middle, round(statistics.mean(delays), 1), high, max(delays)))


def held(good):
    return "held" if good else "**missed**"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--page", type=pathlib.Path)
    options = parser.parse_args()
    load_before = os.getloadavg()[0]
    drawn, kcc = random.Random(options.seed), run_docs.kcc_binary()
    runs = []
    with tempfile.TemporaryDirectory(prefix="kcc-detection-") as name, gateway_processes.Pool(kcc) as pool:
        folder = pathlib.Path(name)
        broken, well = pool.lab("lab:f32", "--allow-faults"), pool.lab("lab:f32")
        broken.fault(name="bad", where="'bad' in tags", drift={"parameter": "temperature", "from": 4, "to": 4, "requests": 1})
        for number in range(options.runs):
            runs.append(live(pool, folder / f"run{number}", broken, well, drawn))
            print(f"run {number + 1}: alarm after {runs[-1][0]} audited requests, route {runs[-1][1]} ms later", flush=True)
        delays = simulated(kcc, folder, folder / "run0/contract.yaml", folder / "run0/policy.yaml")
    median = statistics.median(seen for seen, _, _ in runs)
    low, high = interval_of_medians(delays, options.runs, drawn)
    slowest = max(ms for _, ms, _ in runs)
    whole = sum(done for _, _, done in runs)
    print(f"live median {median} of {options.runs} runs; simulated medians of as many lie from {low} to {high} in nine of ten")
    print(f"simulated: median {statistics.median(delays)}, mean {statistics.mean(delays):.1f} of {len(delays)} streams")
    print(f"the slowest route moved {slowest} ms after its alarm; {whole} of {options.runs} streams under way ended whole")
    good = {"median": low <= median <= high, "slowest": slowest <= 1000, "whole": whole == options.runs}
    if options.runs < RUNS_LEAST:
        print(f"{options.runs} runs are too few to say so: at least {RUNS_LEAST}")
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps({"runs": [seen for seen, _, _ in runs], "median": median, "interval": [low, high],
                                            "routeMsMax": slowest, "simulated": delays, "held": all(good.values())}) + "\n")  # fmt: skip
    if options.page:
        live_row, simulated_row = quartiles([seen for seen, _, _ in runs]), quartiles(delays)
        load = (f"other programs ran beside (the load average was {load_before:.1f} before the run)" if load_before > 0.5 else
                "nothing else ran beside")  # fmt: skip
        options.page.write_text(PAGE.format(
            runs=options.runs, streams=len(delays), medians=MEDIANS, load=load, median=median, low=low, high=high, slowest=slowest,
            whole=whole, live_row=live_row, simulated_row=simulated_row,
            **{f"{name}_held": held(value) for name, value in good.items()}))  # fmt: skip
    sys.exit(0 if all(good.values()) and options.runs >= RUNS_LEAST else 1)


if __name__ == "__main__":
    main()
