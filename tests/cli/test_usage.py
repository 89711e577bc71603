"""What every command does alike: exit codes, help, unknown flags, colour, streams."""

import fcntl
import os
import pathlib
import pty
import re
import select
import struct
import subprocess
import sys
import termios

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]

COMMANDS = ["check", "fmt", "diff", "schema", "metrics", "explain", "completion", "doctor"]


def test_no_command_prints_help_and_fails(kcc):
    outcome = kcc()
    assert (outcome.code, outcome.out) == (2, "")
    for command in COMMANDS:
        assert f"\n  {command} " in outcome.err


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_usage_and_an_example(kcc, command):
    outcome = kcc(command, "--help")
    assert (outcome.code, outcome.err) == (0, "")
    assert f"Usage: kcc {command}" in outcome.out
    examples = outcome.out.split("Examples:\n")[1]
    assert f"kcc {command}" in examples
    assert "--json" in outcome.out
    assert kcc(command, "-h").out == outcome.out
    assert max(map(len, outcome.out.splitlines())) <= 100


def test_help_keeps_its_columns_however_wide_a_flag_is(kcc):
    """One flag that takes many words must not push the explanations of all to the right edge."""
    for command in (["rl", "lint"], ["rl", "translate"], ["import"], ["judge"], ["run"]):
        text = kcc(*command, "--help").out.split("\nExamples:")[0]
        assert max(map(len, text.splitlines())) <= 100, text
        helps = [line for line in text.splitlines() if line.startswith("  -h, --help")]
        assert [line.split("  ")[-1].strip() for line in helps] == ["Print this help"], text
    lint = kcc("rl", "lint", "--help").out
    assert "|open_instruct\n                         Or a framework's options instead\n" in lint
    assert "FORMAT    What wrote the input: npy, vllm, " in kcc("import", "--help").out
    assert "--traces PAIR..." in kcc("judge", "--help").out


@pytest.mark.parametrize("command", COMMANDS)
def test_an_unknown_flag_is_an_error_with_a_suggestion(kcc, command):
    outcome = kcc(command, "--jsno")
    assert (outcome.code, outcome.out) == (2, "")
    assert f"kcc {command}: error: unknown flag '--jsno'; did you mean '--json'?" in outcome.err
    assert f"kcc {command} --help" in outcome.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["chek"], "unknown command 'chek'; did you mean 'check'?"),
        (["chek", "--help"], "unknown command 'chek'; did you mean 'check'?"),
        (["lab", "e9", "--help"], "unknown command 'e9'"),
        (["measure", "a", "-o", "s"], "--infer is required"),
        (["measure", "--infer", "a", "-o", "s"], "--train is required"),
        (["run", "c.yaml", "a", "--infer", "b", "c"], "unexpected argument 'c'"),
        (["--versoin"], "unknown flag '--versoin'; did you mean '--version'?"),
        (["check"], "FILE is required"),
        (["diff", "a"], "AFTER is required"),
        (["diff", "a", "b", "c"], "unexpected argument 'c'"),
        (["fmt", "-i", "--check", "a"], "--in-place"),
        (["fmt", "-i", "-"], "standard input cannot be replaced"),
        (["fmt", "a", "b"], "several contracts"),
        (["diff", "-", "-"], "only one of the two"),
        (["completion", "fish"], "no completion for 'fish'"),
        (["check", "--json=no", "a"], "json"),
        (["metrics", "p99_klx"], "did you mean 'p99_kl'?"),
        (["run", "tests", "a", "b"], "tests: error: is a directory, and a contract is a YAML file"),
        (["run", "c.yaml", "a", "b", "--temperature", "0"], "--temperature: '0' is not a number above 0"),
        (["run", "c.yaml", "a", "b", "--threads", "0"], "--threads: '0' is not a number from 1 to 1024"),
        (["author", "--margin", "x"], "--margin: 'x' is not a number from 1 to 1000000"),
        (["generate", "lab:f32", "--temperature", "-1"], "--temperature: '-1' is not a number of at least 0"),
        (["run", "c.yaml", "a", "b", "--stage", "canari"], "'canari' is none of offline, shadow, canary and full; did you"),
    ],
)
def test_wrong_usage_is_exit_code_2(kcc, arguments, message):
    outcome = kcc(*arguments)
    assert outcome.code == 2
    assert message in outcome.err
    assert outcome.out == ""


