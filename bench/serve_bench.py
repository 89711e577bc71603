#!/usr/bin/env python3
"""Throughput of `kcc lab serve` at 1, 16 and 64 streams, beside llama.cpp's server on the same weights in float32.

    bench/serve_bench.py [--streams 1,16,64] [--requests 192] [--runs 3] [--json FILE]

Every run sends the same prompts of models/kcc-lab/eval.jsonl, so many at a time, greedy and streamed, over one client that
does nothing but collect bytes. The answers are verified first: those of `kcc lab serve` must be what `kcc generate lab:f32`
writes, those of llama.cpp the same texts but for a few near ties. The servers take turns, and the median of the runs is
reported in output tokens a second. llama.cpp's server is left out where tools/servers.sh has not installed it.
"""

import argparse
import json
import os
import pathlib
import selectors
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODEL = ROOT / "models/kcc-lab"
TOKENS_MAX = 64
EOS = 257
NEAR_TIES = 0.05  # share of llama.cpp's answers that may differ

LLAMACPP = """
import sys, xllamacpp
params = xllamacpp.CommonParams()
params.model.path, params.port = sys.argv[1], 0
params.n_parallel = 64
params.n_ctx = 64 * 1024
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = int(sys.argv[2])
params.cache_type_k = params.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
server = xllamacpp.Server(params)
print(server.listening_address.removeprefix("http://"), flush=True)
sys.stdin.read()
"""


class Kcc:
    name = "kcc lab serve"

    def __init__(self, threads, _folder):
        command = [ROOT / "build/kcc", "lab", "serve", "lab:f32", "--port", "0", "--json", "--max-batch", "64",
                   "--threads", str(threads)]  # fmt: skip
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.address = json.loads(self.process.stdout.readline())["url"].removeprefix("http://")

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)


class Llamacpp:
    name = "llama.cpp's server"

    def __init__(self, threads, folder):
        file = folder / "kcc-lab.gguf"
        subprocess.run([ROOT / ".venv/bin/python", "-m", "kcc.model.gguf", MODEL, file], check=True,
                       env={**os.environ, "PYTHONPATH": str(ROOT / "python")}, stdout=subprocess.DEVNULL)  # fmt: skip
        self.log = open(folder / "llamacpp.log", "w")  # noqa: SIM115 (the process writes to it)
        python = ROOT / "build/servers/llamacpp/bin/python"
        self.process = subprocess.Popen([python, "-c", LLAMACPP, file, str(threads)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=self.log, text=True)  # fmt: skip
        for line in self.process.stdout:
            if line.startswith("127.0.0.1:"):
                self.address = line.strip()
                return
        sys.exit(f"llama.cpp's server does not start; see {folder / 'llamacpp.log'}")

    def end(self):
        self.process.stdin.close()
        self.process.wait(60)
        self.log.close()


def http_bytes(prompt):
    # Without llama.cpp's cache of prompts: every run sends the same ones, and the lab has none.
    asked = {"prompt": prompt, "max_tokens": TOKENS_MAX, "temperature": 0, "stream": True, "cache_prompt": False}
    body = json.dumps(asked).encode()
    return (b"POST /v1/completions HTTP/1.1\r\nHost: bench\r\nConnection: close\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n" % len(body)) + body  # fmt: skip


def run(address, requests, streams):
    """The seconds that all requests took, so many at a time, and the bytes of their answers."""
    host, port = address.split(":")
    selector = selectors.DefaultSelector()
    answers = [bytearray() for _ in requests]
    waiting = list(range(len(requests)))[::-1]
    began = time.perf_counter()

    def begin():
        if waiting:
            index = waiting.pop()
            connection = socket.create_connection((host, int(port)))
            connection.sendall(requests[index])
            connection.setblocking(False)
            selector.register(connection, selectors.EVENT_READ, index)

    for _ in range(streams):
        begin()
    while selector.get_map():
        for key, _ in selector.select():
            data = key.fileobj.recv(1 << 16)
            answers[key.data] += data
            if not data:
                selector.unregister(key.fileobj)
                key.fileobj.close()
                begin()
    return time.perf_counter() - began, answers


def text_of(answer):
    head, _, body = bytes(answer).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200"), answer[:300]
    text = ""
    done = False
    for line in body.split(b"\n"):
        line = line.strip()
        done = done or line == b"data: [DONE]"
        if line.startswith(b"data: {"):
            for choice in json.loads(line[6:])["choices"]:
                text += choice["text"]
    assert done, answer[-300:]
    return text


def expected_answers(lines, folder):
    """The texts and token counts that `kcc generate lab:f32` gives."""
    import safetensors.numpy

    file = folder / "requests.jsonl"
    file.write_text("".join(json.dumps({"id": str(i), "prompt": line["prompt"]}) + "\n" for i, line in enumerate(lines)))
    subprocess.run([ROOT / "build/kcc", "generate", "lab:f32", "--requests", file, "--temperature", "0", "--stop", str(EOS),
                    "--max-tokens", str(TOKENS_MAX), "-o", folder / "trace"], check=True, stdout=subprocess.DEVNULL)  # fmt: skip
    texts = [bytearray() for _ in lines]
    count = 0
    for part in sorted((folder / "trace").glob("tokens-*.safetensors")):
        columns = safetensors.numpy.load_file(part)
        for request, token in zip(columns["request"], columns["token"]):
            count += 1
            if token < 256:
                texts[request].append(int(token))
    return [bytes(text).decode(errors="replace") for text in texts], count


def verify(server, answers, expected):
    wrong = sum(text_of(answer) != text for answer, text in zip(answers, expected))
    allowed = 0 if isinstance(server, Kcc) else NEAR_TIES * len(expected)
    if wrong > allowed:
        sys.exit(f"{server.name}: {wrong} of {len(expected)} answers are not those of lab:f32; no time is reported")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--streams", default="1,16,64")
    parser.add_argument("--requests", type=int, default=192)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    lines = [json.loads(line) for line in (MODEL / "eval.jsonl").read_text().splitlines()]
    lines = lines[:: max(1, len(lines) // options.requests)][: options.requests]
    requests = [http_bytes(line["prompt"]) for line in lines]
    kinds = [Kcc] + ([Llamacpp] if (ROOT / "build/servers/llamacpp/stamp").exists() else [])
    figures = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        expected, tokens = expected_answers(lines, folder)
        servers = [kind(options.threads, folder) for kind in kinds]
        try:
            differing = {server.name: verify(server, run(server.address, requests, 16)[1], expected) for server in servers}
            for streams in map(int, options.streams.split(",")):
                seconds = {server.name: [] for server in servers}
                for _ in range(options.runs):
                    for server in servers:
                        took, answers = run(server.address, requests, streams)
                        verify(server, answers, expected)
                        seconds[server.name].append(took)
                for server, times in seconds.items():
                    figures.append({"server": server, "streams": streams, "tokensPerSecond": tokens / statistics.median(times),
                                    "slowest": tokens / max(times), "fastest": tokens / min(times),
                                    "differing": differing[server]})  # fmt: skip
        finally:
            for server in servers:
                server.end()
    print(f"{len(requests)} requests, {tokens} output tokens, {options.threads} threads, f32; median of {options.runs} runs")
    for one in figures:
        print(f"  {one['streams']:3} streams  {one['server']:20} {one['tokensPerSecond']:8.0f} tokens/s "
              f"({one['slowest']:.0f} to {one['fastest']:.0f}); {one['differing']} answers differ from lab:f32")  # fmt: skip
    if len(kinds) == 1:
        print("  llama.cpp's server is not installed (tools/servers.sh)")
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
