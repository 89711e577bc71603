"""The processes around a gateway, for tests, the soak and the benchmarks: `kcc lab serve`, scripted upstreams
(scripted_upstream.py) and `kcc gateway` itself, each on a free port of 127.0.0.1 and ended in every case.

    with gateway_processes.Pool(kcc) as pool:
        lab = pool.lab("lab:fp8", "--allow-faults")
        gateway = pool.gateway(folder, {"fp8": ("infer", lab.url), ...})
"""

import http.client
import json
import os
import pathlib
import resource
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parent.parent
TOOLS = ROOT / "tools"

# Of every request no token may be this far off in more than one of 20: quick to see, and exact by the log-prob of
# the sampled token alone.
CONTRACT = {
    "apiVersion": "kcc/v1",
    "kind": "KernelContract",
    "metadata": {"name": "gateway-test", "version": "1.0.0"},
    "spec": {
        "slices": [{"name": "math", "where": "'math' in tags"}],
        "numerical": [{"id": "N-1", "metric": "max_abs_log_ratio", "atMost": 1, "exceedance": "5%", "window": "request",
                       "slices": ["all", "math"], "level": "L2"}],
        "escalation": {"L2": "guard", "L3": "fallback"},
    },
}  # fmt: skip


def with_fallback(kernels):
    """A policy must have a fallback: the last kernel is one too, if there is none."""
    if any(role == "fallback" for role, *_ in kernels.values()):
        return kernels
    return kernels | {"last": ("fallback", list(kernels.values())[-1][1])}


def policy_of(kernels, **spec):
    """A monitor policy of {name: (role, …)}; `spec` replaces what is said here."""
    kernels = with_fallback(kernels)
    return {
        "apiVersion": "kcc/v1",
        "kind": "MonitorPolicy",
        "metadata": {"name": "gateway-test", "version": "1.0.0"},
        "spec": {"falseAlarms": "1 per 10^5 requests", "audit": {"rate": 1, "probeRate": 1, "oncePerSession": False},
                 "release": {"rule": "pass", "alpha": "5%", "clean": 50, "probation": 20}, "panic": "serve-safest",
                 "kernels": [{"name": name, "role": role} for name, (role, *_) in kernels.items()]} | spec,
    }  # fmt: skip


class Reply:
    def __init__(self, response):
        self.status, self.headers, self.body = response.status, response.headers, response.read()

    @property
    def json(self):
        return json.loads(self.body)


def ask(host, method, path, body=None, headers=None, timeout=30):
    """One request over a connection of its own."""
    connection = http.client.HTTPConnection(host, timeout=timeout)
    data = body if body is None or isinstance(body, (str, bytes)) else json.dumps(body)
    try:
        connection.request(method, path, data, {"Content-Type": "application/json"} | (headers or {}))
        return Reply(connection.getresponse())
    finally:
        connection.close()


def parse_metrics(text):
    """Prometheus' text form: {name with labels: value}, and the sums by name alone."""
    values = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            name, _, value = line.rpartition(" ")
            values[name] = float(value)
            if "{" in name:
                values[name.partition("{")[0]] = values.get(name.partition("{")[0], 0) + float(value)
    return values


class Process:
    """A child that prints a line of JSON when it is ready, and ends by SIGTERM."""

    def __init__(self, command, **options):
        self.process = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                        **options)  # fmt: skip
        self.errors = []
        self.reader = threading.Thread(target=self.read_errors, daemon=True)
        self.reader.start()
        line = self.process.stdout.readline()
        try:
            self.started = json.loads(line)
        except ValueError:
            self.process.kill()
            said = line + self.process.stdout.read()
            self.kill()
            raise RuntimeError(f"{command[0]} did not start: {said}{self.error_text}") from None
        self.url = self.started["url"]
        self.host = urllib.parse.urlsplit(self.url).netloc

    # A pipe that nobody reads would stop a process that says much.
    def read_errors(self):
        for line in self.process.stderr:
            self.errors.append(line)

    @property
    def error_text(self):
        return "".join(self.errors)

    @property
    def pid(self):
        return self.process.pid

    @property
    def port(self):
        return int(self.host.rpartition(":")[2])

    @property
    def ended(self):
        return self.process.poll() is not None

    def close(self):
        self.reader.join(10)
        self.process.stdout.close()
        self.process.stderr.close()

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.close()

    def end(self, by=signal.SIGTERM, timeout=40):
        if not self.ended:
            self.process.send_signal(by)
        try:
            code = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        self.close()
        return code, self.error_text

    def ask(self, method, path, body=None, headers=None):
        return ask(self.host, method, path, body, headers)

    def post(self, path, **body):
        return self.ask("POST", path, body)


