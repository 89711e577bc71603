"""Servers as kernels through the real program: score, generate and run against the reference server."""

import http.server
import json
import pathlib
import subprocess
import sys
import threading

import pytest

import reference_server

HERE = pathlib.Path(__file__).parent


class Server:
    """reference_server.py as a process; uri(dialect, faults) has counters of its own."""

    def __init__(self, *arguments):
        self.process = subprocess.Popen([sys.executable, HERE / "reference_server.py", *arguments],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.address = self.process.stdout.readline().strip()
        self.keys = 0

    def uri(self, dialect, faults="none", options=""):
        self.keys += 1
        vocab = "" if dialect == "llamacpp" else f"&vocab_size={reference_server.VOCAB}"
        base = f"{self.address}/{dialect}/{faults}/pytest-{self.keys}"
        return f"openai+http://{base}?server={dialect}&retry_wait_ms=1{vocab}{options and '&' + options}"

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        assert self.process.wait(20) == 0


@pytest.fixture(scope="module")
def server():
    started = Server()
    yield started
    started.close()


@pytest.fixture
def requests(tmp_path):
    path = tmp_path / "requests.jsonl"
    # Ids from 3 to 59: neither ends of generations nor fragments.
    lines = [{"id": f"r{i}", "prompt": [5 + i, 9, 12 + i], "output": [(7 * i + 3 * j) % 57 + 3 for j in range(8)],
              "tags": ["odd"] if i % 2 else ["even"]} for i in range(10)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


CONTRACT = """
apiVersion: kcc/v1
kind: KernelContract
metadata: {name: servers, version: 1.0.0}
spec:
  decision: {about: evaluation-set}
  assumptions: {tokensMax: 64}
  numerical:
    - {id: N-1, metric: max_abs_log_ratio, atMost: 0.001, level: L2}
"""


def test_every_server_gives_the_same_log_probs(kcc, server, requests, tmp_path):
    heads = set()
    for name, dialect, options in (("a", "vllm", ""), ("b", "vllm", "path=decode"), ("c", "sglang", ""),
                                   ("d", "llamacpp", ""), ("e", "llamacpp", "path=prefill")):
        done = kcc("score", server.uri(dialect, options=options), "--requests", requests, "-o", tmp_path / name,
                   "--json")
        assert done.code == 0, done.err
        assert done.json["requests"] == 10 and done.json["tokens"] == 80
        assert kcc("trace", "verify", tmp_path / name).code == 0
        shown = kcc("trace", "head", tmp_path / name, "-n", "80").out.splitlines()
        heads.add(tuple(tuple(line.split("\t")[:3] + [line.split("\t")[3][:7]]) for line in shown))
    assert len(heads) == 1


def test_a_run_judges_two_servers_and_full_logits_against_lists(kcc, server, requests, tmp_path):
    contract = tmp_path / "contract.yaml"
    contract.write_text(CONTRACT)
    for train, infer in (("vllm", "sglang"), ("trtllm", "vllm"), ("llamacpp", "trtllm")):
        done = kcc("run", contract, "--train", server.uri(train), "--infer", server.uri(infer), "--requests", requests,
                   "--json")
        assert done.code == 0, (train, infer, done.out, done.err)
    done = kcc("run", contract, "--train", server.uri("vllm"), "--infer", server.uri("vllm", "flat", "probe=off"),
               "--requests", requests, "--json")
    assert done.code == 1, (done.out, done.err)


def test_a_server_can_be_asked_to_generate_and_another_to_score_it(kcc, server, requests, tmp_path):
    wrote = tmp_path / "wrote"
    done = kcc("generate", server.uri("vllm"), "--requests", requests, "-o", wrote, "--seed", "3", "--json")
    assert done.code == 0, done.err
    done = kcc("score", server.uri("sglang"), "--requests", wrote, "-o", tmp_path / "scored", "--json")
    assert done.code == 0, done.err
    assert done.json["requests"] == 10


WRITTEN = """
apiVersion: kcc/v1
kind: KernelContract
metadata: {name: written, version: 1.0.0}
spec:
  decision: {about: evaluation-set}
  runtime:
    - {id: R-1, metric: failure_rate, atMost: 0, level: L3}
    - {id: R-2, metric: throughput_tokens_per_s, atLeast: 0.001, level: L3}
    - {id: R-3, metric: mean_latency_ms, atMost: 1h, exceedance: 1%, window: 5 requests, level: L3}
    - {id: R-4, metric: mean_latency_ms, atMost: 1h, exceedance: 1%, window: 1m, level: L3}
"""


def test_throughput_windows_and_failures_of_written_answers_are_judged(kcc, server, requests, tmp_path):
    contract = tmp_path / "contract.yaml"
    contract.write_text(WRITTEN)
    with requests.open("a") as out:
        out.write(json.dumps({"id": "unlucky", "prompt": [58, 9], "output": [7]}) + "\n")

    def write(name, faults):
        done = kcc("generate", server.uri("vllm", faults, "retries=0"), "--requests", requests, "--max-tokens", "4",
                   "-o", tmp_path / name)
        assert done.code == 0, done.err
        assert ("11 requests (1 failed)" in done.out) == (faults == "refuse-58"), done.out
        return tmp_path / name

    train = write("train", "none")
    for infer, failures in ((write("good", "build-2"), "satisfied"), (write("bad", "refuse-58"), "violated")):
        report = kcc("run", contract, "--train", train, "--infer", infer, "--json").json
        found = {clause["id"]: clause["slices"][0] for clause in report["clauses"]}
        assert found["R-1"]["verdict"] == failures, found["R-1"]
        if failures == "satisfied":
            assert {row["verdict"] for row in found.values()} == {"satisfied"}, found
    # Left out, the kernel that failed would choose what both are asked about next.
    done = kcc("score", server.uri("vllm"), "--requests", tmp_path / "bad", "-o", tmp_path / "scored")
    assert done.code != 0 and "'unlucky' failed when the trace was made" in done.err


@pytest.mark.parametrize(("dialect", "faults", "options", "words"), [
    ("vllm", "500", "probe=off", "status 500: EngineCore encountered an issue (after 5 attempts)"),
    ("vllm", "close", "probe=off", "closed the connection before its answer was complete"),
    ("vllm", "huge", "probe=off", "the answer is larger than 64 MiB"),
    ("vllm", "no-ids", "probe=off", "the answer has no prompt_token_ids"),
    ("vllm", "scaled", "", "wrong semantics: asked for are raw log-probs, the server gives temperature-scaled"),
    ("sglang", "shift", "", "shifted by one"),
    ("vllm", "none", "pth=decode", "did you mean 'path'?"),
])
def test_a_server_that_fails_or_lies_ends_the_command_with_its_error(kcc, server, requests, tmp_path, dialect, faults,
                                                                      options, words):
    done = kcc("score", server.uri(dialect, faults, options), "--requests", requests, "-o", tmp_path / "out")
    assert done.code == (2 if "pth" in options else 4)
    assert words in done.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["requests.jsonl"]


def test_tls_is_spoken_and_a_certificate_nobody_trusts_is_refused(kcc, requests, tmp_path):
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                    "-addext", "subjectAltName=IP:127.0.0.1", "-out", certificate, "-keyout", key],
                   check=True, capture_output=True)
    server = Server(certificate, key)
    try:
        uri = server.uri("sglang").replace("openai+http:", "openai+https:")
        done = kcc("score", f"{uri}&ca_file={certificate}", "--requests", requests, "-o", tmp_path / "out")
        assert done.code == 0, done.err
        done = kcc("score", uri, "--requests", requests, "-o", tmp_path / "no")
        assert done.code == 4
        assert "no connection: " in done.err and "certificate" in done.err.lower()
        assert "; ca_file=PATH names certificates to trust" in done.err
        plain = kcc("score", server.uri("sglang") + "&retries=0", "--requests", requests, "-o", tmp_path / "no")
        assert plain.code == 4 and "; if it speaks TLS, write openai+https://" in plain.err
    finally:
        server.close()


