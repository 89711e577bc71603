"""The Node adapters by themselves, over the exec protocol: what they say, and how they refuse."""

import json
import pathlib
import subprocess

import numpy as np
import pytest

from kcc.model import corpus, llama

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = ROOT / "models/kcc-lab"
NODE = ROOT / ".venv/bin/node"
HELLO, BYE = {"type": "hello", "protocol": 1}, {"type": "bye"}
GREEDY = {"temperature": 0, "topK": 0, "topP": 1, "outputTokensMax": 80, "stop": [corpus.EOS]}


def talk(adapter, arguments, *messages):
    """The answers to the messages, the exit code and the standard error."""
    command = [NODE, ROOT / "adapters" / adapter / "kernel.mjs", *map(str, arguments)]
    lines = "".join(json.dumps(message) + "\n" for message in messages)
    done = subprocess.run(
        command, input=lines, capture_output=True, text=True, timeout=120, check=False, cwd=ROOT
    )
    return [json.loads(line) for line in done.stdout.splitlines()], done.returncode, done.stderr


def documents():
    return [corpus.held_out(skill, 1)[0] for skill in corpus.MAKERS]


def score_message(target):
    requests = [
        {"id": d.skill, "promptTokens": len(d.prompt_ids), "tokens": d.prompt_ids + d.answer_ids}
        for d in documents()
    ]
    return {"type": "score", "batch": 1, "file": str(target), "requests": requests}


def read_logits(path):
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    entry = json.loads(data[8 : 8 + size])["logits"]
    start, end = (8 + size + offset for offset in entry["data_offsets"])
    return np.frombuffer(data[start:end], "<f4").reshape(entry["shape"])


@pytest.fixture(scope="module")
def expected():
    """PyTorch's logits of every scored token, in the order of the requests."""
    import torch

    model, rows = llama.load(MODEL), []
    for document in documents():
        tokens = torch.tensor([document.prompt_ids + document.answer_ids])
        with torch.no_grad():
            rows.append(model(tokens)[0, len(document.prompt_ids) - 1 : -1].numpy())
    return np.concatenate(rows)


EXACT = [
    ("llamacpp", ["--kv", "f32"]),
    ("llamacpp", ["--kv", "f32", "--cpu", "haswell"]),
    ("llamacpp", ["--kv", "f32", "--cpu", "x64", "--batch", "16"]),
    ("onnxruntime", []),
    ("onnxruntime", ["--optimization", "disabled"]),
]


@pytest.mark.parametrize(("adapter", "arguments"), EXACT)
def test_float32_engines_give_pytorchs_logits(adapter, arguments, exports, expected, tmp_path):
    name = "f32.gguf" if adapter == "llamacpp" else "model.onnx"
    target = tmp_path / "scored.safetensors"
    answers, code, errors = talk(
        adapter, ["--model", exports / name, *arguments], HELLO, score_message(target), BYE
    )
    assert code == 0, errors
    hello, scored = answers
    assert hello["vocabSize"] == 512 and hello["evidence"] == "logits" and hello["semantics"] == "raw"
    assert scored["fingerprint"] == hello["fingerprint"]
    assert scored["requests"] == list(corpus.MAKERS)
    assert np.abs(read_logits(target) - expected).max() < 1e-4


def test_options_are_in_the_fingerprint(exports):
    prints = set()
    for arguments in (["--kv", "f32"], ["--kv", "f16"], ["--cpu", "haswell"], ["--flash-attention", "on"]):
        answers, _, _ = talk("llamacpp", ["--model", exports / "f32.gguf", *arguments], HELLO, BYE)
        prints.add(answers[0]["fingerprint"])
    answers, _, _ = talk("llamacpp", ["--model", exports / "Q4_K_M.gguf"], HELLO, BYE)
    prints.add(answers[0]["fingerprint"])
    assert len(prints) == 5


@pytest.mark.parametrize("adapter", ["llamacpp", "onnxruntime"])
def test_greedy_answers_are_the_models_and_sampled_ones_follow_the_seed(adapter, exports):
    document = corpus.held_out("refusal", 1)[0]
    name = "f32.gguf" if adapter == "llamacpp" else "model.onnx"

    def message(batch, seed, **sampling):
        request = {"id": "r", "seed": seed, "tokens": document.prompt_ids, "fields": {}}
        return {"type": "generate", "batch": batch, "sampling": GREEDY | sampling, "requests": [request]}

    hot = {"temperature": 3, "outputTokensMax": 12}
    answers, code, errors = talk(
        adapter, ["--model", exports / name], HELLO, message(1, 1), message(2, 7, **hot),
        message(3, 7, **hot), message(4, 8, **hot), message(5, 7, topK=1, **hot),
        message(6, 7, topP=1e-6, **hot), BYE,
    )  # fmt: skip
    assert code == 0, errors
    outputs = [answer["requests"][0] for answer in answers[1:]]
    assert outputs[0]["tokens"] == document.answer_ids
    assert len(outputs[0]["logprobs"]) == len(document.answer_ids)
    assert 0 <= outputs[0]["ttftMs"] <= outputs[0]["latencyMs"]
    assert outputs[1]["tokens"] == outputs[2]["tokens"] != outputs[3]["tokens"]
    assert outputs[4]["tokens"] == outputs[5]["tokens"] == document.answer_ids[:12]


@pytest.mark.parametrize(
    ("adapter", "arguments", "message"),
    [
        ("llamacpp", [], "--model must be given"),
        ("llamacpp", ["--model"], "--model needs a value"),
        ("llamacpp", ["--quant", "q4"], "no option --quant; there are --model, --kv"),
        ("llamacpp", ["--model", "m.gguf", "--batch", "many"], "--batch must be a number"),
        ("llamacpp", ["--model", "m.gguf", "--kv", "f8"], "no KV cache type f8"),
        ("llamacpp", ["--model", "m.gguf", "--cpu", "z80"], "no CPU variant z80; there are"),
        ("llamacpp", ["--model", "m.gguf", "--flash-attention", "yes"], "must be on or off"),
        ("onnxruntime", ["--model", "m.onnx", "--optimization", "99"], "no optimisation level 99"),
        ("onnxruntime", ["--model", "none.onnx"], "none.onnx"),
    ],
)
def test_a_wrong_option_ends_the_program_with_one_line(adapter, arguments, message):
    answers, code, errors = talk(adapter, arguments, HELLO)
    assert code == 1 and not answers
    assert message in errors and "    at " not in errors


def test_a_request_that_does_not_fit_is_an_error_and_not_a_shift(exports, tmp_path):
    answers, _, _ = talk(
        "llamacpp", ["--model", exports / "f32.gguf", "--context", 32], HELLO,
        score_message(tmp_path / "s"), {"type": "dance"}, BYE,
    )  # fmt: skip
    assert answers[1]["type"] == "error" and "do not fit --context 32" in answers[1]["message"]
    assert answers[2] == {"type": "error", "message": "no message dance in version 1"}
