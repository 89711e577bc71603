"""kcc lab serve over plain HTTP: shapes, errors, limits, many streams, and the end of the server."""

import concurrent.futures
import http.client
import json
import pathlib
import signal
import socket
import subprocess
import threading
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]

PROMPT = [256, 259, *b"6*8", 260]  # <s><user>6*8<assistant>
FIELDS = {"id", "object", "created", "model", "choices", "usage", "system_fingerprint"}


def test_a_completion_field_by_field(server):
    answer = server.complete(prompt="<s><user>6*8<assistant>", temperature=0, max_tokens=64)
    assert set(answer) == FIELDS
    assert (answer["object"], answer["model"]) == ("text_completion", "kcc-lab")
    assert answer["system_fingerprint"] == server.started["fingerprint"]
    (choice,) = answer["choices"]
    assert choice["text"] == "6*8+0=48 so 48"  # the model knows it
    assert (choice["index"], choice["finish_reason"], choice["stop_reason"]) == (0, "stop", None)
    assert choice["logprobs"] is None and choice["token_ids"] is None and choice["prompt_logprobs"] is None
    assert answer["usage"] == {"prompt_tokens": 6, "completion_tokens": 15, "total_tokens": 21, "prompt_tokens_details": None}


def test_chat_uses_the_models_template(server):
    body = {"messages": [{"role": "user", "content": "6*8"}], "temperature": 0}
    answer = server.post("/v1/chat/completions", **body, logprobs=True, top_logprobs=2, return_token_ids=True).json
    assert set(answer) == FIELDS | {"prompt_logprobs", "prompt_token_ids"}
    assert answer["prompt_token_ids"] == PROMPT
    (choice,) = answer["choices"]
    assert choice["message"] == {"role": "assistant", "content": "6*8+0=48 so 48", "refusal": None}
    content = choice["logprobs"]["content"]
    assert [entry["token"] for entry in content] == [*"6*8+0=48 so 48", "</s>"]
    assert all(len(entry["top_logprobs"]) == 2 and entry["logprob"] <= 0 for entry in content)
    assert content[0]["bytes"] == [ord("6")]
    chunks = server.stream("/v1/chat/completions", **body, stream_options={"include_usage": True})
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert "".join(c["choices"][0]["delta"]["content"] for c in chunks[:-1]) == "6*8+0=48 so 48"
    assert [c["choices"][0]["finish_reason"] for c in chunks[:-1]][-1] == "stop"
    assert chunks[-1]["choices"] == [] and chunks[-1]["usage"]["completion_tokens"] == 15
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}


def test_log_probs_are_floats_written_so_that_they_read_back(server):
    import numpy

    choice = server.complete(prompt=PROMPT, max_tokens=4, temperature=0, logprobs=3, prompt_logprobs=3)["choices"][0]
    numbers = [x for x in choice["logprobs"]["token_logprobs"]]
    for entry in choice["prompt_logprobs"][1:]:
        assert 3 <= len(entry) <= 4
        numbers += [value["logprob"] for value in entry.values()]
        ranks = {int(token): value["rank"] for token, value in entry.items()}
        assert sorted(ranks.values())[:3] == [1, 2, 3]
    assert numbers and all(float(numpy.float32(x)) == x for x in numbers)
    assert choice["prompt_logprobs"][0] is None


def test_a_stream_says_what_the_whole_answer_says(server):
    body = {"prompt": PROMPT, "temperature": 0, "logprobs": 2, "return_token_ids": True, "max_tokens": 40}
    whole = server.complete(**body)["choices"][0]
    chunks = [chunk["choices"][0] for chunk in server.stream(**body)]
    assert "".join(chunk["text"] for chunk in chunks) == whole["text"]
    assert [i for chunk in chunks for i in chunk["token_ids"]] == whole["token_ids"]
    for name in ("tokens", "token_logprobs", "top_logprobs", "text_offset"):
        assert [x for chunk in chunks if chunk["logprobs"] for x in chunk["logprobs"][name]] == whole["logprobs"][name]
    assert chunks[0]["prompt_token_ids"] == PROMPT
    assert chunks[-1]["finish_reason"] == whole["finish_reason"]


