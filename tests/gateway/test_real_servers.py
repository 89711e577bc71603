"""The gateway before llama.cpp's server and vLLM (tools/servers.sh), with the lab's engine on the same weights as the audit kernel."""

import json
import pathlib
import subprocess
import sys

import gateway_processes
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROMPTS = [f"<s><user>{a}*{b}<assistant>" for a in (3, 6, 8) for b in (4, 7)]
# What a server says of time, and of its cache.
VARYING = {"id", "created", "timings", "prompt_tokens_details"}

pytestmark = pytest.mark.slow


@pytest.fixture(params=["llamacpp", "vllm"])
def real(request, tmp_path):
    """(its name, its address) of a server that runs the shipped model."""
    assert (ROOT / "build/servers" / request.param / "bin").exists(), "run tools/servers.sh"
    process = subprocess.Popen([sys.executable, ROOT / "tests/kernel/real_server.py", request.param, tmp_path, "kcc-lab"],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)  # fmt: skip
    address = process.stdout.readline().strip()
    assert address
    yield request.param, address.removeprefix("http://")
    process.stdin.close()
    process.wait(60)


def model_of(address):
    """What the server calls it: llama.cpp's names its file."""
    return gateway_processes.ask(address, "GET", "/v1/models").json["data"][0]["id"]


def gateway_of(pool, folder, name, address, audit, rate):
    kernels = {"real": ("infer", f"http://{address}", {"server": name, "model": model_of(address)}), "audit": ("audit", audit.url)}
    policy = gateway_processes.policy_of(kernels, audit={"rate": rate, "probeRate": 1, "oncePerSession": False})
    return pool.gateway(folder, kernels, policy=policy, scoring={"timeout": "30s"})


def without_time(value):
    if isinstance(value, dict):
        return {key: without_time(one) for key, one in value.items() if key not in VARYING}
    return [without_time(one) for one in value] if isinstance(value, list) else value


def answer(host, body):
    reply = gateway_processes.ask(host, "POST", "/v1/completions", body, timeout=120)
    assert reply.status == 200, reply.body
    if not body.get("stream"):
        return without_time(reply.json)
    texts = [part.removeprefix("data: ") for part in reply.body.decode().split("\n\n") if part]
    assert texts[-1] == "[DONE]"
    return joined([without_time(json.loads(text)) for text in texts[:-1]])


def joined(chunks):
    """The chunks as one: vLLM sends tokens together that came while a chunk waited, so where it cuts is a matter of time."""
    whole = {}
    for chunk in chunks:
        for key, value in chunk.items():
            before = whole.get(key)
            if key == "choices" and before:
                whole[key] = [joined([old, new]) for old, new in zip(before, value, strict=True)] if value else before
            elif key == "logprobs" and before and value:
                whole[key] = joined([before, value])
            elif isinstance(value, list) and before and key != "choices":
                whole[key] = before + value
            elif key == "text" and before:
                whole[key] = before + value
            elif value is not None or key not in whole:
                whole[key] = value
    return whole


def test_where_a_stream_is_cut_does_not_matter():
    one = [{"id": "a", "choices": [{"index": 0, "text": t, "logprobs": {"tokens": [t], "token_logprobs": [p]}, "finish_reason": f}]}
           for t, p, f in (("x", -1.0, None), ("y", -2.0, None), ("z", -3.0, "stop"))]  # fmt: skip
    two = [joined(one[:2]), one[2]]
    assert joined(one) == joined(two) == {"id": "a", "choices": [
        {"index": 0, "text": "xyz", "logprobs": {"tokens": ["x", "y", "z"], "token_logprobs": [-1.0, -2.0, -3.0]}, "finish_reason": "stop"}]}  # fmt: skip
    assert joined(one[:2] + [{"id": "a", "choices": [], "usage": {"n": 1}}])["choices"][0]["text"] == "xy"
    assert joined(one) != joined([one[1], one[0], one[2]])


def test_answers_are_the_servers_and_become_evidence(pool, tmp_path, real, until):
    name, address = real
    audit = pool.lab("lab:f32")
    plain = gateway_of(pool, tmp_path / "plain", name, address, audit, 0)
    sampled = gateway_of(pool, tmp_path / "sampled", name, address, audit, 1)
    for prompt in PROMPTS:
        for more in ({}, {"stream": True}, {"logprobs": 2}, {"logprobs": 2, "stream": True}):
            body = {"model": "kcc-lab", "prompt": prompt, "max_tokens": 8, "temperature": 0, "cache_prompt": False} | more
            direct = answer(address, body | {"model": model_of(address)})
            assert answer(plain.host, body) == direct, more
            assert answer(sampled.host, body) == direct, more
    until(lambda: [o for o in sampled.observations() if o.get("audited") and o.get("tokens", {}).get("position")], 60)
    (kernel,) = [one for one in sampled.status["kernels"] if one["name"] == "real"]
    assert kernel["audited"] > 0 and kernel["state"] == "serving"
    assert not [entry for entry in sampled.status["history"] if entry["kind"] == "alarm"], "the same weights, and an alarm"
