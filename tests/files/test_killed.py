"""Writers that are killed and writers at the same time, on every output: nothing half, nothing mixed, and the next run clears up."""

import random
import signal
import subprocess
import time

import outputs
import pytest

FEW = ["measure", "run", "import"]
# kcc attribute and kcc replay have scratch space, as others here have, and no output.
SLOW = [pytest.param(name, 200, marks=pytest.mark.slow, id=f"{name}, 200 times") for name in outputs.NAMES if name not in outputs.SCRATCH_ALONE]
TAKEN = ("another run is writing", "exists already", "made by another process", "is there already")


def some(names):
    return [pytest.param(name, 10, id=f"{name}, 10 times") for name in names] + SLOW


@pytest.mark.parametrize(("name", "runs"), some(FEW))
def test_killed_writers(bench, faults, tmp_path, name, runs):
    """Half of them at a random moment, half before a random call that changes a file."""
    bench = bench(name)
    chosen = random.Random(name)
    log = tmp_path / "calls"
    begun = time.monotonic()
    assert bench.run("b", faults(bench.directory, log=log)).returncode == 0, bench.last
    seconds = time.monotonic() - begun
    bench.begin()
    calls = max(1, len(log.read_text().split()))
    cleared = 0
    for i in range(runs):
        if bench.output.fresh or bench.output.start_name:
            for target in ("t", "c.yaml"):  # made by a run that was killed too late
                path = bench.directory / target
                if path.exists():
                    path.rename(tmp_path / f"{target}-{i}")
            if bench.output.start_name:
                (bench.directory / bench.output.start_name).write_text(bench.output.start)
        variant = chosen.choice("ab")
        if i % 2 == 0:
            process = bench.run(variant, faults(bench.directory, "KILL", chosen.randint(1, calls)))
        else:
            process = bench.start(variant)
            try:
                process.wait(chosen.uniform(0, seconds))
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
            process.communicate(timeout=60)
        seen, left = outputs.read(bench.directory)
        assert bench.is_whole(seen), f"run {i} left {sorted(seen)}"
        if not left:
            continue
        cleared += 1
        if bench.output.fresh and seen:
            (bench.directory / "t").rename(tmp_path / f"done-{i}")
        if bench.output.start_name:
            (bench.directory / bench.output.start_name).write_text(bench.output.start)
        assert bench.run(variant).returncode == 0, bench.last
        assert outputs.read(bench.directory) == (bench.states[variant], []), f"after run {i}, which left {left}"
    assert cleared > 0, "no run was killed in time: the test shows nothing"


@pytest.mark.parametrize(("name", "runs"), some(FEW))
def test_writers_at_the_same_time(bench, name, runs):
    bench = bench(name)
    for i in range(runs):
        if bench.output.fresh or bench.output.start_name:
            bench.empty()
        writers = [bench.start("a"), bench.start("b")]
        ended = [(writer.communicate(timeout=60)[1], writer.returncode) for writer in writers]
        assert all(code == 0 or any(words in err for words in TAKEN) for err, code in ended), ended
        seen, left = outputs.read(bench.directory)
        assert left == [], f"run {i}"
        winners = [variant for variant, (_, code) in zip("ab", ended) if code == 0]
        assert winners and seen in [bench.states[variant] for variant in winners], f"run {i}: {sorted(seen)}, {ended}"
