"""What a client hears through the gateway is what it hears from the kernel, sampled or not."""

import json
import pathlib
import re
import subprocess

import gateway_processes
import openai
import pytest

NPM = pathlib.Path(__file__).resolve().parents[1] / "serve/npm/client.mjs"
NODE = pathlib.Path(__file__).resolve().parents[2] / ".venv/bin/node"
PROMPT = "<s><user>6*8<assistant>"
CHAT = [{"role": "user", "content": "6*8"}]


@pytest.fixture(scope="module")
def lab(labs):
    return labs("lab:f32")


def relay(pool, folder, lab, rate):
    kernels = {"f32": ("infer", lab.url), "audit": ("audit", lab.url)}
    policy = gateway_processes.policy_of(kernels, audit={"rate": rate, "probeRate": 1, "oncePerSession": False})
    return pool.gateway(folder, kernels, policy=policy)


@pytest.fixture(scope="module")
def unsampled(module_pool, lab, tmp_path_factory):
    return relay(module_pool, tmp_path_factory.mktemp("unsampled"), lab, 0)


@pytest.fixture(scope="module")
def sampled(module_pool, lab, tmp_path_factory):
    return relay(module_pool, tmp_path_factory.mktemp("sampled"), lab, 1)


@pytest.fixture(params=["unsampled", "sampled"])
def gateway(request):
    return request.getfixturevalue(request.param)


@pytest.fixture
def client(gateway):
    return openai.OpenAI(base_url=f"{gateway.url}/v1", api_key="none", max_retries=0)


def test_the_models_are_those_that_clients_may_ask_for(client):
    assert [model.id for model in client.models.list()] == ["kcc-lab"]


def test_openais_client_of_pypi(client, lab):
    answer = client.completions.create(model="kcc-lab", prompt=PROMPT, temperature=0, max_tokens=40, logprobs=2)
    choice = answer.choices[0]
    assert (choice.text, choice.finish_reason) == ("6*8+0=48 so 48", "stop")
    assert answer.system_fingerprint == lab.fingerprint
    assert len(choice.logprobs.tokens) == len(choice.logprobs.token_logprobs) == answer.usage.completion_tokens == 15
    assert all(len(entry) == 2 for entry in choice.logprobs.top_logprobs)  # what it asked for, not what a sample has
    chunks = list(client.completions.create(model="kcc-lab", prompt=PROMPT, temperature=0, max_tokens=40, stream=True,
                                            stream_options={"include_usage": True}))  # fmt: skip
    assert "".join(chunk.choices[0].text for chunk in chunks[:-1]) == choice.text
    assert chunks[-1].usage.total_tokens == answer.usage.total_tokens
    ask = {"model": "kcc-lab", "messages": CHAT, "temperature": 0}
    chat = client.chat.completions.create(**ask, logprobs=True, top_logprobs=3)
    assert chat.choices[0].message.content == choice.text
    assert [len(entry.top_logprobs) for entry in chat.choices[0].logprobs.content] == [3] * 15
    type(chat).model_validate_json(chat.model_dump_json(), strict=True)
    stream = client.chat.completions.create(**ask, stream=True)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in stream) == choice.text


