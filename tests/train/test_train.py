"""kcc lab train through the real program: what it learns, what survives a kill, what it refuses."""

import json
import math
import os
import pathlib
import random
import shutil
import signal
import subprocess
import time

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]

CONFIG = {
    "model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "vocab_size": 64, "hidden_size": 32,
    "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16,
    "max_position_embeddings": 64, "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "tie_word_embeddings": False,
    "attention_bias": False, "initializer_range": 0.2,
}  # fmt: skip


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    path = tmp_path_factory.mktemp("config") / "config.json"
    path.write_text(json.dumps(CONFIG))
    return path


def examples_at(path, count=60):
    """Sums modulo 40, which a model of this size can learn by heart."""
    bits = np.random.default_rng(2)
    with path.open("w") as out:
        for i in range(count):
            a, b = (int(n) for n in bits.integers(0, 40, 2))
            out.write(json.dumps({"id": f"e{i}", "prompt": [50, a, b], "output": [(a + b) % 40, 51]}) + "\n")
    return path


@pytest.fixture(scope="module")
def examples(tmp_path_factory):
    return examples_at(tmp_path_factory.mktemp("examples") / "e.jsonl")


def log_of(folder):
    return [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]


def files_of(folder):
    return {name: (folder / name).read_bytes() for name in sorted(path.name for path in folder.iterdir())}


def test_a_run_is_pytorchs_adamw(kcc, config, examples, tmp_path):
    """Losses, lengths of gradients and weights of every step, from the same weights on the same examples."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    from kcc.model import checkpoint

    steps, rate, prompt_weight = 12, 5e-3, 0.25
    start = kcc("lab", "train", examples, "--config", config, "-o", tmp_path / "start", "--steps", 1, "--rate", 1e-12)
    assert start.code == 0, start.err
    # All examples make one batch, so their order does not count.
    done = kcc(
        "lab", "train", examples, "--model", tmp_path / "start", "-o", tmp_path / "run", "--steps", steps, "--rate", rate,
        "--batch-tokens", 10**6, "--prompt-weight", prompt_weight, "--schedule", "linear", "--floor", 0.1, "--warmup", 4,
        "--clip", 2, "--decay", 0.1,
    )  # fmt: skip
    assert done.code == 0, done.err
    torch.set_num_threads(1)
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "start", dtype=torch.float64)
    groups = [{"params": [p for p in model.parameters() if p.dim() == 2], "weight_decay": 0.1},
              {"params": [p for p in model.parameters() if p.dim() != 2], "weight_decay": 0.0}]  # fmt: skip
    optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.98), eps=1e-8)
    lines = [json.loads(line) for line in examples.read_text().splitlines()]
    tokens = torch.tensor([line["prompt"] + line["output"] for line in lines])
    weights = torch.tensor([prompt_weight, prompt_weight, 1.0, 1.0], dtype=torch.float64)
    for step, line in enumerate(log_of(tmp_path / "run"), 1):
        for group in optimizer.param_groups:
            group["lr"] = rate * min(1, step / 4) * (0.1 + 0.9 * (1 - (step - 1) / (steps - 1)))
        assert math.isclose(line["rate"], optimizer.param_groups[0]["lr"], rel_tol=1e-12)
        log_probs = torch.log_softmax(model(tokens[:, :-1]).logits, -1).gather(2, tokens[:, 1:, None])[..., 0]
        loss = -(log_probs * weights).sum() / (weights.sum() * len(lines))
        optimizer.zero_grad()
        loss.backward()
        length = torch.nn.utils.clip_grad_norm_(model.parameters(), 2.0)
        optimizer.step()
        assert math.isclose(line["loss"], loss.item(), rel_tol=1e-4)
        assert math.isclose(line["gradientLength"], length.item(), rel_tol=1e-3)
    made = checkpoint.read_tensors(tmp_path / "run")
    for name, weight in model.named_parameters():
        expected = weight.detach().numpy()
        gap = np.linalg.norm(made[name] - expected) / np.linalg.norm(expected)
        assert gap < 1e-3, name


def test_a_model_learns_and_every_engine_loads_it(kcc, config, examples, tmp_path):
    """Trained through int4, it answers through int4; the folder loads as a kernel and with transformers."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")

    for kernel in ("lab:f32", "lab:int4?batch=invariant"):
        folder = tmp_path / kernel[4:8]
        done = kcc("lab", "train", examples, "--config", config, "--kernel", kernel, "-o", folder, "--epochs", 150,
                   "--batch-tokens", 150, "--rate", 1e-2, "--json")  # fmt: skip
        assert done.code == 0, done.err
        assert done.json["loss"]["last"] < 0.1 < done.json["loss"]["first"]
        kernel += ("&" if "?" in kernel else "?") + f"model={folder}"
        asked = kcc("generate", kernel, "--requests", examples, "--temperature", 0, "--max-tokens", 2, "-o", folder / "t")
        assert asked.code == 0, asked.err
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "f32")
    assert model.dtype == torch.float32
    right = 0
    lines = [json.loads(line) for line in examples.read_text().splitlines()]
    with torch.no_grad():
        for line in lines:
            right += model(torch.tensor([line["prompt"]])).logits[0, -1].argmax().item() == line["output"][0]
    assert right >= 0.95 * len(lines)