def test_tls_to_a_server_without_it_is_told_so(kcc, server, requests, tmp_path):
    uri = server.uri("sglang").replace("openai+http:", "openai+https:")
    done = kcc("score", uri, "--requests", requests, "-o", tmp_path / "no")
    assert done.code == 4 and "if the server does not speak TLS, write openai+http://" in done.err


def test_the_key_is_in_no_output(kcc, server, requests, tmp_path):
    key = tmp_path / "key"
    key.write_text("secret-1\n")
    out = tmp_path / "out"
    uri = server.uri("vllm", "key", f"api_key_file={key}")
    done = kcc("score", uri, "--requests", requests, "-o", out)
    assert done.code == 0, done.err
    for path in out.rglob("*"):
        assert b"secret-1" not in path.read_bytes()
    assert "secret-1" not in done.out + done.err


def test_ids_that_a_server_writes_lie_in_its_vocabulary(kcc, requests, tmp_path):
    """Cut to 32 bits, 2**32 + 5 is token 5: it was sent back to be scored."""
    seen = []
    row = [[-0.5, 2**32 + 5, None]]
    meta = {"prompt_tokens": 2, "completion_tokens": 1, "weight_version": "d", "output_token_logprobs": row,
            "output_top_logprobs": [[[-0.5, 2**32 + 5, None], [-1.5, 3, None], [-2.5, 4, None]]]}  # fmt: skip

    class Handler(http.server.BaseHTTPRequestHandler):
        def answer(self, value):
            body = json.dumps(value).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self):
            self.answer({"data": [{"id": "m"}], "version": "1", "weight_version": "d"})

        def do_POST(self):
            seen.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.answer({"text": "", "output_ids": [2**32 + 5], "meta_info": meta})

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    uri = f"openai+http://127.0.0.1:{server.server_port}?server=sglang&vocab_size=64&probe=off&top=3"
    done = kcc("generate", uri, "--requests", requests, "-o", tmp_path / "out")
    server.shutdown()
    assert done.code == 4 and len(seen) == 1
    assert "4294967301, which is no token id" in done.err
