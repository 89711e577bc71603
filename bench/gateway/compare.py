#!/usr/bin/env python3
"""The gateway beside nginx as a plain proxy, before the same upstream, in one run whose rounds take turns.

    bench/gateway/compare.py [--rounds 5] [--csv FILE] [--page PAGE] [--quick]

Targets: the upstream directly; nginx (Debian's nginx-light, one worker, keep-alive upstream); kcc gateway with one I/O thread
that samples nothing; the same with 10 % of requests sampled, an audit kernel that answers, and a shadow that never does. The
upstream (gateway_upstream) and the load (gateway_load) are programs of one thread each, and every answer is verified. CPU time is
that of the proxy's process; beside it that of its threads of traffic, and of the upstreams, which write 20 KB for a sampled answer
instead of 0.5 and score what the gateway asks. Which target comes first is drawn anew for each round.
"""

import argparse
import contextlib
import csv
import json
import os
import pathlib
import platform
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
sys.path.insert(0, str(ROOT / "bench/gateway"))
import gateway_processes  # noqa: E402
import run_docs  # noqa: E402
from page import write_page  # noqa: E402

PROGRAMS = ROOT / "build/release/bench"

NGINX = """\
worker_processes 1;
daemon off;
pid {folder}/nginx.pid;
error_log stderr warn;
events {{ worker_connections 4096; }}
http {{
  access_log off;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  client_body_buffer_size 64k;
  keepalive_requests 1000000000;
  upstream kernel {{ server {upstream}; keepalive 1100; keepalive_requests 1000000000; }}
  server {{
    listen 127.0.0.1:{port} backlog=4096;
    location / {{
      proxy_pass http://kernel;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffering off;
    }}
  }}
}}
"""


NGINX_PROGRAM = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")


class Nginx:
    def __init__(self, folder, upstream):
        self.port = gateway_processes.free_port()
        config = folder / "nginx.conf"
        config.write_text(NGINX.format(folder=folder, upstream=upstream, port=self.port))
        self.process = subprocess.Popen([NGINX_PROGRAM, "-c", config, "-p", folder])
        for _ in range(100):
            with contextlib.suppress(OSError):
                gateway_processes.ask(f"127.0.0.1:{self.port}", "GET", "/version")
                break
            time.sleep(0.05)

    @property
    def pids(self):
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return [self.process.pid, *map(int, children)]

    def end(self):
        self.process.terminate()
        self.process.wait(20)


class Program(gateway_processes.Process):
    """gateway_upstream: runs until its standard input is closed."""

    def __init__(self, *words):
        super().__init__([PROGRAMS / "gateway_upstream", *words], stdin=subprocess.PIPE)

    def end(self, *_):
        self.process.stdin.close()
        code = self.process.wait(20)
        self.close()
        return code, self.error_text


def gateway(pool, folder, upstream, audit, stalled, rate):
    kernels = {"a": ("infer", upstream.url), "audit": ("audit", audit.url), "shadow": ("candidate", stalled.url)}
    policy = gateway_processes.policy_of(kernels, audit={"rate": rate, "probeRate": "5%", "oncePerSession": False})
    return pool.gateway(folder, kernels, policy=policy, threads=1, shadow="shadow" if rate else None,
                        limits={"connections": 8192}, telemetry={"log": "gateway.log"})  # fmt: skip


class Target:
    def __init__(self, name, port, pids, upstreams):
        self.name, self.port, self.pids, self.upstreams = name, port, pids, upstreams

    def cpu_seconds(self):
        """Of the proxy, of those of its threads that carry traffic, and of the upstreams."""
        traffic = sum(seconds for pid in self.pids() for name, seconds in threads_of(pid) if name == "kcc-plane")
        return [gateway_processes.cpu_seconds(self.pids()), traffic, gateway_processes.cpu_seconds(self.upstreams)]

    def memory_mib(self):
        total = 0
        for pid in self.pids():
            for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
                if line.startswith("VmRSS:"):
                    total += int(line.split()[1])
        return total / 1024


def threads_of(pid):
    """(name, CPU seconds) of each."""
    ticks = os.sysconf("SC_CLK_TCK")
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        text = (task / "stat").read_text()
        fields = text.rpartition(")")[2].split()
        yield text[text.index("(") + 1 : text.rindex(")")], (int(fields[11]) + int(fields[12])) / ticks