def test_batches_of_prompts_and_of_choices(server):
    answer = server.complete(prompt=["ab", "cd"], n=2, max_tokens=3, seed=1, return_token_ids=True, ignore_eos=True)
    assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2, 3]
    assert [choice["prompt_token_ids"] for choice in answer["choices"]] == [[97, 98]] * 2 + [[99, 100]] * 2
    assert answer["usage"]["completion_tokens"] == 12 and answer["usage"]["prompt_tokens"] == 4
    alone = server.complete(prompt="cd", max_tokens=3, seed=1, return_token_ids=True, ignore_eos=True)
    assert alone["choices"][0]["token_ids"] == answer["choices"][2]["token_ids"]


def test_the_other_pages(server):
    (model,) = server.ask("GET", "/v1/models").json["data"]
    assert (model["id"], model["object"], model["max_model_len"]) == ("kcc-lab", "model", 16384)
    assert server.ask("GET", "/health").status == 200
    assert server.ask("HEAD", "/health").body == b""
    assert "+kcc.lab." in server.ask("GET", "/version").json["version"]
    tokens = server.post("/tokenize", prompt="<s>a\u00e9", return_token_strs=True).json
    assert tokens["tokens"] == [256, 97, 0xC3, 0xA9] and tokens["count"] == 4
    assert server.post("/detokenize", tokens=tokens["tokens"]).json == {"prompt": "<s>a\u00e9"}
    before = server.metrics()
    server.complete(prompt=PROMPT, max_tokens=3, ignore_eos=True)
    after = server.metrics()
    for name, added in (("vllm:prompt_tokens_total", 6), ("vllm:generation_tokens_total", 3),
                        ("vllm:request_success_total", 1), ("vllm:e2e_request_latency_seconds_count", 1)):  # fmt: skip
        assert after[name] - before[name] == added, name


BAD = [
    ("{", 400, ""), ("[]", 400, ""), ("", 400, ""), ("\xff", 400, ""), ('{"prompt": 3}', 400, "prompt"),
    ('{"prompt": [512]}', 400, "prompt"), ('{"prompt": "a", "max_tokens": 99999}', 400, "prompt"),
    ('{"prompt": "a", "temperature": "hot"}', 400, "temperature"), ('{"prompt": "a", "model": "gpt"}', 404, "model"),
    ('{"prompt": "a", "logit_bias": {"2147483647": 1}}', 400, "logit_bias"), ('{"prompt": "a", "n": 0}', 400, "n"),
    ('{"prompt": "a", "seed": 1.5}', 400, "seed"), ('{"prompt": "a", "stop": {}}', 400, "stop"),
    ('{"prompt": "a", "a": ' + "[" * 2000 + "]" * 2000 + "}", 400, ""),
]  # fmt: skip


@pytest.mark.parametrize(("body", "status", "param"), BAD)
def test_bad_bodies_get_errors_of_openais_shape(server, body, status, param):
    reply = server.ask("POST", "/v1/completions", body.encode("latin-1"))
    assert reply.status == status
    assert set(reply.json) == {"error"} and set(reply.json["error"]) == {"message", "type", "param", "code"}
    assert reply.json["error"]["message"] and reply.json["error"]["type"] == "invalid_request_error"
    assert (reply.json["error"]["param"] or "") == param


def test_wrong_paths_and_methods(server):
    assert server.ask("GET", "/nope").status == 404
    reply = server.ask("GET", "/v1/completions")
    assert (reply.status, reply.headers["Allow"]) == (405, "POST")
    assert server.ask("GET", "/faults").status == 404  # on the admin port only, and there is none


def raw(server, data, most=1 << 20):
    host, port = server.host.split(":")
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        connection.sendall(data)
        received = b""
        while len(received) < most:
            try:
                part = connection.recv(65536)
            except ConnectionResetError:
                break
            if not part:
                break
            received += part
        return received


def test_limits_of_requests(server):
    length = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n"
    assert raw(server, length).startswith(b"HTTP/1.1 413")
    assert raw(server, b"GET / HTTP/1.1\r\nA: " + b"x" * 20000 + b"\r\n\r\n").startswith(b"HTTP/1.1 431")
    assert raw(server, b"\x00\x01\x02 nonsense\r\n\r\n").startswith(b"HTTP/1.1 400")
    assert b'"error"' in raw(server, b"GET  HTTP/9.9\r\n\r\n")