class Lab(Process):
    def __init__(self, kcc, kernel="lab:f32", *arguments, port=0, environment=None):
        super().__init__([kcc, "lab", "serve", kernel, "--port", port, "--json", "--threads", 1, *arguments], env=environment)
        self.fingerprint = self.started["fingerprint"]
        self.admin = urllib.parse.urlsplit(self.started.get("adminUrl", "")).netloc
        self.uri = f"openai+http://{self.host}?server=vllm"

    def fault(self, **rule):
        reply = ask(self.admin, "POST", "/faults", rule)
        assert reply.status == 200, reply.body

    def heal(self):
        assert ask(self.admin, "DELETE", "/faults").status == 200

    @property
    def metrics(self):
        return parse_metrics(self.ask("GET", "/metrics").body.decode())


class Scripted(Process):
    """scripted_upstream.py; its counts outlive it, since they lie in a file."""

    def __init__(self, folder, name, port=0, **options):
        self.name = name
        self.counts_file = pathlib.Path(folder) / f"{name}.counts"
        words = [word for key, value in options.items() for word in (f"--{key.replace('_', '-')}", value)]
        super().__init__([sys.executable, TOOLS / "scripted_upstream.py", self.counts_file, "--name", name, "--port", port, *words],
                         stdin=subprocess.PIPE)  # fmt: skip

    def behave(self, **how):
        self.process.stdin.write(json.dumps(how) + "\n")
        self.process.stdin.flush()
        assert json.loads(self.process.stdout.readline())["done"]

    def close(self):
        self.process.stdin.close()
        super().close()

    @property
    def counts(self):
        return read_counts(self.counts_file)


COUNTS = ("came", "whole", "refused", "cut", "stalled", "garbage", "left", "scored", "gets", "asked")


def read_counts(file):
    data = pathlib.Path(file).read_bytes()
    return dict(zip(COUNTS, struct.unpack(f"<{len(COUNTS)}Q", data)))


class Gateway(Process):
    """`kernels`: {name: (role, url)} or {name: (role, url, {further keys})}; `contract` and `policy` are documents."""

    def __init__(self, kcc, folder, kernels, contract=None, policy=None, token=None, environment=None, preexec=None, **spec):
        self.kcc, self.folder, self.kernels, self.token = kcc, pathlib.Path(folder), with_fallback(kernels), token
        self.folder.mkdir(parents=True, exist_ok=True)
        self.contract = self.folder / "contract.yaml"
        self.policy = self.folder / "policy.yaml"
        self.config = self.folder / "gateway.yaml"
        self.contract.write_text(json.dumps(contract or CONTRACT))
        self.policy.write_text(json.dumps(policy or policy_of(kernels)))
        if token:
            (self.folder / "admin.token").write_text(token)
            spec = {"adminToken": "admin.token"} | spec
        self.spec = {"listen": "127.0.0.1:0", "admin": "127.0.0.1:0", "threads": 2, "model": "kcc-lab", "contract": "contract.yaml",
                     "policy": "policy.yaml", "state": "state", "fields": [{"name": "tags", "from": "body:tags"}]} | spec  # fmt: skip
        self.write()
        # A build with a sanitizer, before kernels of the program under test.
        program = os.environ.get("KCC_GATEWAY_BINARY", kcc)
        super().__init__([program, "gateway", self.config, "--json"], env=environment, preexec_fn=preexec)
        self.admin = urllib.parse.urlsplit(self.started["adminUrl"]).netloc

    def write(self, **changes):
        """The configuration with other keys; a reload reads it."""
        self.spec |= changes
        kernels = [{"name": name, "url": url, "server": "vllm"} | (more[0] if more else {})
                   for name, (_, url, *more) in self.kernels.items()]  # fmt: skip
        document = {"apiVersion": "kcc/v1", "kind": "Gateway", "metadata": {"name": "gateway-test", "version": "1.0.0"},
                    "spec": {key: value for key, value in self.spec.items() if value is not None} | {"kernels": kernels}}  # fmt: skip
        temporary = self.config.with_suffix(".new")
        temporary.write_text(json.dumps(document, indent=1))
        temporary.rename(self.config)

    def reload(self):
        self.process.send_signal(signal.SIGHUP)

    def admin_ask(self, path, method="GET", body=None, headers=None):
        bearer = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        return ask(self.admin, method, path, body, bearer | (headers or {}))

    @property
    def status(self):
        reply = self.admin_ask("/v1/status")
        assert reply.status == 200, (reply.status, reply.body)
        return reply.json

    @property
    def metrics(self):
        return parse_metrics(self.admin_ask("/metrics").body.decode())

    def until_scored(self, ask_once, seconds=30):
        """Asks until the scorer has reached the audit kernel: what is sampled before that is lost, and counted."""
        deadline = time.monotonic() + seconds
        while self.status["rates"]["scored"] == 0:
            assert ask_once().status == 200 and time.monotonic() < deadline, self.status["rates"]
            time.sleep(0.1)
        while self.status["rates"]["waiting"] > 0:
            time.sleep(0.02)

    @property
    def log(self):
        """The decision log: the one file of the state whose first line says so."""
        for file in sorted((self.folder / self.spec["state"]).rglob("*")):
            if file.is_file():
                with open(file, "rb") as opened:
                    if opened.read(200).startswith(b'{"kccMonitorLog"'):
                        return file
        return None

    def decisions(self):
        """The lines of the log after the first that are whole, parsed."""
        if self.log is None:
            return []
        lines = self.log.read_bytes().split(b"\n")
        return [json.loads(line) for line in lines[1:-1]]

    def observations(self):
        return [line["observation"] for line in self.decisions() if "observation" in line]

    @property
    def memory_mib(self):
        for line in pathlib.Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
        return 0.0

    def stream(self, path="/v1/chat/completions", headers=None, **body):
        return Stream(self.host, path, {"stream": True} | body, headers)