def load(target, mode, **flags):
    """One run of gateway_load; the CPU time of the target beside what it printed."""
    words = [str(word) for name, value in flags.items() for word in (f"--{name}", value)]
    before = target.cpu_seconds()
    done = subprocess.run([PROGRAMS / "gateway_load", mode, str(target.port), *words], capture_output=True, text=True, check=False)
    cpu = [after - earlier for after, earlier in zip(target.cpu_seconds(), before)]
    if done.returncode != 0:
        sys.exit(f"{target.name}: {mode} {flags}: an answer was wrong\n{done.stdout}{done.stderr}")
    seen = json.loads(done.stdout)
    names = ("cpu_us", "traffic_us", "upstream_us")
    return seen | {name: 1e6 * seconds / max(1, seen["requests"]) for name, seconds in zip(names, cpu)}


# (name, mode, flags): delays in microseconds; `seconds` of each.
def plan(quick):
    short = 0.5 if quick else 1
    return [
        ("closed-1", "closed", {"connections": 1, "seconds": 2 * short}),
        ("closed-16", "closed", {"connections": 16, "seconds": 3 * short}),
        ("open-1000", "open", {"connections": 64, "seconds": 3 * short, "rate": 1000}),
        ("sse-1", "sse", {"connections": 1, "seconds": 2 * short, "chunks": 200, "every": 2000}),
        ("sse-64", "sse", {"connections": 64, "seconds": 3 * short, "chunks": 100, "every": 10000}),
    ]


def thousand(target, quick):
    """A thousand streams at once, and what memory the proxy then has."""
    count = 200 if quick else 1000
    command = [PROGRAMS / "gateway_load", "sse", str(target.port), "--connections", str(count), "--seconds", "4", "--chunks", "20",
               "--every", "200000", "--body", "512"]  # fmt: skip
    most = 0.0
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        while process.poll() is None:
            most = max(most, target.memory_mib())
            time.sleep(0.1)
        seen = json.loads(process.stdout.read())
    if process.returncode != 0:
        sys.exit(f"{target.name}: {count} streams: an answer was wrong: {seen}")
    return seen | {"memory_mib": most, "streams": count}


def measure(options, targets):
    rows, drawn = [], random.Random(options.seed)
    for round_number in range(options.rounds + 1):
        order = list(targets)
        drawn.shuffle(order)
        for name, mode, flags in plan(options.quick or round_number == 0):
            for target in order:
                seen = load(target, mode, **flags)
                if round_number > 0:  # the first warms up
                    rows.append({"round": round_number, "case": name, "target": target.name, **seen})
        print(f"round {round_number} of {options.rounds}", flush=True)
    for target in targets:
        idle = target.memory_mib()
        seen = thousand(target, options.quick)
        rows.append({"round": 0, "case": "streams", "target": target.name, "idle_mib": idle, **seen})
    return rows


def median(rows, case, target, what):
    values = [row[what] for row in rows if row["case"] == case and row["target"] == target]
    return statistics.median(values) if values else float("nan")


def added(rows, case, target, what):
    """What a proxy adds, round by round against the direct one of the same round."""
    direct = {row["round"]: row[what] for row in rows if row["case"] == case and row["target"] == "direct"}
    return statistics.median(row[what] - direct[row["round"]] for row in rows if row["case"] == case and row["target"] == target)


def ratio(rows, case, what, over="nginx", target="kcc"):
    """Of the two targets round by round."""
    base = {row["round"]: row[what] for row in rows if row["case"] == case and row["target"] == over}
    return statistics.median(row[what] / base[row["round"]] for row in rows if row["case"] == case and row["target"] == target)


def added_ratio(rows, case, what, target="kcc"):
    return added(rows, case, target, what) / added(rows, case, "nginx", what)


def claims(rows):
    """(words, value, limit, whether the value must be at least the limit)."""
    return [
        ("requests a second at c = 16, of nginx's", ratio(rows, "closed-16", "rps"), 0.8, True),
        ("added p50 at c = 1, of nginx's", added_ratio(rows, "closed-1", "p50"), 1.3, False),
        ("added p50 at 1,000 requests a second, of nginx's", added_ratio(rows, "open-1000", "p50"), 1.3, False),
        ("added p99 at 1,000 requests a second, of nginx's", added_ratio(rows, "open-1000", "p99"), 1.5, False),
        ("added p50 at c = 16, of nginx's", added_ratio(rows, "closed-16", "p50"), 1.3, False),
        ("added p99 at c = 16, of nginx's", added_ratio(rows, "closed-16", "p99"), 1.5, False),
        ("delay of a chunk, p50, 1 stream, of nginx's", ratio(rows, "sse-1", "p50"), 1.5, False),
        ("delay of a chunk, p50, 64 streams, of nginx's", ratio(rows, "sse-64", "p50"), 1.5, False),
        ("requests a second with 10 % sampled and a stalled shadow, of without", ratio(rows, "closed-16", "rps", "kcc", "kcc-sampled"), 0.9, True),
        ("p50 at 1,000 requests a second with 10 % sampled, of without", ratio(rows, "open-1000", "p50", "kcc", "kcc-sampled"), 1.1, False),
    ]  # fmt: skip