def test_openais_client_of_npm(gateway):
    done = subprocess.run([NODE, NPM, gateway.url], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["models"] == ["kcc-lab"]
    choice = seen["completion"]["choices"][0]
    assert choice["text"] == seen["streamed"] == seen["chatStreamed"] == "6*8+0=48 so 48"
    assert len(choice["logprobs"]["token_logprobs"]) == 15
    assert seen["chat"]["choices"][0]["message"]["content"] == choice["text"]
    assert seen["usage"]["completion_tokens"] == 15
    assert seen["error"] == {"name": "BadRequestError", "status": 400, "code": "context_length_exceeded", "param": "prompt"}


# What no two answers share: the id, and the time.
def alike(body):
    return re.sub(rb'"created":\d+', b'"created":0', re.sub(rb'"id":"[^"]*"', b'"id":""', body))


COMPLETION = {"model": "kcc-lab", "prompt": PROMPT, "max_tokens": 24}
TALK = {"model": "kcc-lab", "messages": CHAT, "max_tokens": 24}
ASKED = [
    ("/v1/completions", COMPLETION | {"temperature": 0}),
    ("/v1/completions", COMPLETION | {"temperature": 1, "seed": 7}),
    ("/v1/completions", COMPLETION | {"temperature": 0, "logprobs": 0}),
    ("/v1/completions", COMPLETION | {"temperature": 0, "logprobs": 3}),
    ("/v1/completions", COMPLETION | {"temperature": 0, "logprobs": None}),
    ("/v1/completions", COMPLETION | {"temperature": 0, "return_token_ids": True}),
    ("/v1/completions", COMPLETION | {"temperature": 0, "logprobs": 2, "return_tokens_as_token_ids": True}),
    ("/v1/completions", COMPLETION | {"temperature": 0, "logprobs": 2, "return_token_ids": False}),
    ("/v1/completions", COMPLETION | {"temperature": 1, "seed": 3, "n": 2}),
    ("/v1/completions", COMPLETION | {"temperature": 0, "echo": True, "logprobs": 1}),
    ("/v1/completions", COMPLETION | {"temperature": 0, "stop": "48"}),
    ("/v1/completions", COMPLETION | {"prompt": [256, 259, 54, 42, 56, 260], "temperature": 0}),
    ("/v1/completions", COMPLETION | {"prompt": ["ab", "cd"], "temperature": 0}),
    ("/v1/chat/completions", TALK | {"temperature": 0}),
    ("/v1/chat/completions", TALK | {"temperature": 0, "logprobs": True}),
    ("/v1/chat/completions", TALK | {"temperature": 0, "logprobs": False}),
    ("/v1/chat/completions", TALK | {"temperature": 0, "logprobs": True, "top_logprobs": 4}),
    ("/v1/chat/completions", TALK | {"temperature": 1, "seed": 11, "n": 2, "logprobs": True, "top_logprobs": 1}),
    ("/v1/chat/completions", TALK | {"temperature": 0, "return_token_ids": True}),
]  # fmt: skip


@pytest.mark.parametrize("stream", [False, True, "usage"])
@pytest.mark.parametrize(("path", "body"), ASKED)
def test_every_byte_is_the_kernels(lab, unsampled, sampled, path, body, stream):
    if stream:
        body = body | {"stream": True}
    if stream == "usage":
        body = body | {"stream_options": {"include_usage": True}}
    direct, plain, tapped = (server.ask("POST", path, body) for server in (lab, unsampled, sampled))
    assert direct.status == plain.status == tapped.status
    assert alike(plain.body) == alike(direct.body)
    assert alike(tapped.body) == alike(direct.body)
    for reply in (plain, tapped):
        assert reply.headers["Content-Type"] == direct.headers["Content-Type"]


@pytest.mark.parametrize("text", [
    '{"model":"kcc-lab" , "prompt":"a","max_tokens":2,"temperature":0}',
    '\n{ "max_tokens" : 2, "temperature" : 0.0, "prompt" : "\\u0061\\"}", "model" : "kcc-lab" }\n',
    '{"model":"kcc-lab","prompt":"a","max_tokens":2,"temperature":0,"unknown":{"logprobs":[1,{"stream":true}]}}',
    '{"model":"kcc-lab","prompt":"\u00e9\u4e2d\\ud83d\\ude00","max_tokens":2,"temperature":0}',
])  # fmt: skip
def test_however_a_body_is_written(lab, unsampled, sampled, text):
    direct, plain, tapped = (server.ask("POST", "/v1/completions", text.encode()) for server in (lab, unsampled, sampled))
    assert direct.status == plain.status == tapped.status == 200, (direct.body, plain.body, tapped.body)
    assert alike(direct.body) == alike(plain.body) == alike(tapped.body)


def test_headers_say_who_answered(gateway, lab):
    contract = gateway.status["contract"]["digest"]
    seen = set()
    for stream in (False, True):
        reply = gateway.post("/v1/completions", **COMPLETION, temperature=0, stream=stream)
        assert reply.headers["x-kcc-kernel"] == "f32" and reply.headers["x-kcc-stage"] == "full"
        assert reply.headers["x-kcc-contract"] == contract
        seen.add(reply.headers["x-request-id"])
        if not stream:
            assert reply.headers["x-kcc-fingerprint"] == lab.fingerprint
    assert len(seen) == 2 and all(seen)


def error_of(reply):
    assert set(reply.json) == {"error"} and set(reply.json["error"]) == {"message", "type", "param", "code"}
    assert reply.json["error"]["message"] and reply.json["error"]["type"]
    return reply.json["error"]


def test_errors_have_openais_shape(gateway, client):
    reply = gateway.post("/v1/completions", model="gpt-4", prompt="a")
    assert reply.status == 404 and error_of(reply)["code"] == "model_not_found"
    with pytest.raises(openai.NotFoundError):
        client.chat.completions.create(model="gpt-4", messages=CHAT)
    with pytest.raises(openai.BadRequestError) as error:
        client.completions.create(model="kcc-lab", prompt="a", max_tokens=99999)
    assert error.value.code == "context_length_exceeded" and error.value.param == "prompt"
    for body in (b"{", b"[]", b"", b"\xff", b'{"model": 3, "prompt": "a"}', b'{"prompt": "a", "x": ' + b"[" * 5000 + b"]" * 5000 + b"}"):
        reply = gateway.ask("POST", "/v1/completions", body)
        assert reply.status in (400, 404), (body, reply.status)
        error_of(reply)
    assert gateway.ask("GET", "/nope").status == 404
    assert gateway.ask("GET", "/v1/completions").status == 405
    error_of(gateway.ask("GET", "/v1/completions"))


def test_a_sampled_request_becomes_evidence_and_an_unsampled_one_none(sampled, unsampled, until):
    before = len(sampled.observations())
    for _ in range(3):
        assert sampled.post("/v1/completions", **COMPLETION, temperature=0).status == 200
    until(lambda: len(sampled.observations()) >= before + 3)
    assert [o for o in sampled.observations() if o.get("audited")]
    assert not [o for o in unsampled.observations() if o.get("audited")]


def test_many_clients_at_once_hear_their_own_answer(gateway):
    import concurrent.futures

    def one(i):
        a, b = i % 9 + 1, i // 9 % 9 + 1
        reply = gateway.post("/v1/completions", model="kcc-lab", prompt=f"<s><user>{a}*{b}<assistant>", temperature=0, max_tokens=2)
        return reply.json["choices"][0]["text"], f"{a}*"

    with concurrent.futures.ThreadPoolExecutor(12) as threads:
        assert all(text == expected for text, expected in threads.map(one, range(81)))