class Stream:
    """A stream that is read event by event."""

    def __init__(self, host, path, body, headers=None, timeout=30):
        self.connection = http.client.HTTPConnection(host, timeout=timeout)
        self.connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"} | (headers or {}))
        self.response = self.connection.getresponse()
        self.status, self.headers, self.buffer = self.response.status, self.response.headers, b""

    def next(self):
        """The text of the next event; None at the end of the answer, an exception where it breaks off."""
        # Not readline: that takes a broken connection for the end.
        while b"\n\n" not in self.buffer:
            part = self.response.read1(1 << 16)
            if not part:
                assert not self.buffer, "half an event"
                return None
            self.buffer += part
        event, _, self.buffer = self.buffer.partition(b"\n\n")
        return event.decode().removeprefix("data: ")

    def __iter__(self):
        while (event := self.next()) is not None:
            yield event

    def close(self):
        # With what is unread: the other side hears of it at once.
        if self.connection.sock:
            self.connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.response.close()
        self.connection.close()


class Pool:
    """Starts processes, and ends all of them whatever happens."""

    def __init__(self, kcc):
        self.kcc, self.processes = kcc, []

    def keep(self, process):
        self.processes.append(process)
        return process

    def lab(self, *arguments, **options):
        return self.keep(Lab(self.kcc, *arguments, **options))

    def scripted(self, folder, name, **options):
        return self.keep(Scripted(folder, name, **options))

    def gateway(self, folder, kernels, **options):
        return self.keep(Gateway(self.kcc, folder, kernels, **options))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def end(self):
        """The last started first, so that no gateway finds its kernels gone. What ended badly, in words."""
        wrong = []
        for process in reversed(self.processes):
            if process.process.returncode is not None:
                continue
            try:
                code, errors = process.end()
                if code != 0:
                    wrong.append(f"{type(process).__name__} ended with {code}: {errors[-2000:]}")
            except subprocess.TimeoutExpired:
                wrong.append(f"{type(process).__name__} did not end: {process.error_text[-2000:]}")
        self.processes.clear()
        return wrong


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def more_files():
    """As many open files as the system allows: for a thousand streams."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 65536) if most != resource.RLIM_INFINITY else 65536, most))


def cpu_seconds(pids):
    """User and system time that processes and their children of now have taken."""
    ticks = os.sysconf("SC_CLK_TCK")
    total = 0
    for pid in pids:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / ticks
