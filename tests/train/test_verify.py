"""kcc lab verify-exact through the real program, in its short form."""

import json

import numpy as np
import pytest

CONFIG = {
    "model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "vocab_size": 64, "hidden_size": 64,
    "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
    "max_position_embeddings": 256, "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "tie_word_embeddings": False,
    "initializer_range": 0.2,
}  # fmt: skip


@pytest.fixture(scope="module")
def trained(kcc_path, tmp_path_factory):
    """A model trained for a few steps through int4, and the examples it was trained on."""
    import subprocess

    folder = tmp_path_factory.mktemp("trained")
    (folder / "config.json").write_text(json.dumps(CONFIG))
    bits = np.random.default_rng(2)
    with (folder / "e.jsonl").open("w") as out:
        for i in range(40):
            tokens = bits.integers(0, 64, int(bits.integers(3, 40))).tolist()
            out.write(json.dumps({"id": f"e{i}", "prompt": tokens[:-2], "output": tokens[-2:]}) + "\n")
    subprocess.run([kcc_path, "lab", "train", folder / "e.jsonl", "--config", folder / "config.json", "--steps", "20",
                    "--kernel", "lab:int4?batch=invariant", "-o", folder / "run"], check=True, capture_output=True)  # fmt: skip
    return folder


def verify(kcc, trained, *arguments, length=40):
    return kcc("lab", "verify-exact", "--model", trained / "run", "--requests", trained / "e.jsonl", "--tokens", 2000,
               "--max-tokens", length, *arguments)  # fmt: skip


def test_the_kernels_that_training_needs_are_exact(kcc, trained):
    done = verify(kcc, trained, "--json")
    assert done.code == 0, done.out + done.err
    kernels = done.json["kernels"]
    assert [kernel["kernel"] for kernel in kernels] == [
        "lab:f32", "lab:bf16-invariant", "lab:fp8?batch=invariant", "lab:int4?batch=invariant",
        "lab:int3?batch=invariant",
    ]  # fmt: skip
    for kernel in kernels:
        assert kernel["verdict"] == "exact"
        assert kernel["tokens"] >= 2000 and kernel["unequal"] == kernel["unequalRows"] == 0
        assert kernel["preemptions"] > 0 and kernel["first"] is None
        assert {axis["axis"] for axis in kernel["axes"]} >= {"company", "page", "chunk", "cache", "threads", "packing"}
        assert [control["source"] for control in kernel["controls"]] == ["operator", "precision", "batch", "route"]
        for control in kernel["controls"]:
            assert control["holds"] and control["named"] == control["source"], control
            assert control["unequal"] == sum(control["ulps"]) > 0


def test_a_kernel_that_the_batch_changes_is_not_exact(kcc, trained):
    done = verify(kcc, trained, "lab:bf16")
    assert done.code == 1
    assert "unequal: " in done.out and "units in the last place: 1: " in done.out
    assert "first: request " in done.out and "company 3, page 5" in done.out


def test_a_kernel_whose_controls_change_nothing_is_not_certified(kcc, trained):
    done = verify(kcc, trained, "lab:train")
    assert done.code == 3
    assert "✗ control batch=dynamic (batch): 0 of " in done.out
    assert "a control was not seen or not named, so that zero says nothing" in done.out


def test_the_same_seed_gives_the_same_bytes(kcc, trained):
    first = verify(kcc, trained, "lab:f32", "--json")
    assert verify(kcc, trained, "lab:f32", "--json").out == first.out
    assert verify(kcc, trained, "lab:f32", "--json", "--seed", 2).out != first.out


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["lab:f33"], "the lab has no kernel 'f33'"),
        (["lab:f32?model=x"], "all kernels run that of --model"),
        (["trace:x"], "is not a kernel of the lab"),
    ],
)
def test_mistakes_are_named(kcc, trained, arguments, message):
    done = verify(kcc, trained, *arguments)
    assert done.code == 2
    assert message in done.err


def test_a_prompt_that_cannot_be_continued_is_named(kcc, trained):
    done = verify(kcc, trained, "lab:f32", length=300)
    assert done.code == 2
    assert "but the model has 256 positions" in done.err
