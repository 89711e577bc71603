#!/usr/bin/env python3
"""The gateway's story, in under a minute: three kernels of the lab behind it, load from the `openai` package, a fault on one slice
of the kernel that serves, the alarm, the guard, and the way back by probes.

    make gateway-demo                          or: .venv/bin/python tools/gateway_demo.py [--stay] [FOLDER]

It runs the documents of examples/gateway, on free ports, in FOLDER (build/gateway-demo), and ends what it started in every
case. With --stay it goes on until Ctrl+C, with load, so that the dashboard can be looked at. The exit code is 0 if everything
came as told here.
"""

import argparse
import collections
import json
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

import gateway_processes
import openai
import run_docs

ROOT = pathlib.Path(__file__).resolve().parent.parent
EXAMPLE = ROOT / "examples/gateway"
TASKS = {"arithmetic": "arithmetic", "json": "structured", "refusal": "refusal"}  # tag: slice
FAULT = {"name": "wrong-build", "where": "'arithmetic' in tags", "drift": {"parameter": "noise", "from": 3, "to": 3, "requests": 1}}
CLIENTS = 3
PAUSE_S = 0.03  # of a client between two questions: every answer is scored, and every question asked twice of who is guarded
PATIENCE_S = 120  # for one step; an idle machine needs a tenth


