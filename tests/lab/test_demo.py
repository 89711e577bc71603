"""make demo: its first screen tells the story, none of its slices is empty, and what it suggests runs."""

import json
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCREEN = 45  # lines


@pytest.fixture(scope="module")
def demo(kcc_path):
    assert (ROOT / "build/kcc").exists() and kcc_path
    done = subprocess.run([ROOT / "tools/demo.sh"], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    return done.stdout


def test_the_first_screen_says_fine_on_average_and_broken_on_a_slice(demo):
    screen = demo.splitlines()[:SCREEN]
    average = next(i for i, line in enumerate(screen) if "✓ SATISFIED" in line)
    slices = next(i for i, line in enumerate(screen) if "✗ VIOLATED" in line)
    broken = next(i for i, line in enumerate(screen) if "✗ long-context" in line)
    assert average < slices < broken


@pytest.mark.parametrize("report, worst", [("report.json", "long-context"), ("fp8/report.json", "refusal")])
def test_no_slice_is_empty_and_all_requests_together_pass(demo, report, worst):
    judged = json.loads((ROOT / "build/demo" / report).read_text())
    pairs = [pair for clause in judged["clauses"] for pair in clause["slices"]]
    assert all(pair["count"]["requests"] > 0 for pair in pairs)
    assert {pair["slice"] for pair in pairs if pair["verdict"] == "violated"} == {worst}
    assert judged["worstPair"]["slice"] == worst and judged["worstPair"]["factor"] > 1
    assert "On all requests" in judged["worstPair"]["text"]


def test_it_ends_with_three_commands_that_run(demo):
    commands = [line for line in demo.split("Three things to try:\n")[1].splitlines() if line.startswith("    ")]
    assert len(commands) == 3
    for command in commands:
        done = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, command + done.stderr
