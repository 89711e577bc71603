"""Mistakes of new users: each message says what is wrong, where, and what to do."""

import json
import pathlib

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONTRACT = "contracts/minimal.yaml"
TRACES = ("examples/traces/train", "examples/traces/infer")
ASKED = ("--requests", "models/kcc-lab/eval.jsonl")
HEAD = "apiVersion: kcc/v1\nkind: KernelContract\nmetadata: {name: x, version: 1.0.0}\nspec:\n  numerical:\n    - "


def dump(path, **arrays):
    np.savez(path, **{name: np.asarray(values, dtype="f4") for name, values in arrays.items()})


LOGPROBS = [[-0.5, -1.25, -0.25], [-2.0, -0.125, -0.75]]
FILES = {
    "tab.yaml": "apiVersion: kcc/v1\nkind: KernelContract\nmetadata:\n\tname: x\n",
    "unit.yaml": HEAD + "{id: N-1, metric: mean_kl, atMost: 5ms, level: L3}\n",
    "slice.yaml": HEAD + "{id: N-1, metric: mean_kl, atMost: 0.1, slices: [al], level: L3}\n",
    "bare.yaml": HEAD + "{id: N-1, metric: kl, atMost: 0.1, level: L3}\n",
    "level.yaml": HEAD + "{id: N-1, metric: mean_kl, atMost: 0.1, level: high}\n",
    "text.jsonl": '{"prompt": "hello"}\n',
    "table.csv": "id,prompt\n1,hello\n",
    "twice.jsonl": '{"id": "a", "prompt": [1], "output": [3]}\n{"id": "a", "prompt": [1], "output": [3]}\n',
    "beyond.jsonl": '{"id": "a", "prompt": [1, 2], "output": [99999]}\n',
}

