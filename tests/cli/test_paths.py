"""Paths that cannot be: a name longer than file systems allow is an error of every command, never an abort. And the
source keeps to the functions of std::filesystem that report errors instead of throwing them."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
LONG = "n" * 300
REQUESTS = "examples/traces/train/requests.jsonl"

COMMANDS = [
    ["rl", "lint", LONG + ".npz"],
    ["rl", "lint", LONG],
    ["rl", "diagnose", LONG + ".safetensors"],
    ["rl", "diagnose", "examples/rl/step.safetensors", LONG + ".jsonl"],
    ["rl", "conform", LONG + ".json"],
    ["rl", "replay", LONG + ".pt", "-o", "out.html"],
    ["check", LONG + ".yaml"],
    ["trace", "show", LONG],
    ["trace", "verify", LONG],
    ["measure", LONG, "examples/traces/infer", "-o", "s.kccs"],
    ["measure", "examples/traces/train", "examples/traces/infer", "-o", LONG],
    ["judge", "contracts/minimal.yaml", LONG],
    ["report", LONG],
    ["import", "npy", LONG + ".npz", "-o", "t", "--fingerprint", "f"],
    ["import", "npy", "tests/data/import/npy/flat.npz", "-o", LONG, "--fingerprint", "f"],
    ["import", "vllm", LONG, "-o", "t", "--vocab-size", "32"],
    ["import", "prime-rl", LONG, "-o", "t", "--side", "train", "--vocab-size", "32"],
    ["import", "vexact", LONG, "-o", "t", "--fingerprint", "f"],
    ["import", "llama-kld", LONG, "-o", "t", "--fingerprint", "f"],
    ["score", "trace:examples/traces/train", "--requests", LONG, "-o", "t"],
    ["score", "trace:examples/traces/train", "--requests", REQUESTS, "-o", LONG],
]


@pytest.mark.parametrize("arguments", COMMANDS, ids=lambda a: " ".join(a).replace(LONG, "LONG"))
def test_a_name_that_is_too_long_is_an_error(kcc, arguments):
    outcome = kcc(*arguments)
    assert outcome.code in (2, 3, 4), (outcome.code, outcome.err)
    assert "error" in outcome.err and "terminate" not in outcome.err


THROWING = re.compile(
    r"(?:std::filesystem|\bfs)::(exists|is_\w+|status|symlink_status|file_size|canonical|weakly_canonical|absolute|"
    r"relative|proximate|equivalent|create_\w+|copy\w*|remove\w*|rename|resize_file|space|temp_directory_path|"
    r"current_path|last_write_time|hard_link_count|read_symlink|permissions|directory_iterator|"
    r"recursive_directory_iterator)(?:\s+\w+)?\(")


def argument_text(source, begin):
    depth, at = 1, begin
    while depth:
        depth += {"(": 1, ")": -1}.get(source[at], 0)
        at += 1
    return source[begin : at - 1]


def test_the_source_asks_the_file_system_without_exceptions():
    found = []
    for folder in ("kcc", "apps"):
        for path in sorted((ROOT / folder).rglob("*.cc")) + sorted((ROOT / folder).rglob("*.h")):
            if re.search(r"_test(_\w+)?\.(cc|h)$", path.name):
                continue
            source = path.read_text()
            codes = set(re.findall(r"std::error_code (\w+)", source))
            for line in re.findall(r"for \(.* : .*directory_iterator.*", source):
                found.append(f"{path}: the increment throws: {line.strip()}")
            for call in THROWING.finditer(source):
                arguments = argument_text(source, call.end())
                # A file_status, already asked for, is no path.
                if re.fullmatch(r"\w*status", arguments) or re.search(r"symlink_status\(\w+\)$", arguments):
                    continue
                if arguments.rsplit(",", 1)[-1].strip() not in codes:
                    found.append(f"{path}: {call.group(0)}{arguments})")
    assert not found, "\n".join(found)
