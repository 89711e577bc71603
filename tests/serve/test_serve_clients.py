"""OpenAI's clients of PyPI and of npm against the server."""

import json
import pathlib
import subprocess

import openai
import pytest

HERE = pathlib.Path(__file__).resolve().parent


@pytest.fixture(scope="module")
def client(server):
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0)


def test_models(client):
    assert [model.id for model in client.models.list()] == ["kcc-lab"]


def test_completions_whole_and_streamed(client, server):
    answer = client.completions.create(model="kcc-lab", prompt="<s><user>6*8<assistant>", temperature=0, max_tokens=40, logprobs=2)
    choice = answer.choices[0]
    assert (choice.text, choice.finish_reason) == ("6*8+0=48 so 48", "stop")
    assert answer.system_fingerprint == server.started["fingerprint"]
    assert len(choice.logprobs.tokens) == len(choice.logprobs.token_logprobs) == answer.usage.completion_tokens == 15
    chunks = list(client.completions.create(model="kcc-lab", prompt="<s><user>6*8<assistant>", temperature=0, max_tokens=40,
                                            stream=True, stream_options={"include_usage": True}))  # fmt: skip
    assert "".join(chunk.choices[0].text for chunk in chunks[:-1]) == choice.text
    assert chunks[-1].usage.total_tokens == answer.usage.total_tokens


def test_chat_whole_and_streamed(client):
    ask = {"model": "kcc-lab", "messages": [{"role": "user", "content": "6*8"}], "temperature": 0}
    answer = client.chat.completions.create(**ask, logprobs=True, top_logprobs=3)
    assert answer.choices[0].message.content == "6*8+0=48 so 48"
    assert answer.choices[0].message.role == "assistant"
    assert [len(entry.top_logprobs) for entry in answer.choices[0].logprobs.content] == [3] * 15
    type(answer).model_validate_json(answer.model_dump_json(), strict=True)
    stream = client.chat.completions.create(**ask, stream=True)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in stream) == "6*8+0=48 so 48"


def test_errors_are_the_clients_own(client):
    with pytest.raises(openai.BadRequestError) as error:
        client.completions.create(model="kcc-lab", prompt="a", max_tokens=99999)
    assert error.value.code == "context_length_exceeded" and error.value.param == "prompt"
    with pytest.raises(openai.NotFoundError):
        client.completions.create(model="gpt-4", prompt="a")


def test_vllms_own_fields_pass_through_the_client(client):
    answer = client.completions.create(model="kcc-lab", prompt=[256, 259, 54], max_tokens=1,
                                       extra_body={"prompt_logprobs": 1, "return_token_ids": True})  # fmt: skip
    assert answer.choices[0].prompt_token_ids == [256, 259, 54]
    assert answer.choices[0].prompt_logprobs[0] is None and len(answer.choices[0].prompt_logprobs) == 3


def test_the_client_of_npm(server):
    node = HERE.parents[1] / ".venv/bin/node"
    done = subprocess.run([node, HERE / "npm/client.mjs", server.url], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["models"] == ["kcc-lab"]
    choice = seen["completion"]["choices"][0]
    assert choice["text"] == seen["streamed"] == seen["chatStreamed"] == "6*8+0=48 so 48"
    assert len(choice["logprobs"]["token_logprobs"]) == 15
    assert seen["chat"]["choices"][0]["message"]["content"] == choice["text"]
    assert seen["usage"]["completion_tokens"] == 15
    error = {"name": "BadRequestError", "status": 400, "code": "context_length_exceeded", "param": "prompt"}
    assert seen["error"] == error