@pytest.mark.parametrize(
    ("word", "leads_to"),
    [("state", "kcc report out/report.json"), ("ps", "kcc status"), ("why", "kcc gateway why"), ("watch", "kcc run"),
     ("watch", "kcc monitor run"), ("health", "kcc doctor"), ("validate", "kcc check CONTRACT"), ("test", "kcc run CONTRACT"), ("init", "kcc author"),
     ("serve", "kcc gateway gateway.yaml"), ("rollback", "kcc report"), ("tokenize", "kcc requests make"),
     ("help", "kcc --help"), ("version", "kcc --version")],
)  # fmt: skip
def test_words_of_other_tools_lead_somewhere(kcc, word, leads_to):
    for arguments in ([word], [word, "--help"], [word, "x"]):
        outcome = kcc(*arguments)
        assert (outcome.code, outcome.out) == (2, "")
        assert f"unknown command '{word}'; " in outcome.err and leads_to in outcome.err


def test_commands_that_hints_name_are_there(kcc):
    """What a hint tells to type must be a command; read from the hints themselves."""
    text = (ROOT / "apps/kcc/other_words.cc").read_text()
    named = set(re.findall(r"'kcc ([a-z]+)", text))
    listed = set(re.findall(r"^  ([a-z]+) ", kcc("--help").out, re.M))
    assert len(named) >= 8 and named <= listed


SIDES = ["{a} {b}", "--train {a} --infer {b}", "--infer {b} --train {a}", "{a} --infer={b}", "--train {a} {b}"]


@pytest.mark.parametrize("sides", SIDES)
@pytest.mark.parametrize("command", [["measure", "-o", "s"], ["run", "contracts/minimal.yaml"], ["attribute"]])
def test_a_pair_is_named_by_arguments_or_flags(kcc, command, sides, tmp_path):
    """None of the kernels exists, and every way to name them fails in the same words."""
    a, b = f"trace:{tmp_path}/a", f"trace:{tmp_path}/b"
    outcome = kcc(*command, *sides.format(a=a, b=b).split())
    assert outcome == kcc(*command, "--train", a, "--infer", b)
    assert outcome.code in (2, 4) and "required" not in outcome.err and "unexpected" not in outcome.err
    assert command == ["attribute"] or f"{tmp_path}/a" in outcome.err


def test_version(kcc):
    assert kcc("--version").out.startswith("kcc 0.")
    assert kcc("--version", "--json").json["apiVersion"] == "kcc/v1"


@pytest.mark.parametrize("command", [["check"], ["fmt"], ["explain"], ["diff", "-"]])
def test_a_missing_file_is_exit_code_4(kcc, command, minimal, tmp_path):
    outcome = kcc(*command, tmp_path / "none.yaml", stdin=minimal)
    assert outcome.code == 4
    assert f"{tmp_path / 'none.yaml'}: error: cannot open" in outcome.err
    failed = kcc(*command, "--json", tmp_path / "none.yaml", stdin=minimal)
    assert failed.code == 4 and "error" in failed.out and failed.json


@pytest.mark.parametrize("command", [["fmt"], ["explain"], ["diff", "contracts/minimal.yaml"]])
def test_an_invalid_contract_is_exit_code_2_everywhere(kcc, command, minimal):
    bad = minimal.replace("p99_kl", "p99_kll")
    outcome = kcc(*command, "-", stdin=bad)
    assert (outcome.code, outcome.out) == (2, "")
    assert "<stdin>:7:25: error: unknown metric 'p99_kll'" in outcome.err
    failed = kcc(*command, "--json", "-", stdin=bad)
    [row] = failed.json["error"]["diagnostics"]
    assert (failed.code, row["line"], row["code"]) == (2, 7, "unknown-metric")


