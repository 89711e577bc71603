"""The PyTorch adapter on a tiny Llama: its numbers are the model's, its kernels are told apart."""

import json

import numpy as np
import pytest
import torch

from engines import write_requests

CONTRACT = """
apiVersion: kcc/v1
kind: KernelContract
metadata: {name: torch, version: 1.0.0}
spec:
  decision: {about: evaluation-set}
  assumptions: {tokensMax: 64}
  numerical:
    - {id: N-1, metric: max_raw_logit_linf, atMost: 1.0e-4, level: L3}
    - {id: N-2, metric: max_kl, atMost: 1.0e-8, level: L3}
"""


@pytest.fixture
def contract(tmp_path):
    path = tmp_path / "contract.yaml"
    path.write_text(CONTRACT)
    return path


def load(directory):
    import transformers  # here, since it takes seconds: every worker reads this file, and one runs it

    return transformers.AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32).eval()


def read_logits(trace):
    from safetensors.torch import load_file

    return load_file(trace / "tokens-00000.safetensors")


def test_scores_are_the_models_own(kcc, tmp_path, torch_lm, tiny_llama):
    requests = write_requests(tmp_path / "r.jsonl", 5, 320)
    done = kcc("score", torch_lm(tiny_llama), "--requests", requests, "-o", tmp_path / "t", "--batch", 2)
    assert done.code == 0, done.err
    tensors = read_logits(tmp_path / "t")
    model = load(tiny_llama)
    row = 0
    for line in map(json.loads, open(requests)):
        tokens = line["prompt"] + line["output"]
        with torch.inference_mode():
            logits = model(torch.tensor([tokens])).logits[0]
        for position in range(len(line["prompt"]), len(tokens)):
            assert tensors["position"][row] == position and tensors["token"][row] == tokens[position]
            assert torch.equal(tensors["logits"][row], logits[position - 1])
            row += 1
    assert row == len(tensors["token"])
    info = json.loads((tmp_path / "t/trace.json").read_text())
    assert info["modelDigest"].startswith("sha256:") and "dtype=f32" in info["kernelFingerprint"]
    assert kcc("trace", "verify", tmp_path / "t").code == 0


def test_audit_hooks_sign_requests_and_find_where_dtypes_part(kcc, tmp_path, torch_lm, tiny_llama):
    requests = write_requests(tmp_path / "r.jsonl", 3, 320)
    signed = {}
    for name, flags in (("one", "--audit all"), ("two", "--audit all --batch 3"), ("bf16", "--audit all --dtype bf16"), ("off", "")):
        done = kcc("score", f"{torch_lm(tiny_llama)} {flags}", "--requests", requests, "-o", tmp_path / name)
        assert done.code == 0, done.err
        lines = [json.loads(line) for line in open(tmp_path / name / "requests.jsonl")]
        assert all("audit_points" not in line for line in lines)  # nobody asked for them
        signed[name] = [line.get("replay_signature") for line in lines]
    assert signed["off"] == [None] * 3 and None not in signed["one"]
    assert len(set(signed["one"])) == 3 and not set(signed["one"]) & set(signed["bf16"])
    refused = kcc("score", f"{torch_lm(tiny_llama)} --audit all --compile", "--requests", requests, "-o", tmp_path / "c")
    assert refused.code == 4 and "leave one of them out" in refused.err


def test_eager_and_sdpa_agree_and_bf16_is_caught(kcc, tmp_path, torch_lm, tiny_llama, contract):
    requests = write_requests(tmp_path / "r.jsonl", 6, 320)

    def run(train, infer):
        return kcc("run", contract, "--train", torch_lm(tiny_llama, train), "--infer", torch_lm(tiny_llama, infer),
                   "--requests", requests, "--json")

    done = run("--attention eager", "--attention sdpa --batch 3")
    assert done.code == 0, done.err + done.out
    report = done.json
    assert report["convergent"]
    assert report["quantities"]["raw_logit_linf"]["all"]["max"] > 0  # two kernels, not one
    assert "attention=eager" in json.dumps(report["provenance"]["train"])
    done = run("", "--dtype bf16")
    assert done.code == 1, done.err + done.out
    assert done.json["quantities"]["raw_logit_linf"]["all"]["max"] > 1e-4


def test_generation_is_the_seeds_own(kcc, tmp_path, torch_lm, tiny_llama):
    requests = write_requests(tmp_path / "r.jsonl", 4, 320)

    def generate(name, *flags):
        done = kcc("generate", torch_lm(tiny_llama), "--requests", requests, "--max-tokens", 8, "-o", tmp_path / name, *flags)
        assert done.code == 0, done.err
        return (tmp_path / name / "tokens-00000.safetensors").read_bytes()

    generate("greedy", "--temperature", 0)
    model = load(tiny_llama)
    tensors = read_logits(tmp_path / "greedy")
    for i, line in enumerate(map(json.loads, open(requests))):
        out = model.generate(torch.tensor([line["prompt"]]), max_new_tokens=8, do_sample=False, eos_token_id=None)
        mine = tensors["token"][tensors["request"] == i].tolist()
        assert mine == out[0, len(line["prompt"]):].tolist()
    one = generate("one", "--seed", 1, "--temperature", 0.8, "--top-p", 0.9)
    assert generate("again", "--seed", 1, "--temperature", 0.8, "--top-p", 0.9, "--batch", 3) == one
    assert generate("two", "--seed", 2, "--temperature", 0.8, "--top-p", 0.9) != one
    fields = [json.loads(line) for line in open(tmp_path / "one/requests.jsonl")]
    assert all(f["output_tokens"] == 8 and f["latency_ms"] >= f["ttft_ms"] > 0 for f in fields)
    # What one kernel wrote is scored by another, without a requests file.
    done = kcc("score", torch_lm(tiny_llama), "--requests", tmp_path / "one", "-o", tmp_path / "scored")
    assert done.code == 0, done.err
    scored = read_logits(tmp_path / "scored")
    logprobs = torch.log_softmax(scored["logits"].double(), -1).gather(1, scored["token"].long()[:, None])[:, 0]
    recorded = read_logits(tmp_path / "one")["logprob"]
    assert np.allclose(logprobs.numpy(), recorded.numpy(), atol=1e-4)
    assert json.loads((tmp_path / "scored/trace.json").read_text())["sampledBy"] == "infer"


def test_a_directory_without_a_model_says_so(kcc, tmp_path, torch_lm):
    requests = write_requests(tmp_path / "r.jsonl", 1, 320)
    done = kcc("score", torch_lm(tmp_path), "--requests", requests, "-o", tmp_path / "t")
    assert done.code == 4 and "no config.json" in done.err