# (words after kcc, exit code, what the message must hold). A name in braces is a file of FILES or a dump.
MISTAKES = [
    # Arguments.
    (["run", CONTRACT], 2, ["--train is required", "write kcc run [FLAGS] CONTRACT"]),
    (["run", *TRACES, CONTRACT], 2, [TRACES[0], "is a directory", "the contract comes first"]),
    (["rl", "judge", "examples/rl/step.safetensors", CONTRACT], 2, ["step.safetensors", "is no text", "the contract comes first"]),
    (["run", "contracts/minimal.yml", *TRACES], 4, ["cannot open", "did you mean 'contracts/minimal.yaml'?"]),
    (["run", CONTRACT, *TRACES, "--reprot", "out"], 2, ["unknown flag '--reprot'", "did you mean '--report'?"]),
    (["run", CONTRACT, *TRACES, "--fail-on", "l3"], 2, ["'l3' is none of L1, L2 and L3", "did you mean 'L3'?"]),
    (["run", CONTRACT, *TRACES, "--report", CONTRACT], 2, [CONTRACT, "is a file, not a directory for a report"]),
    ([CONTRACT], 2, ["unknown command", f"'kcc check {CONTRACT}' checks a contract"]),
    (["validate", CONTRACT], 2, ["unknown command 'validate'", "'kcc check CONTRACT' validates"]),
    (["judge", CONTRACT, TRACES[0]], 2, [TRACES[0], "takes a summary", "kcc run CONTRACT TRAIN INFER"]),
    (["report", "examples/contract.yaml"], 2, ["examples/contract.yaml", "is not JSON", "a report is the report.json that --report wrote"]),
    (["generate", "lab:fp8", *ASKED, "--top-p", "50", "-o", "t"], 2, ["--top-p", "'50' is not a number from 0 to 1"]),
    (["author", *TRACES], 2, ["unexpected argument", "evidence has a flag: --evidence TRAIN:INFER"]),
    (["status"], 2, ["name the gateway", "'kcc report out/report.json' shows the last verdict", "'kcc promote status"]),
    (["bound", "--linf", "2%"], 2, ["--linf", "'2%' is not a number", "write 0.02"]),
    # Kernels.
    (["run", CONTRACT, "examples/traces", TRACES[1]], 4, ["holds no trace.json", "it holds the traces fixed, infer and train"]),
    (["run", CONTRACT, "--train", "meta-llama/Llama-3-8B", "--infer", "lab:fp8"], 4,
     ["there is no such trace", "'exec:python3 -m kcc.kernels.torch_lm meta-llama/Llama-3-8B'"]),
    (["run", CONTRACT, "--train", "models/kcc-lab", "--infer", "lab:fp8"], 4,
     ["models/kcc-lab", "looks like a model", "'exec:python3 -m kcc.kernels.torch_lm models/kcc-lab'"]),
    (["run", CONTRACT, "--train", "lab:train", "--infer", "http://localhost:8000/v1"], 2,
     ["an address alone is no kernel", "'openai+http://localhost:8000?server=NAME'"]),
    (["run", CONTRACT, "--train", "lab:train", "--infer", "vllm://localhost:8000/v1"], 2,
     ["an address alone is no kernel", "'openai+http://localhost:8000?server=vllm'"]),
    (["run", CONTRACT, "--train", "lab:train", "--infer", "openai+http://127.0.0.1:1?server=vllm&retries=0", *ASKED], 4,
     ["no connection", "is the server started, and is this its port?", "vLLM listens on 8000"]),
    (["run", CONTRACT, "--train", "lab:train", "--infer", "lab:fp9"], 2, ["no kernel 'fp9'", "it has train, f32"]),
    (["run", CONTRACT, "--train", "lab:train", "--infer", "lab:custom?kv=fp8"], 2, ["switch kv takes f32, bf16, e4m3 or e5m2", "not 'fp8'"]),
    # Contracts.
    (["check", "{tab.yaml}"], 2, ["tab.yaml:4:1", "a tab in the indentation", "YAML indents with blanks"]),
    (["check", "{unit.yaml}"], 2, ["unit.yaml:6:42", "'5ms' has the wrong unit", "write the number without a unit"]),
    (["check", "{slice.yaml}"], 2, ["slice.yaml:6", "unknown slice 'al'", "did you mean 'all'?"]),
    (["check", "{bare.yaml}"], 2, ["bare.yaml:6", "'kl' is a quantity per token", "such as 'mean_kl'"]),
    (["check", "{level.yaml}"], 2, ["level.yaml:6", "unknown level 'high'", "write L1, L2 or L3"]),
    # Requests.
    (["run", CONTRACT, "--train", "lab:train", "--infer", "lab:fp8", "--requests", "{text.jsonl}"], 2,
     ["text.jsonl:1", "'prompt' must be a list of token ids", "kcc requests make turns text into ids"]),
    (["run", CONTRACT, "--train", "lab:train", "--infer", "lab:fp8", "--requests", "{table.csv}"], 2,
     ["table.csv:1", "not JSON", "a requests file holds one JSON object a line"]),
    (["run", CONTRACT, "--train", "lab:train", "--infer", "lab:fp8", "--requests", "{twice.jsonl}"], 2,
     ["twice.jsonl:2", "'a' stood already in line 1", "ids must be unique"]),
    (["run", CONTRACT, "--train", "lab:train", "--infer", "lab:fp8", "--requests", "{beyond.jsonl}"], 2,
     ["request 'a' holds token 99999", "the vocabulary has 512", "tokenizer of this model"]),
    (["run", CONTRACT, *TRACES[:1], "--infer", "lab:fp8", "--repeat", "2"], 2, [TRACES[0], "--repeat asks what --requests names", "kcc score --repeat 2"]),
    (["requests", "make", "{table.csv}", "--tokenizer", "models/kcc-lab", "-o", "r.jsonl"], 2,
     ["table.csv:1", "not JSON", 'a line is an object: {"prompt": "text", "output": "text"}']),
    # Dumps.
    (["rl", "diagnose", "{one.npz}"], 2, ["rollout log-probs are missing: found train", "--map NAME=rollout"]),
    (["rl", "diagnose", "{shapes.npz}"], 2, ['"rollout" has the shape [2, 2]', "of the same tokens"]),
    (["rl", "diagnose", "{probabilities.npz}"], 4, ["row 0, column 0", "a log-prob is at most 0", "not probabilities or logits"]),
    (["rl", "diagnose", "{masked.npz}"], 4, ["the mask is empty"]),
    (["rl", "diagnose", "examples/rl/step.safetensors", "--limit", "k3<=0.01"], 2, ['no metric is called "k3"', 'did you mean "token.']),
    (["rl", "replay", "examples/rl/step.safetensors", "--for", "TRL"], 2, ["'TRL' is none of verl, trl", "did you mean 'trl'?"]),
]  # fmt: skip


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mistakes")
    for name, text in FILES.items():
        (folder / name).write_text(text)
    dump(folder / "one.npz", train=LOGPROBS)
    dump(folder / "shapes.npz", train=LOGPROBS, rollout=[row[:2] for row in LOGPROBS])
    dump(folder / "probabilities.npz", train=np.exp(LOGPROBS), rollout=np.exp(LOGPROBS))
    dump(folder / "masked.npz", train=LOGPROBS, rollout=LOGPROBS, mask=[[0] * 3] * 2)
    return folder


@pytest.mark.parametrize(("words", "code", "held"), MISTAKES, ids=lambda value: " ".join(value) if isinstance(value, list) else "")
def test_a_mistake_is_told_with_its_place_and_what_to_do(kcc, files, words, code, held):
    words = [str(files / word[1:-1]) if word.startswith("{") else word for word in words]
    done = kcc(*words)
    assert done.code == code, done.err
    for text in held:
        assert text in done.err, done.err


def test_there_are_enough_of_them():
    assert len(MISTAKES) >= 25
    assert len({json.dumps(words) for words, _, _ in MISTAKES}) == len(MISTAKES)
