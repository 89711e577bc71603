"""Gradients of the trainer against PyTorch in float64, tensor by tensor."""

import json
import os
import pathlib
import subprocess

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHIPPED = ROOT / "models/kcc-lab"
BUILD = pathlib.Path(os.environ.get("KCC_BUILD", ROOT / "build" / "release"))

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

SHAPE = {
    "vocab_size": 90, "hidden_size": 96, "intermediate_size": 160, "num_hidden_layers": 3, "num_attention_heads": 6,
    "num_key_value_heads": 2, "head_dim": 32, "max_position_embeddings": 512, "tie_word_embeddings": False,
}  # fmt: skip
LLAMA3 = {
    "rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}  # fmt: skip


def gradients_of(model, kernel, sequences, folder, *more):
    """The trainer's, by tensor, with the log-probs."""
    from kcc.model import checkpoint

    (folder / "sequences").write_text(
        "".join(" ".join(map(str, [first, *tokens])) + "\n" for first, tokens in sequences)
    )
    program = BUILD / "tests/kcc_train_gradients"
    subprocess.run(
        [program, model, kernel, folder / "sequences", folder / "model.safetensors", *map(str, more)], check=True
    )
    return checkpoint.read_tensors(folder)


def expected_of(model, sequences):
    """PyTorch's: the gradient of the sum of -log p over the tokens from `first` on."""
    torch.set_num_threads(1)
    model.zero_grad()
    log_probs = []
    for first, tokens in sequences:
        logits = model(torch.tensor([tokens])).logits[0]
        chosen = torch.log_softmax(logits[first - 1 : -1], -1).gather(1, torch.tensor(tokens[first:])[:, None])[:, 0]
        (-chosen.sum()).backward()
        log_probs.append(chosen.detach().numpy())
    gradients = {name: weight.grad.numpy() for name, weight in model.named_parameters()}
    return gradients, np.concatenate(log_probs)


def worst_gap(made, expected):
    """The largest |made - expected| / |expected| of any tensor, with its name."""
    assert made.keys() == expected.keys()
    gaps = {}
    for name, tensor in expected.items():
        gaps[name] = np.linalg.norm(made[name].astype(np.float64) - tensor) / np.linalg.norm(tensor)
    return max((gap, name) for name, gap in gaps.items())


def shipped_sequences(every):
    lines = [json.loads(line) for line in (SHIPPED / "eval.jsonl").read_text().splitlines()][::every]
    return [(len(line["prompt"]), line["prompt"] + line["output"]) for line in lines]


def random_sequences(count=6, longest=80):
    bits = np.random.default_rng(4)
    made = []
    for _ in range(count):
        tokens = bits.integers(0, 90, int(bits.integers(2, longest))).tolist()
        made.append((int(bits.integers(1, len(tokens))), tokens))
    return made


@pytest.mark.parametrize("kernel", ["train", "f32"])
def test_the_shipped_model_has_the_gradients_of_pytorch_float64(tmp_path, kernel):
    sequences = shipped_sequences(20)
    made = gradients_of(SHIPPED, f"{kernel}?rope=f32", sequences, tmp_path)
    model = transformers.AutoModelForCausalLM.from_pretrained(SHIPPED, dtype=torch.float64, attn_implementation="eager")
    expected, log_probs = expected_of(model, sequences)
    assert np.abs(made.pop("log_probs") - log_probs).max() < 1e-4
    gap, name = worst_gap(made, expected)
    print(f"{kernel}: worst relative gap {gap:.1e} of {name}")
    assert gap < 1e-4, name


@pytest.mark.parametrize("kernel", ["train", "f32"])
@pytest.mark.parametrize(
    "family, more",
    [
        ("llama", {"attention_bias": True, "rope_parameters": LLAMA3}),
        ("qwen2", {"tie_word_embeddings": True}),
        ("qwen3", {"attention_bias": True}),
    ],
    ids=["llama", "qwen2 tied", "qwen3"],
)
def test_other_families_have_the_gradients_of_pytorch_float64(tmp_path, kernel, family, more):
    torch.manual_seed(7)
    config = transformers.AutoConfig.for_model(family, **SHAPE | more)
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(4) if weight.dim() == 2 else weight.add_(torch.randn_like(weight) * 0.3)
    model.save_pretrained(tmp_path / "model")
    sequences = random_sequences()
    made = gradients_of(tmp_path / "model", f"{kernel}?rope=f32", sequences, tmp_path)
    double = transformers.AutoModelForCausalLM.from_pretrained(
        tmp_path / "model", dtype=torch.float64, attn_implementation="eager"
    )
    expected, log_probs = expected_of(double, sequences)
    assert np.abs(made.pop("log_probs") - log_probs).max() < 1e-4
    gap, name = worst_gap(made, expected)
    print(f"{family} {kernel}: worst relative gap {gap:.1e} of {name}")
    assert gap < 1e-4, name


def test_threads_and_targets_do_not_change_a_bit_of_the_shipped_models_gradients(tmp_path):
    sequences = shipped_sequences(200)
    targets = ["scalar"]
    flags = pathlib.Path("/proc/cpuinfo").read_text()
    targets += [name for name, flag in (("avx2", " avx2 "), ("avx512", " avx512f ")) if flag in flags]
    files = set()
    for target in targets:
        for threads in (1, 2):
            gradients_of(SHIPPED, "f32", sequences, tmp_path, threads, target)
            files.add((tmp_path / "model.safetensors").read_bytes())
    assert len(files) == 1