def test_threads_do_not_change_a_bit_and_the_seed_does(kcc, config, examples, tmp_path):
    def files(name, *more):
        done = kcc("lab", "train", examples, "--config", config, "-o", tmp_path / name, "--steps", 5,
                   "--batch-tokens", 100, "--pack-tokens", 40, *more)  # fmt: skip
        assert done.code == 0, done.err
        return files_of(tmp_path / name)

    one = files("one", "--threads", 1)
    assert files("two", "--threads", 2) == one
    assert files("three", "--threads", 3, "--save-every", 1) == one
    assert files("seed", "--seed", 2)["model.safetensors"] != one["model.safetensors"]


def kill_after(run, log, lines, pause):
    """Kill the run `pause` seconds after its log has this many lines; False where it ended before."""
    while run.poll() is None and (log.read_bytes().count(b"\n") if log.exists() else 0) < lines:
        time.sleep(0.001)
    time.sleep(pause)
    run.send_signal(signal.SIGKILL)
    err = run.stderr.read()
    assert run.wait() in (0, -signal.SIGKILL), err
    return run.returncode != 0


def test_a_run_that_is_killed_at_any_moment_resumes_to_the_same_bits(kcc, kcc_path, config, examples, tmp_path):
    steps = 60
    command = ["lab", "train", examples, "--config", config, "--steps", steps, "--batch-tokens", 200, "--pack-tokens", 90,
               "--save-every", 3, "--threads", 1]  # fmt: skip
    begin = time.monotonic()
    assert kcc(*command, "-o", tmp_path / "whole").code == 0
    a_step = (time.monotonic() - begin) / steps
    expected = files_of(tmp_path / "whole")
    bits = random.Random(5)
    kills = 0
    for _ in range(100):
        folder = tmp_path / "killed"
        shutil.rmtree(folder, ignore_errors=True)
        resume = []
        # A run may be killed more than once. The moment is a place in the run, not on a clock: the machine's
        # speed may change from one run to the next.
        for _ in range(2):
            with subprocess.Popen([kcc_path, *map(str, command), "-o", folder, *resume],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as run:  # fmt: skip
                kills += kill_after(run, folder / "log.jsonl", bits.randrange(steps), bits.random() * a_step)
            if (folder / "state.safetensors").exists():
                resume = ["--resume"]
        done = kcc(*command, "-o", folder, *resume)
        assert done.code == 0, done.err
        left = files_of(folder)
        # What a killed writer leaves goes with the next one that writes into the folder.
        assert {name for name in left if not name.endswith(".tmp")} == set(expected)
        for name, content in expected.items():
            assert left[name] == content, name
        if kills >= 20:
            break
    assert kills >= 20, "the runs were over before they were killed"


def test_an_interrupted_run_saves_its_state_and_says_how_to_go_on(kcc, kcc_path, config, examples, tmp_path):
    command = ["lab", "train", str(examples), "--config", str(config), "--steps", "100000", "--batch-tokens", "100",
               "-o", str(tmp_path / "run")]  # fmt: skip
    with subprocess.Popen([kcc_path, *command], stdout=subprocess.PIPE, text=True) as run:
        while not (tmp_path / "run/log.jsonl").exists() or not (tmp_path / "run/log.jsonl").read_text():
            time.sleep(0.01)
        run.send_signal(signal.SIGINT)
        out = run.stdout.read()
    assert run.returncode == -signal.SIGINT
    assert "--resume goes on" in out
    lines = len(log_of(tmp_path / "run"))
    assert f"to {lines} of 100000" in out, "every step that was taken is in the state"
    assert not (tmp_path / "run/model.safetensors").exists()


def test_mistakes_are_named(kcc, config, examples, tmp_path):
    def refused(*arguments, code=2):
        done = kcc("lab", "train", *arguments)
        assert done.code == code, done.err
        return done.err

    ok = [examples, "--config", config, "--steps", 2]
    assert kcc("lab", "train", *ok, "-o", tmp_path / "run").code == 0
    assert "--resume goes on with it" in refused(*ok, "-o", tmp_path / "run")
    assert "holds no training run to resume" in refused(*ok, "-o", tmp_path / "new", "--resume")
    message = refused(examples, "--config", config, "--steps", 2, "-o", tmp_path / "run", "--resume", "--rate", 0.5)
    assert "was started with rate 0.001, and would go on with 0.5" in message
    more = examples_at(tmp_path / "more.jsonl", 61)
    message = refused(more, "--config", config, "--steps", 2, "-o", tmp_path / "run", "--resume")
    assert "was started with examples sha256:" in message
    assert "give one" in refused(*ok, "--model", "x", "-o", tmp_path / "a")
    assert "the lab has no kernel 'f33'" in refused(*ok, "--kernel", "lab:f33", "-o", tmp_path / "a")
    assert "the run starts from --model" in refused(*ok, "--kernel", "lab:f32?model=x", "-o", tmp_path / "a")
    shutil.copytree(tmp_path / "run", tmp_path / "other")
    (tmp_path / "other/state.safetensors").unlink()
    assert "holds a checkpoint, which the run would replace" in refused(*ok, "-o", tmp_path / "other")
    bad = tmp_path / "bad.jsonl"
    bad.write_text('{"id": "a", "prompt": [1], "output": [2]}\n{"id": "b", "prompt": [1], "output": [64]}\n')
    assert "example 'b' holds token 64, but the vocabulary has 64" in refused(bad, "--config", config, "-o", tmp_path / "b")
    bad.write_text(json.dumps({"id": "long", "prompt": [1], "output": [2] * 64}) + "\n")
    assert "example 'long' has 65 tokens, but the model has 64 positions" in refused(
        bad, "--config", config, "-o", tmp_path / "b")  # fmt: skip
    for positions in ("[0, 1]", "[0, 1, -2]", "[0, 1, 2.5]", '"x"'):
        bad.write_text('{"id": "p", "prompt": [1, 2], "output": [3], "positions": ' + positions + "}\n")
        message = refused(bad, "--config", config, "-o", tmp_path / "b")
        assert "example 'p': 'positions' must be a list of whole numbers from 0, one for each of its 3 tokens" in message
    bad.write_text('{"id": "p", "prompt": [1, 2], "output": [3], "positions": [0, 1, 64]}\n')
    assert "holds position 64, but the model has 64 positions" in refused(bad, "--config", config, "-o", tmp_path / "b")
    bad.write_text("")
    refused(bad, "--config", config, "-o", tmp_path / "b")
    assert not (tmp_path / "b").exists()
    data = bytearray((tmp_path / "run/state.safetensors").read_bytes())
    data[-5] ^= 4
    (tmp_path / "run/state.safetensors").write_bytes(data)
    assert "the state is damaged" in refused(*ok, "-o", tmp_path / "run", "--resume", code=4)
    message = refused(examples, "--config", config, "-o", tmp_path / "c", "--rate", "1e30", "--steps", 50, code=4)
    assert "is not finite; a lower rate" in message


def test_a_finished_run_resumes_to_itself(kcc, config, examples, tmp_path):
    command = ["lab", "train", examples, "--config", config, "--steps", 3, "-o", tmp_path / "run"]
    assert kcc(*command).code == 0
    before = files_of(tmp_path / "run")
    done = kcc(*command, "--resume", "--json")
    assert done.code == 0, done.err
    assert done.json["resumedFrom"] == done.json["step"] == 3 and done.json["loss"] is None
    assert files_of(tmp_path / "run") == before


def test_nothing_is_written_where_the_folder_cannot_be(kcc, config, examples, tmp_path):
    if os.geteuid() == 0:
        (tmp_path / "file").write_text("")
        done = kcc("lab", "train", examples, "--config", config, "-o", tmp_path / "file/run")
    else:
        tmp_path.chmod(0o500)
        done = kcc("lab", "train", examples, "--config", config, "-o", tmp_path / "run")
    assert done.code == 4
    assert "cannot make the directory" in done.err


def test_positions_are_those_of_pytorch(kcc, config, tmp_path):
    """Jumps in the positions of RoPE, as training for long contexts on short examples has them."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")

    line = {"id": "a", "prompt": [1, 2, 3, 4], "output": [5, 6, 7], "positions": [0, 1, 2, 20, 21, 50, 51]}
    file = tmp_path / "e.jsonl"
    file.write_text(json.dumps(line) + "\n")
    done = kcc("lab", "train", file, "--config", config, "-o", tmp_path / "run", "--steps", 1, "--rate", 1e-12)
    assert done.code == 0, done.err
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "run", dtype=torch.float64)
    tokens = torch.tensor([line["prompt"] + line["output"]])
    with torch.no_grad():
        logits = model(tokens, position_ids=torch.tensor([line["positions"]])).logits[0]
    chosen = torch.log_softmax(logits[3:-1], -1).gather(1, tokens[0, 4:, None])
    assert math.isclose(log_of(tmp_path / "run")[0]["loss"], -chosen.mean().item(), rel_tol=1e-5)