class Load:
    """Clients that ask one question after the other, by tag in turn; the same questions in every run."""

    def __init__(self, url):
        self.served = collections.Counter()  # by kernel
        self.errors = []
        self.number = 0
        self.lock = threading.Lock()
        self.over = threading.Event()
        self.client = openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, timeout=60)
        self.prompts = collections.defaultdict(list)
        for line in open(ROOT / "models/kcc-lab/eval.jsonl"):
            row = json.loads(line)
            for tag in set(row["tags"]) & set(TASKS):
                self.prompts[tag].append(bytes(token for token in row["prompt"] if token < 256).decode())
        self.threads = [threading.Thread(target=self.run, daemon=True) for _ in range(CLIENTS)]
        for thread in self.threads:
            thread.start()

    def run(self):
        while not self.over.is_set():
            with self.lock:
                number, self.number = self.number, self.number + 1
            try:
                kernel = self.ask(number)
            except Exception as error:  # whatever it is, the story is not as told
                if not self.over.is_set():
                    self.errors.append(repr(error))
                return
            with self.lock:
                self.served[kernel] += 1
            self.over.wait(PAUSE_S)

    def ask(self, number):
        tag = list(TASKS)[number % len(TASKS)]
        prompts = self.prompts[tag]
        asked = {"model": "kcc-lab", "messages": [{"role": "user", "content": prompts[number // len(TASKS) % len(prompts)]}],
                 "temperature": 1, "seed": number, "max_tokens": 96, "extra_body": {"tags": [tag]}}  # fmt: skip
        if number % 4:
            answer = self.client.chat.completions.with_raw_response.create(**asked)
            answer.parse()
        else:
            with self.client.chat.completions.with_streaming_response.create(**asked, stream=True) as answer:
                for _ in answer.parse():
                    pass
        return answer.headers["x-kcc-kernel"]

    def end(self):
        self.over.set()
        for thread in self.threads:
            thread.join(60)


class Story:
    def __init__(self, kcc, folder):
        self.kcc, self.folder, self.began = kcc, folder, time.monotonic()
        self.starting = self.stopped = False

    def stop(self, *_):
        """SIGTERM, as an exception, so that everything is ended; but not between a process and its being known."""
        self.stopped = True
        if not self.starting:
            sys.exit(143)

    def say(self, text):
        print(f"[{time.monotonic() - self.began:4.0f} s] {text}", flush=True)

    def show(self, *words):
        print("$ " + " ".join(["kcc", *words]), flush=True)
        done = subprocess.run([self.kcc, *words], capture_output=True, text=True, timeout=30, check=False)
        print(done.stdout + done.stderr, end="", flush=True)

    def start(self, pool):
        self.fp8 = pool.lab("lab:fp8", "--allow-faults")
        servers = {8000: self.fp8, 8001: pool.lab("lab:bf16"), 8002: pool.lab("lab:f32")}
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(EXAMPLE, self.folder)
        config = self.folder / "gateway.yaml"
        text = re.sub(r'url: "http://127\.0\.0\.1:(\d+)"', lambda match: f'url: "{servers[int(match[1])].url}"', config.read_text())
        config.write_text(re.sub(r"^  (listen|admin): .*", r"  \1: 127.0.0.1:0", text, flags=re.MULTILINE))
        self.gateway = pool.keep(gateway_processes.Process([self.kcc, "gateway", config, "--json"]))
        self.admin_url = self.gateway.started["adminUrl"]

    def status(self):
        host = self.admin_url.removeprefix("http://").rstrip("/")
        return gateway_processes.ask(host, "GET", "/v1/status").json

    def kernel(self, name="fp8"):
        return next(kernel for kernel in self.status()["kernels"] if kernel["name"] == name)

    def until(self, what, check):
        """What check() gives once that is true."""
        deadline = time.monotonic() + PATIENCE_S
        while not (value := check()):
            if self.load.errors:
                raise RuntimeError(f"a client got an error: {self.load.errors[0]}")
            if time.monotonic() > deadline:
                raise RuntimeError(f"waited in vain for this: {what}")
            time.sleep(0.1)
        return value

    def changes(self, kind, after):
        return [change for change in self.status()["history"] if change["kind"] == kind and change["atMs"] >= after]

    def tell(self, pool):
        self.starting = True
        self.start(pool)
        self.starting = False
        if self.stopped:
            self.stop()
        self.say(f"fp8, bf16 and f32 serve; the gateway is at {self.gateway.url}")
        self.say(f"the dashboard: {self.admin_url}/")
        self.load = Load(self.gateway.url)
        try:
            self.run()
        finally:
            self.load.end()

    def run(self):
        self.until("fp8 is satisfied", lambda: self.kernel()["verdict"] == "satisfied")
        audited = self.kernel()["audited"]
        self.say(f"fp8 serves, and is satisfied: {audited} requests of {CLIENTS} clients were scored by the training kernel")

        self.fp8.fault(**FAULT)
        broken_ms, sent = time.time() * 1000, self.load.number
        self.say("a fault: fp8 answers arithmetic wrongly, and nothing else")
        self.until("bf16 serves", lambda: self.status()["route"]["serves"] == "bf16")
        alarm, routed = self.changes("alarm", broken_ms)[0], self.changes("route", broken_ms)[0]
        self.say(f"alarm after {(alarm['atMs'] - broken_ms) / 1000:.1f} s and about {self.load.number - sent} requests: "
                 f"{alarm['clause']} on {alarm['slice']}; bf16 serves from the same moment on")  # fmt: skip
        self.show("status", self.admin_url)
        self.show("gateway", "why", "--admin", self.admin_url, str(routed["atMs"]))

        before = self.load.served["bf16"]
        self.until("bf16 answers clients", lambda: self.load.served["bf16"] >= before + 10)
        assert self.kernel()["state"] == "guarded", "what is still broken stays guarded"
        self.fp8.heal()
        self.say("the fault is gone; fp8 is shown copies of requests, and nobody gets its answers")
        self.until("fp8 serves again", lambda: self.status()["route"]["serves"] == "fp8")
        released = self.changes("release", broken_ms)[-1]
        self.say(f"released by evidence, and on probation: {released['reason']}")
        self.show("status", self.admin_url)
        if self.load.errors:
            raise RuntimeError(f"a client got an error: {self.load.errors[0]}")
        served = ", ".join(f"{kernel} {count}" for kernel, count in sorted(self.load.served.items()))
        self.say(f"done. Every client got its answer: {served}")

    def stay(self):
        print(f"It goes on until Ctrl+C. The dashboard: {self.admin_url}/", flush=True)
        self.load = Load(self.gateway.url)
        try:
            while True:
                signal.pause()
        except KeyboardInterrupt:
            pass
        finally:
            self.load.end()


def main():
    parser = argparse.ArgumentParser(description="three kernels, a gateway, a fault and the way back")
    parser.add_argument("--stay", action="store_true", help="go on until Ctrl+C")
    parser.add_argument("folder", nargs="?", type=pathlib.Path, default=ROOT / "build/gateway-demo")
    arguments = parser.parse_args()
    story = Story(run_docs.kcc_binary(), arguments.folder.resolve())
    signal.signal(signal.SIGTERM, story.stop)
    code = 0
    pool = gateway_processes.Pool(story.kcc)
    try:
        story.tell(pool)
        if arguments.stay:
            story.stay()
    except (RuntimeError, AssertionError) as error:
        print(f"gateway_demo: {error}", file=sys.stderr)
        code = 1
    finally:
        wrong = pool.end()
    for text in wrong:
        print(f"gateway_demo: {text}", file=sys.stderr)
    return 1 if wrong else code


if __name__ == "__main__":
    sys.exit(main())
