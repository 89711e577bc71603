"""Completion scripts complete: bash is asked as a shell would ask it, zsh parses its script."""

import os
import pty
import select
import re
import shutil
import subprocess
import time

import pytest


@pytest.fixture
def complete(kcc, kcc_path, tmp_path):
    """The candidates bash offers for the last word of a command line."""
    script = tmp_path / "kcc.bash"
    script.write_text(kcc("completion", "bash").out)
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "kcc").symlink_to(kcc_path)
    shutil.copytree("contracts", tmp_path / "contracts")

    def ask(*words):
        quoted = " ".join(f"'{word}'" for word in ("kcc", *words))
        done = subprocess.run(
            ["bash", "-c", f'source "{script}"; COMP_WORDS=({quoted}); COMP_CWORD={len(words)}; '
             '_kcc 2>/dev/null; printf "%s\\n" "${COMPREPLY[@]}"'],
            capture_output=True, text=True, cwd=tmp_path, check=True,
            env={"PATH": f"{programs}:/usr/bin:/bin"},
        )
        return [line for line in done.stdout.splitlines() if line]

    return ask


@pytest.mark.parametrize(
    ("words", "candidates"),
    [
        (["ch"], ["check"]),
        (
            [""],
            ["check", "fmt", "diff", "schema", "metrics", "explain", "measure", "merge", "judge", "run"]
            + ["score", "generate", "attribute", "replay", "lab", "report", "compare", "bound", "calibrate", "author"]
            + ["promote", "monitor", "gateway", "status", "trace", "import", "rl", "register", "requests", "doctor", "completion"],
        ),
        (["trace", ""], ["info", "head", "verify"]),
        (["requests", ""], ["make"]),
        (
            ["register", ""],
            ["init", "add", "head", "verify", "log", "list", "show", "class", "blame", "export", "import", "gc", "page", "blob", "rebuild"]
            + ["attest", "verify-attestation", "stamp"],
        ),
        (["promote", "a"], ["advance", "approve", "answer", "abort"]),
        (["monitor", ""], ["run", "replay", "explain", "simulate"]),
        (["run", "--fail-on", ""], ["L1", "L2", "L3"]),
        (["--v"], ["--version"]),
        (["check", "--s"], ["--strict"]),
        (["fmt", "--"], ["--help", "--json", "--in-place", "--check", "--drop-comments"]),
        (["metrics", "p99_logit_li"], ["p99_logit_linf"]),
        (["metrics", "ece"], ["ece_gap"]),
        (["completion", ""], ["bash", "zsh"]),
        (["explain", "contracts/minimal.yaml", "S"], ["S-1"]),
        (["explain", "--json", "contracts/minimal.yaml", "N-"], ["N-1", "N-2"]),
        (["check", "contracts/mini"], ["contracts/minimal.yaml"]),
        (["diff", "contracts/minimal.yaml", "contracts/bit"], ["contracts/bit-exact.yaml"]),
        (["check", "contracts/minimal.yaml", "contracts/fp8"], ["contracts/fp8-serving.yaml"]),
        (["nonsense", ""], []),
        (["schema", ""], []),
    ],
)
def test_bash_completes(complete, words, candidates):
    assert complete(*words) == candidates


def test_bash_knows_every_flag_of_every_command(kcc, complete):
    for command in complete(""):
        help_text = kcc(command, "--help").out
        members = re.findall(r"^  ([a-z0-9-]+) ", help_text.partition("\nCommands:\n")[2].partition("\n\n")[0], re.M)
        assert set(members) <= set(complete(command, ""))
        help_text += "".join(kcc(command, member, "--help").out for member in members)  # of a group
        for flag in complete(command, "-"):
            assert flag in help_text


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_zsh_parses_and_defines_the_function(kcc, tmp_path):
    script = tmp_path / "_kcc"
    script.write_text(kcc("completion", "zsh").out)
    subprocess.run(["zsh", "-n", script], check=True)
    done = subprocess.run(
        ["zsh", "-f", "-c", f"autoload -Uz compinit; compinit -u -D; source {script}; whence -w _kcc"],
        capture_output=True, text=True, check=True,
    )
    assert "function" in done.stdout


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("kcc ch", "kcc check"),
        ("kcc fmt --d", "kcc fmt --drop-comments"),
        ("kcc metrics p99_logit_li", "kcc metrics p99_logit_linf"),
        ("kcc explain contracts/minimal.yaml S", "kcc explain contracts/minimal.yaml S-1"),
        ("kcc completion z", "kcc completion zsh"),
    ],
)
def test_zsh_completes(kcc, kcc_path, tmp_path, typed, completed):
    (tmp_path / "_kcc").write_text(kcc("completion", "zsh").out)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "kcc").symlink_to(kcc_path)
    process, terminal = pty.fork()
    if process == 0:
        os.environ.update(PATH=f"{tmp_path}/bin:/usr/bin:/bin", TERM="dumb", ZDOTDIR=str(tmp_path))
        os.execvp("zsh", ["zsh", "-f", "-i"])

    def read_until(text):
        seen = ""
        deadline = time.monotonic() + 30
        while text not in seen and time.monotonic() < deadline:
            if select.select([terminal], [], [], 1)[0]:
                seen += os.read(terminal, 65536).decode(errors="replace")
        assert text in seen, seen
        return seen

    try:
        setup = f"fpath=({tmp_path} $fpath); autoload -Uz compinit; compinit -u -D; echo rea''dy"
        os.write(terminal, setup.encode() + b"\n")
        read_until("ready")
        os.write(terminal, typed.encode() + b"\t")
        read_until(completed[len(typed) - 1 :])
    finally:
        os.write(terminal, b"\x03\x04")
        os.close(terminal)
        os.waitpid(process, 0)


def test_zsh_names_every_command(kcc):
    script = kcc("completion", "zsh").out
    assert script.startswith("#compdef kcc\n")
    for command in ("check", "fmt", "diff", "schema", "metrics", "explain", "completion"):
        assert f"'{command}:" in script