def besides(rows):
    """(words, value): what sampling costs at c = 16 beside the claim. No upstream of a real model shares the gateway's cores; the one here
    does, and what it does more for sampled requests is taken out of the last figure: a machine that is full serves cores / CPU a request."""

    def cost(target, what):
        return median(rows, "closed-16", target, what)

    def machine(target):
        return 1e6 * os.cpu_count() / median(rows, "closed-16", target, "rps")

    more = cost("kcc-sampled", "upstream_us") - cost("kcc", "upstream_us")
    return [
        ("CPU µs of the gateway's traffic threads, of without", ratio(rows, "closed-16", "traffic_us", "kcc", "kcc-sampled")),
        ("CPU µs of the whole gateway, of without", ratio(rows, "closed-16", "cpu_us", "kcc", "kcc-sampled")),
        ("CPU µs of the upstreams, of without", ratio(rows, "closed-16", "upstream_us", "kcc", "kcc-sampled")),
        ("requests a second of without, if the upstreams had no more to do", machine("kcc") / (machine("kcc-sampled") - more)),
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--csv", type=pathlib.Path, default=ROOT / "build/bench/gateway.csv")
    parser.add_argument("--page", type=pathlib.Path)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    if options.page and options.csv.name != "gateway.csv":
        parser.error("--page links to gateway.csv beside it: name --csv so")
    gateway_processes.more_files()
    load_before = os.getloadavg()[0]
    if NGINX_PROGRAM is None:
        sys.exit("compare: there is no nginx; on Debian: apt-get install -y --no-install-recommends nginx-light")
    with tempfile.TemporaryDirectory(prefix="kcc-bench-") as name, gateway_processes.Pool(run_docs.kcc_binary()) as pool:
        folder = pathlib.Path(name)
        upstream, audit, stalled = pool.keep(Program()), pool.keep(Program()), pool.keep(Program("--stall"))
        nginx = Nginx(folder, upstream.host)
        try:
            plain = gateway(pool, folder / "plain", upstream, audit, stalled, 0)
            sampled = gateway(pool, folder / "sampled", upstream, audit, stalled, "10%")
            upstreams = [upstream.pid, audit.pid, stalled.pid]
            targets = [Target("direct", upstream.port, lambda: [upstream.pid], upstreams), Target("nginx", nginx.port, lambda: nginx.pids, upstreams),
                       Target("kcc", plain.port, lambda: [plain.pid], upstreams),
                       Target("kcc-sampled", sampled.port, lambda: [sampled.pid], upstreams)]  # fmt: skip
            rows = measure(options, targets)
            rates = sampled.status["rates"]
        finally:
            nginx.end()
    options.csv.parent.mkdir(parents=True, exist_ok=True)
    names = list(dict.fromkeys(key for row in rows for key in row))
    with open(options.csv, "w", newline="") as file:
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        writer.writerows({key: round(value, 2) if isinstance(value, float) else value for key, value in row.items()} for row in rows)
    said = claims(rows)
    for words, value, limit, least in said:
        held = value >= limit if least else value <= limit
        print(f"{'held  ' if held else 'MISSED'}  {words}: {value:.2f}, {'at least' if least else 'at most'} {limit}")
    for words, value in besides(rows):
        print(f"        at c = 16, sampled: {words}: {value:.2f}")
    if options.page:
        facts = {"load": load_before, "besides": besides(rows), "cores": os.cpu_count(), "cpu": cpu_name(), "kernel": platform.release(), "rounds": options.rounds, "rates": rates,
                 "nginx": subprocess.run([NGINX_PROGRAM, "-v"], capture_output=True, text=True, check=False).stderr.strip()}  # fmt: skip
        write_page(options.page, options.csv, rows, said, facts, median, added)
    sys.exit(0 if all(value >= limit if least else value <= limit for _, value, limit, least in said) else 1)


def cpu_name():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


if __name__ == "__main__":
    main()