def test_a_full_disk_is_not_success(kcc_path):
    with open("/dev/full", "w") as full:
        done = subprocess.run([kcc_path, "metrics"], stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 4 and b"standard output" in done.stderr


def run_on_terminal(kcc_path, arguments, env, columns=None, out=None):
    """Standard output and error are a terminal; returns what was written to it. `out`: standard output instead."""
    master, slave = pty.openpty()
    if columns:
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen(
        [kcc_path, *arguments], stdin=subprocess.DEVNULL, stdout=out or slave, stderr=slave, env=env
    )
    text = b""
    while True:  # the slave stays open: when its last end is closed, Linux may drop what was not read yet
        ended = process.poll() is not None
        if select.select([master], [], [], 0.1)[0]:
            text += os.read(master, 65536)
        elif ended:
            break
    os.close(slave)
    os.close(master)
    return text


def test_colour_only_on_a_terminal_and_never_with_no_color(kcc, kcc_path, tmp_path, minimal):
    path = tmp_path / "bad.yaml"
    path.write_text(minimal.replace("p99_kl", "p99_kll"))
    plain = {**os.environ, "TERM": "xterm"}
    plain.pop("NO_COLOR", None)
    assert b"\x1b[" in run_on_terminal(kcc_path, ["check", path], plain)
    assert b"\x1b[" not in run_on_terminal(kcc_path, ["check", path], {**plain, "NO_COLOR": "1"})
    assert b"\x1b[" not in run_on_terminal(kcc_path, ["check", path], {**plain, "TERM": "dumb"})
    # https://no-color.org: set but empty is not set.
    assert b"\x1b[" in run_on_terminal(kcc_path, ["check", path], {**plain, "NO_COLOR": ""})
    assert "\x1b[" not in kcc("check", path).err


def test_json_is_never_coloured(kcc_path, contracts):
    text = run_on_terminal(kcc_path, ["check", "--json", contracts[0]], {**os.environ, "TERM": "xterm"})
    assert b"\x1b[" not in text and text.lstrip().startswith(b"{")


@pytest.mark.parametrize(
    "arguments",
    [["check"], ["explain"], ["fmt", "--json"], ["fmt"], ["diff", "contracts/minimal.yaml"]],
)
def test_the_same_input_gives_the_same_bytes(kcc, arguments, contracts):
    first = kcc(*arguments, contracts[0])
    second = kcc(*arguments, contracts[0], env={"LC_ALL": "de_DE.UTF-8", "TZ": "Asia/Tokyo"})
    assert first == second


@pytest.mark.parametrize("columns", [34, 50, 72, 80, 200])
@pytest.mark.parametrize("command", [[], ["run"], ["import"], ["rl", "lint"], ["author"], ["completion"]])
def test_help_fits_the_terminal(kcc_path, command, columns):
    text = run_on_terminal(kcc_path, [*command, "--help"], {**os.environ, "NO_COLOR": "1"}, columns).decode()
    lines = text.replace("\r\n", "\n").split("\nExamples:")[0].splitlines()
    # A word that is wider than what is left for it stands alone.
    wide = [line for line in lines if len(line) > min(columns, 100)]
    assert all(len(line.split()) == 1 for line in wide), wide
    assert columns < 60 or not wide, wide
    assert max(map(len, lines)) <= 100
    piped = subprocess.run([kcc_path, *command, "--help"], capture_output=True, text=True, check=True).stdout
    assert "".join(text.split()) == "".join(piped.split())  # the same text, whatever the width


def progress_of(kcc_path, arguments, columns=80):
    """The lines that were drawn over one another."""
    text = run_on_terminal(kcc_path, arguments, {**os.environ, "NO_COLOR": "1"}, columns, subprocess.DEVNULL)
    return [line.rstrip() for line in text.decode().split("\r") if line.strip()]


def test_a_run_says_what_it_waits_for_and_counts_tokens(kcc_path, tmp_path, minimal):
    requests = tmp_path / "r.jsonl"
    requests.write_text("".join(f'{{"id": "{i}", "prompt": [1, {i}], "output": [3, 4, 5]}}\n' for i in range(40)))
    (tmp_path / "c.yaml").write_text(minimal)
    asked = ["--requests", str(requests), "--batch", "4"]
    contract = str(tmp_path / "c.yaml")
    drawn = progress_of(kcc_path, ["run", contract, "--train", "lab:f32", "--infer", "lab:bf16", *asked])
    assert drawn[0] == "starting train and infer ..."
    assert drawn[1] == "0%  0 of 120 tokens"
    assert not any("GB/s" in line for line in drawn)
    slow = f"exec:{sys.executable} {ROOT}/tests/kernel/toy.py --vocab 64"
    drawn = progress_of(kcc_path, ["score", slow, "-o", str(tmp_path / "t"), *asked])
    assert drawn[0] == "starting the kernel ..."
    drawn = progress_of(kcc_path, ["run", contract, "--train", str(tmp_path / "t"), "--infer", slow])
    assert drawn[0] == "starting infer ..."


def test_progress_is_no_wider_than_its_terminal(kcc_path, tmp_path):
    requests = tmp_path / "r.jsonl"
    requests.write_text('{"id": "a", "prompt": [1], "output": [3, 4, 5]}\n')
    drawn = progress_of(kcc_path, ["score", "lab:f32", "--requests", str(requests), "-o", str(tmp_path / "t")], 12)
    assert drawn[0] == "starting th" and max(map(len, drawn)) == 11


def test_attribution_counts_corners_and_not_tokens(kcc_path, tmp_path):
    requests = tmp_path / "r.jsonl"
    requests.write_text('{"id": "a", "prompt": [1], "output": [3, 4, 5]}\n')
    arguments = ["attribute", "--train", "lab:f32", "--infer", "lab:fp8", "--requests", str(requests)]
    drawn = progress_of(kcc_path, arguments)
    assert drawn[0] == "starting train and infer ..."
    counted = [line for line in drawn if " of " in line]
    assert counted and all("corner runs" in line and "tokens" not in line for line in counted)
