"""A FIFO where a file of a trace, a report or a model is expected is an error and not a wait; requests may come from a pipe."""

import os
import shutil
import subprocess
import threading

import outputs
import pytest

ROOT = outputs.ROOT
DATA = ROOT / "tests/data"
SAMPLES = {
    "trace": (ROOT / "examples/traces/train", ["trace", "info", "{}"]),
    "vexact": (DATA / "import/vexact", ["import", "vexact", "{}", "--fingerprint", "x", "-o", "{}.out"]),
    "prime-rl": (DATA / "import/prime_rl/step_3", ["import", "prime-rl", "{}", "--side", "train", "--vocab-size", "1000", "--fingerprint", "x", "-o", "{}.out"]),
    "token exports": (DATA / "rl/token_exports", ["rl", "diagnose", "{}"]),
    "model": (ROOT / "models/kcc-lab", ["score", "lab:f32?model={}", "--requests", "{inputs}/one.jsonl", "-o", "{}.out"]),
    "report": (None, ["report", "{}"]),
}  # fmt: skip


@pytest.mark.parametrize("name", SAMPLES)
def test_a_fifo_in_place_of_a_file_is_named(kcc_path, inputs, tmp_path, name):
    source, words = SAMPLES[name]
    source = source or inputs / "a"
    files = sorted(path.relative_to(source) for path in source.rglob("*") if path.is_file() and path.suffix not in (".md", ""))
    tried = 0
    for i, file in enumerate(files):
        copy = tmp_path / str(i)
        shutil.copytree(source, copy, symlinks=True)
        command = [kcc_path, *(word.replace("{inputs}", str(inputs)).replace("{}", str(copy)) for word in words)]
        (copy / file).unlink()
        os.mkfifo(copy / file)
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, cwd=ROOT, check=False)
        if done.returncode == 0:
            continue  # the command does not read it
        assert done.returncode in (2, 4) and f"{copy / file}" in done.stderr and "regular file" in done.stderr, (file, done.stderr)
        tried += 1
    assert tried > 0


def piped(kcc_path, words, text, tmp_path, how):
    """Runs it with the requests from a pipe: standard input, or a FIFO."""
    if how == "stdin":
        words = [str(word).replace("{requests}", "/dev/stdin") for word in words]
        return subprocess.run([kcc_path, *words], input=text, capture_output=True, text=True, timeout=30, cwd=ROOT, check=False)
    fifo = tmp_path / "fifo.jsonl"
    if not fifo.exists():
        os.mkfifo(fifo)
    writer = threading.Thread(target=lambda: fifo.write_text(text), daemon=True)
    writer.start()
    words = [str(word).replace("{requests}", str(fifo)) for word in words]
    return subprocess.run([kcc_path, *words], capture_output=True, text=True, timeout=30, cwd=ROOT, check=False, stdin=subprocess.DEVNULL)


@pytest.mark.parametrize(("name", "how"), [("score", "stdin"), ("measure", "fifo"), ("attribute", "stdin"), ("lab", "fifo")])
def test_requests_may_come_from_a_pipe(kcc, kcc_path, inputs, tmp_path, name, how):
    words = {
        "score": ["score", "lab:f32", "--requests", "{requests}", "-o", "{out}"],
        "measure": ["measure", "lab:f32", "lab:bf16", "--requests", "{requests}", "-o", "{out}"],
        "attribute": ["attribute", "--train", "lab:f32", "--infer", "lab:bf16", "--requests", "{requests}"],
        "lab": ["lab", "e2", "--quick", "--max-requests", "1", "--length", "0", "--engine", "bf16", "--requests", "{requests}", "-o", "{out}"],
    }[name]

    def command(out):
        return [word.replace("{out}", str(tmp_path / out)) for word in words]

    requests = 1 if name == "attribute" else 2  # which scores each one sixteen times
    text = "\n" + "\n".join((ROOT / "models/kcc-lab/eval.jsonl").read_text().splitlines()[:requests]) + "\n"
    (tmp_path / "file.jsonl").write_text(text)
    expected = kcc(*(word.replace("{requests}", str(tmp_path / "file.jsonl")) for word in command("expected")))
    assert expected.code == 0, expected.err
    done = piped(kcc_path, command("piped"), text, tmp_path, how)
    assert done.returncode == 0, done.stderr
    if name == "attribute":
        assert done.stdout == expected.out
        return
    a, b = tmp_path / "expected", tmp_path / "piped"
    pairs = [(a, b)] if a.is_file() else [(path, b / path.name) for path in a.iterdir()]
    assert pairs and all(x.read_bytes() == y.read_bytes() for x, y in pairs)


def test_a_mistake_in_piped_requests_has_its_line(kcc_path, tmp_path):
    text = '\n{"id": "a", "prompt": [256], "output": [1]}\n\n{"id": "a", "prompt": [256], "output": [1]}\n'
    words = ["score", "lab:f32", "--requests", "{requests}", "-o", str(tmp_path / "t")]
    done = piped(kcc_path, words, text, tmp_path, "stdin")
    assert done.returncode == 2 and "/dev/stdin:4: error:" in done.stderr and "stood already in line 2" in done.stderr