def test_a_body_beyond_the_limit_is_refused_even_where_it_is_sent_whole(server):
    """Closed with bytes unread, the connection would be reset and the answer lost."""
    connection = http.client.HTTPConnection(server.host, timeout=20)
    connection.request("POST", "/v1/completions", b"x" * (20 << 20))
    assert connection.getresponse().status == 413
    connection.close()


def test_http_1_0_and_kept_connections(server):
    body = json.dumps({"prompt": PROMPT, "max_tokens": 2, "stream": True, "ignore_eos": True}).encode()
    head = b"POST /v1/completions HTTP/1.0\r\nContent-Length: %d\r\n\r\n" % len(body)
    answer = raw(server, head + body)
    assert answer.startswith(b"HTTP/1.0 200") and b"chunked" not in answer and answer.endswith(b"data: [DONE]\n\n")
    connection = http.client.HTTPConnection(server.host, timeout=20)
    for stream in (False, True, False):
        connection.request("POST", "/v1/completions", json.dumps({"prompt": PROMPT, "max_tokens": 2, "stream": stream}))
        response = connection.getresponse()
        assert response.status == 200 and response.read()
    connection.close()
    pipelined = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n" * 2 + b"GET /version HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    assert raw(server, pipelined).count(b"HTTP/1.1 200") == 3


def test_curl(server, tmp_path):
    body = tmp_path / "body.json"
    body.write_text(json.dumps({"prompt": "a" * 1200000, "max_tokens": 1}))  # curl asks for 100-continue first
    done = subprocess.run(["curl", "-sS", "-d", f"@{body}", f"{server.url}/v1/completions"], capture_output=True, text=True, timeout=60)
    assert "maximum context length" in json.loads(done.stdout)["error"]["message"]
    command = ["curl", "-sSN", f"{server.url}/v1/completions", "-H", "Content-Type: application/json", "-d",
               json.dumps({"prompt": PROMPT, "stream": True, "temperature": 0, "max_tokens": 40})]  # fmt: skip
    lines = subprocess.run(command, capture_output=True, text=True, timeout=60).stdout.split("\n\n")
    assert lines[-2] == "data: [DONE]"
    assert "".join(json.loads(line[6:])["choices"][0]["text"] for line in lines[:-2]) == "6*8+0=48 so 48"


def test_64_streams_at_once_each_as_if_alone(server):
    requests = [json.loads(line) for line in (ROOT / "models/kcc-lab/eval.jsonl").read_text().splitlines()[::6][:64]]
    assert len(requests) == 64
    barrier = threading.Barrier(64)

    def one(request):
        barrier.wait(30)
        chunks = server.stream(prompt=request["prompt"], temperature=0, max_tokens=24, logprobs=1, return_token_ids=True)
        return [(i, x) for c in chunks for i, x in zip(c["choices"][0]["token_ids"], (c["choices"][0]["logprobs"] or {}).get("token_logprobs", []))]

    with concurrent.futures.ThreadPoolExecutor(64) as pool:
        together = list(pool.map(one, requests))
    for request, tokens in list(zip(requests, together))[::8]:
        choice = server.complete(prompt=request["prompt"], temperature=0, max_tokens=24, logprobs=1, return_token_ids=True)["choices"][0]
        assert tokens == list(zip(choice["token_ids"], choice["logprobs"]["token_logprobs"]))
    assert all(together)


def test_recorded_vllm_requests_are_accepted(server):
    """The bodies that kcc sent to vLLM 0.32.0, and the shape of what came back."""
    recording = json.loads((ROOT / "tests/data/exchanges/vllm-prefill.json").read_text())
    replay = json.loads((ROOT / "tests/data/exchanges/vllm-decode.json").read_text())
    posts = [e for r in (recording, replay) for e in r["exchanges"] if e["method"] == "POST"]
    assert len(posts) > 4
    for exchange in posts:
        body = {**exchange["request"], "model": "kcc-lab"}
        reply = server.ask("POST", exchange["path"], body)
        assert reply.status == exchange["status"], reply.body
        if reply.status != 200:
            continue
        theirs, ours = exchange["response"]["choices"][0], reply.json["choices"][0]
        assert len(ours["token_ids"]) == len(theirs["token_ids"])
        if theirs.get("prompt_logprobs"):
            assert ours["prompt_token_ids"] == theirs["prompt_token_ids"]
            for mine, entry in zip(ours["prompt_logprobs"], theirs["prompt_logprobs"], strict=True):
                assert (mine is None) == (entry is None)
                if entry:
                    assert next(iter(mine)) == next(iter(entry))  # the token itself comes first
                    assert {key for value in mine.values() for key in value} == {"logprob", "rank", "decoded_token"}
        else:
            assert len(ours["logprobs"]["content"]) == len(theirs["logprobs"]["content"])
        # Nothing that a reader of vLLM's answer finds there is missing.
        gone = {"routed_experts", "service_tier", "kv_transfer_params", "ec_transfer_params", "metrics", "sampling_mask"}
        assert set(theirs) - gone <= set(ours) | {"text"}
        assert set(exchange["response"]) - gone <= set(reply.json) | {"object"}


