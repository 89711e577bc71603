"""make demo: its first screen tells the story, none of its slices is empty, and what it suggests runs."""

import json
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCREEN = 45  # lines


def test_the_demo_tells_its_story(tmp_path):
    done = subprocess.run([ROOT / "tools/demo.sh", tmp_path], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    # Fine on average, broken on a slice.
    screen = done.stdout.splitlines()[:SCREEN]
    average = next(i for i, line in enumerate(screen) if "✓ SATISFIED" in line)
    slices = next(i for i, line in enumerate(screen) if "✗ VIOLATED" in line)
    broken = next(i for i, line in enumerate(screen) if "✗ long-context" in line)
    assert average < slices < broken
    for report, worst in (("report.json", "long-context"), ("fp8/report.json", "refusal")):
        judged = json.loads((tmp_path / report).read_text())
        pairs = [pair for clause in judged["clauses"] for pair in clause["slices"]]
        assert all(pair["count"]["requests"] > 0 for pair in pairs)
        assert {pair["slice"] for pair in pairs if pair["verdict"] == "violated"} == {worst}
        assert judged["worstPair"]["slice"] == worst and judged["worstPair"]["factor"] > 1
        assert "On all requests" in judged["worstPair"]["text"]
    assert (tmp_path / "fp8/attribution.html").exists()
    commands = [line for line in done.stdout.split("Three things to try:\n")[1].splitlines() if line.startswith("    ")]
    assert len(commands) == 3
    for command in commands:
        done = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, command + done.stderr
