"""A running `kcc lab serve`, and plain HTTP to it."""

import http.client
import json
import signal
import subprocess
import urllib.parse

import pytest


class Reply:
    def __init__(self, response):
        self.status, self.headers, self.body = response.status, response.headers, response.read()

    @property
    def json(self):
        return json.loads(self.body)


def events(body):
    """The events of a stream's body, parsed; the last is [DONE]."""
    texts = [part.removeprefix("data: ") for part in body.decode().split("\n\n") if part]
    assert texts[-1] == "[DONE]", texts[-3:]
    return [json.loads(text) for text in texts[:-1]]


class Server:
    def __init__(self, kcc_path, *arguments):
        port = [] if "--port" in arguments else ["--port", "0"]
        command = [kcc_path, "lab", "serve", *port, "--json", *map(str, arguments)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        assert line, self.process.stderr.read()
        self.started = json.loads(line)
        self.url = self.started["url"]
        self.host = urllib.parse.urlsplit(self.url).netloc
        self.uri = f"openai+http://{self.host}?server=vllm"

    def ask(self, method, path, body=None, admin=False, headers=None):
        host = urllib.parse.urlsplit(self.started["adminUrl"]).netloc if admin else self.host
        connection = http.client.HTTPConnection(host, timeout=30)
        data = body if body is None or isinstance(body, (str, bytes)) else json.dumps(body)
        connection.request(method, path, data, headers or {"Content-Type": "application/json"})
        try:
            return Reply(connection.getresponse())
        finally:
            connection.close()

    def post(self, path, **body):
        return self.ask("POST", path, body)

    def complete(self, **body):
        reply = self.post("/v1/completions", **body)
        assert reply.status == 200, reply.body
        return reply.json

    def stream(self, path="/v1/completions", **body):
        reply = self.post(path, stream=True, **body)
        assert reply.status == 200, reply.body
        assert reply.headers["Content-Type"].startswith("text/event-stream")
        return events(reply.body)

    def fault(self, **rule):
        reply = self.ask("POST", "/faults", rule, admin=True)
        assert reply.status == 200, reply.body
        return reply.json

    def metrics(self):
        values = {}
        for line in self.ask("GET", "/metrics").body.decode().splitlines():
            if not line.startswith("#"):
                name, _, value = line.rpartition(" ")
                values[name.partition("{")[0]] = values.get(name.partition("{")[0], 0) + float(value)
                values[name] = float(value)
        return values

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.process.stderr.close()

    def end(self, by=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(by)
        code = self.process.wait(40)
        errors = self.process.stderr.read()
        self.process.stdout.close()
        self.process.stderr.close()
        return code, errors


@pytest.fixture(scope="session")
def start(kcc_path):
    """start(*arguments) -> a Server; all of them are ended, and end well."""
    servers = []

    def run(*arguments):
        servers.append(Server(kcc_path, *arguments))
        return servers[-1]

    yield run
    for server in servers:
        if server.process.returncode is None:
            assert server.end() == (0, "")


@pytest.fixture(scope="session")
def server(start):
    """The shipped model, in f32, for tests that change nothing of it."""
    return start("--max-batch", 64)