def test_a_client_that_leaves_frees_its_place(start):
    server = start("--max-batch", 1)
    host, port = server.host.split(":")
    body = json.dumps({"prompt": PROMPT, "max_tokens": 9000, "ignore_eos": True, "stream": True}).encode()
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        connection.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        assert connection.recv(100).startswith(b"HTTP/1.1 200")
    server.complete(prompt=PROMPT, max_tokens=2)  # would wait for minutes behind the other
    assert server.metrics()['vllm:request_success_total{engine="0",model_name="kcc-lab",finished_reason="abort"}'] == 1


def test_a_full_queue_refuses(start):
    server = start("--max-batch", 1, "--max-queue", 2)
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        asks = [pool.submit(server.post, "/v1/completions", prompt=PROMPT, max_tokens=60, ignore_eos=True) for _ in range(16)]
        replies = [ask.result() for ask in asks]
    statuses = {reply.status for reply in replies}
    assert statuses == {200, 429}
    refused = next(reply for reply in replies if reply.status == 429)
    assert refused.headers["Retry-After"] == "1" and refused.json["error"]["type"] == "rate_limit_error"


@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGINT])
def test_draining_finishes_streams_and_takes_nothing_new(start, by):
    server = start()
    idle = http.client.HTTPConnection(server.host, timeout=20)
    idle.request("GET", "/health")
    idle.getresponse().read()
    running = http.client.HTTPConnection(server.host, timeout=60)
    running.request("POST", "/v1/completions", json.dumps({"prompt": PROMPT, "max_tokens": 600, "ignore_eos": True, "stream": True}))
    response = running.getresponse()
    first = response.read(50)
    server.process.send_signal(by)
    rest = first + response.read()
    assert rest.count(b"data: ") == 602 and rest.endswith(b"data: [DONE]\n\n")
    with pytest.raises((ConnectionError, http.client.HTTPException)):
        idle.request("GET", "/health")
        idle.getresponse()
    with pytest.raises(ConnectionError):
        server.ask("GET", "/health")
    assert server.end() == (0, "")


def test_a_second_signal_ends_it_at_once(start):
    server = start()
    connection = http.client.HTTPConnection(server.host, timeout=60)
    connection.request("POST", "/v1/completions", json.dumps({"prompt": PROMPT, "max_tokens": 9000, "ignore_eos": True, "stream": True}))
    assert connection.getresponse().read(10)
    server.process.send_signal(signal.SIGTERM)
    with pytest.raises(ConnectionError):
        while True:  # until the first has been seen: two at once may be one
            server.ask("GET", "/health")
    began = time.monotonic()
    assert server.end()[0] == 0
    assert time.monotonic() - began < 15  # it would wait 30 s for the stream


def test_usage(kcc, server):
    assert kcc("lab", "serve", "lab:none").code == 2
    assert kcc("lab", "serve", "--port", "70000").code == 2
    taken = kcc("lab", "serve", "--port", server.host.split(":")[1])
    assert taken.code == 4 and "cannot listen on 127.0.0.1" in taken.err
    assert "is for --allow-faults" in kcc("lab", "serve", "--admin-port", "1").err
    assert "is no address" in kcc("lab", "serve", "--port", "0", "--host", "example").err
    assert "config.json" in kcc("lab", "serve", "--port", "0", "--model", pathlib.Path("/nonexistent")).err


def test_an_address_that_cannot_be_told_ends_the_server(kcc_path):
    with open("/dev/full", "w") as full:
        done = subprocess.run([kcc_path, "lab", "serve", "--port", "0"], stdout=full, stderr=subprocess.PIPE, timeout=60, check=False)
    assert done.returncode == 4 and b"the address of the server could not be printed" in done.stderr
