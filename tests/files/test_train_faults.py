"""Each call by which `kcc lab train` and `kcc lab rl` change a file fails in turn: the error says which file and why, and the run goes on from what is
left to the same bits."""

import json
import random
import shutil

import pytest

REASONS = {"ENOSPC": "No space left on device", "EIO": "Input/output error"}
WRITES = ("write", "pwrite")
CONFIG = {
    "model_type": "llama", "vocab_size": 16, "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1,
    "num_attention_heads": 1, "num_key_value_heads": 1, "head_dim": 32, "max_position_embeddings": 16, "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0, "tie_word_embeddings": True,
}  # fmt: skip


@pytest.fixture(params=["train", "rl"])
def words(request, kcc, tmp_path):
    """The command, without its output."""
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    (tmp_path / "e.jsonl").write_text("".join(json.dumps({"id": f"e{n}", "prompt": [1, n], "output": [n + 1, 2]}) + "\n" for n in range(8)))  # one of them is held out
    train = ["lab", "train", tmp_path / "e.jsonl", "--config", tmp_path / "config.json", "--steps", 3, "--batch-tokens", 8,
             "--save-every", 2, "--threads", 1]  # fmt: skip
    if request.param == "train":
        return train
    assert kcc(*train, "-o", tmp_path / "model").code == 0
    return ["lab", "rl", tmp_path / "e.jsonl", "--model", tmp_path / "model", "--problems", 2, "--group", 2, "--steps", 3,
            "--score-all", "--eval-every", 2, "--eval-problems", 1, "--save-every", 2, "--threads", 1]  # fmt: skip


def files_of(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()} if folder.exists() else {}


def calls(kcc, faults, words, tmp_path):
    """What the run does to files, call by call, and what it leaves."""
    whole = tmp_path / "whole"
    done = kcc(*words, "-o", whole, env=faults(whole, log=tmp_path / "calls"))
    assert done.code == 0, done.err
    return (tmp_path / "calls").read_text().split(), files_of(whole)


def check(kcc, faults, words, folder, expected, kind, at):
    shutil.rmtree(folder, ignore_errors=True)
    done = kcc(*words, "-o", folder, env=faults(folder, kind, at))
    story = f"{kind} at call {at}: exit code {done.code}, left {sorted(files_of(folder))}\n{done.err}"
    if done.code == 0:
        assert files_of(folder) == expected, story
        return
    assert kind != "SHORT" and done.code == 4, story
    assert REASONS[kind] in done.err and str(folder) in done.err, story
    for name, content in files_of(folder).items():
        if name in ("log.jsonl", "held-out.jsonl"):
            assert expected[name].startswith(content), story
        elif name != "state.safetensors":  # the state changes on the way; that it is whole is seen by resuming
            assert content == expected[name], f"{name}: {story}"
    again = kcc(*words, "-o", folder, *(["--resume"] if (folder / "state.safetensors").exists() else []))
    assert again.code == 0, story + again.err
    assert files_of(folder) == expected, story


def test_a_few_calls_that_fail(kcc, faults, words, tmp_path):
    made, expected = calls(kcc, faults, words, tmp_path)
    assert {"write", "fsync"} <= set(made) and {"rename", "renameat2"} & set(made), made
    chosen = random.Random(3)
    for kind in ("ENOSPC", "EIO", "SHORT"):
        candidates = [n for n, call in enumerate(made, 1) if kind != "SHORT" or call in WRITES]
        for at in chosen.sample(candidates, 6):
            check(kcc, faults, words, tmp_path / "run", expected, kind, at)


@pytest.mark.slow
def test_every_call_that_fails(kcc, faults, words, tmp_path):
    made, expected = calls(kcc, faults, words, tmp_path)
    for at, call in enumerate(made, 1):
        for kind in ("ENOSPC", "EIO", "SHORT"):
            if kind != "SHORT" or call in WRITES:
                check(kcc, faults, words, tmp_path / "run", expected, kind, at)
