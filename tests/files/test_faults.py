"""Each call by which a command changes a file fails in turn: afterwards the output is the old one or the new one, the error says which file
and why, and nothing else is left."""

import os
import random

import outputs
import pytest

REASONS = {"ENOSPC": ("No space left on device", "the disk is full"), "EIO": ("Input/output error",)}
WRITES = ("write", "pwrite")
# A file, a report, a trace, a trace through scratch space, and a directory.
FEW = ["measure", "run", "import --replace", "score", "register export"]


def check(bench, faults, kind, at):
    bench.begin()
    done = bench.run("b", faults(bench.directory, kind, at))
    seen, left = outputs.read(bench.directory)
    story = f"{kind} at call {at}: exit code {done.returncode}, left {left}, {sorted(seen)}\n{done.err}"
    assert left == [], story
    assert done.returncode in (0, 4), story
    if kind == "SHORT":
        assert done.returncode == 0, story
    if done.returncode == 0:
        assert seen == bench.states["b"], story
        return
    locked = "cannot write into the report directory" not in done.err  # else nothing was touched, as beside another writer
    assert seen == ({} if bench.output.gone and locked else bench.states["old"]), story
    assert any(reason in done.err for reason in REASONS[kind]) and str(bench.directory) in done.err, story


def calls(bench, faults, tmp_path):
    """What the command does to files, call by call."""
    bench.begin()
    log = tmp_path / "calls"
    assert bench.run("b", faults(bench.directory, log=log)).returncode == 0, bench.last
    return log.read_text().split()


@pytest.mark.parametrize("name", FEW)
def test_a_few_calls_that_fail(bench, faults, tmp_path, name):
    bench = bench(name)
    made = calls(bench, faults, tmp_path)
    assert {"write", "fsync"} <= set(made) and {"rename", "renameat2"} & set(made), made
    chosen = random.Random(name)
    for kind in ("ENOSPC", "EIO", "SHORT"):
        candidates = [n for n, call in enumerate(made, 1) if kind != "SHORT" or call in WRITES]
        for at in chosen.sample(candidates, min(3, len(candidates))):
            check(bench, faults, kind, at)


@pytest.mark.slow
@pytest.mark.parametrize("name", outputs.NAMES)
def test_every_call_that_fails(bench, faults, tmp_path, name):
    bench = bench(name)
    made = calls(bench, faults, tmp_path)
    assert made, "the command writes nothing"
    for at, call in enumerate(made, 1):
        for kind in ("ENOSPC", "EIO", "SHORT"):
            if kind != "SHORT" or call in WRITES:
                check(bench, faults, kind, at)


@pytest.mark.parametrize("flags", [["--report", "{}/report"], ["--summary", "{}/s.kccs"]])
def test_the_verdict_is_printed_whatever_happens_to_the_files(faults, inputs, kcc, tmp_path, flags):
    out = tmp_path / "out"
    out.mkdir()
    words = ["run", inputs / "a.yaml", "--train", inputs / "train", "--infer", inputs / "infer"]
    words += [flag.replace("{}", str(out)) for flag in flags]
    log = tmp_path / "calls"
    assert kcc(*words, env=faults(out, log=log)).code == 0
    last = [n for n, call in enumerate(log.read_text().split(), 1) if call in WRITES][-1]
    done = kcc(*words, env=faults(out, "ENOSPC", last))
    assert done.code == 4 and "No space left on device" in done.err
    assert "SATISFIED" in done.out and "report in" not in done.out


@pytest.mark.parametrize("command", [["run", "{a}", "--train", "{k}", "--infer", "{k}", "--report", "{out}/file/report"],
                                     ["run", "{a}", "--train", "{k}", "--infer", "{k}", "--summary", "{out}/none/s.kccs"],
                                     ["run", "{a}", "--train", "{k}", "--infer", "{k}", "--summary", "{out}"],
                                     ["measure", "{k}", "{k}", "-o", "{out}/none/s.kccs"]])  # fmt: skip
def test_what_cannot_be_written_is_said_before_measuring(inputs, kcc, tmp_path, command):
    (tmp_path / "file").touch()
    places = {"a": inputs / "a.yaml", "out": tmp_path, "k": "exec:no-such-program"}  # fails if it is started
    done = kcc(*[word.format(**places) for word in command], "--requests", inputs / "one.jsonl")
    assert done.code in (2, 4) and str(tmp_path) in done.err and "no-such-program" not in done.err, done.err


# E1 and E3 write as E2 does, verify-exact as attribute, curves one page; runs of training are tried in test_train_faults.py,
# and what they leave when they are killed in tests/train and tests/lab/test_e3.py.
APART = {("lab", "e1"), ("lab", "e3"), ("lab", "verify-exact"), ("lab", "train"), ("lab", "rl"), ("lab", "curves")}


def test_every_output_is_in_the_table(inputs, kcc):
    """A command that gains -o, --report or --summary must be tried here too."""
    assert [output.name for output in outputs.table(inputs)] == outputs.NAMES
    tried = {tuple(word for word in output.arguments["a"][:2] if str(word).isalnum()) for output in outputs.table(inputs)}
    tried = {words[:2] if words[0] in ("rl", "lab", "monitor", "requests", "register") else words[:1] for words in tried}
    commands = [line.split()[0] for line in kcc("--help").out.split("Commands:\n")[1].split("\n\n")[0].splitlines()]
    for command in commands:
        text = kcc(command, "--help").out
        below = text.split("Commands:\n")[1].split("\n\n")[0].splitlines() if "Commands:\n" in text else []
        for words in [(command, line.split()[0]) for line in below] or [(command,)]:
            help_text = kcc(*words, "--help").out
            if any(flag in help_text for flag in ("--output", "--report DIR", "--summary", "--in-place", "--scratch")):
                assert words in tried or words in APART, f"{words} writes, and is not tried"
    assert os.path.exists(inputs / "one.jsonl")
