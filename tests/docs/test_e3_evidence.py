"""What advice says of E3 is what E3's page says: the table in the program, the decision table and the paper's claims."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/results/e3-gpu.md").read_text(encoding="utf-8")
SOURCE = (ROOT / "kcc/rl/training_evidence.cc").read_text(encoding="utf-8")
MINUS = str.maketrans("−", "-")


def arms():
    """The first table by arm: its cells, of which reward, minus exact, fell, mean abs log-ratio and k3 early are looked at."""
    table = PAGE.split("| arm | reward", 1)[1].split("\n\n", 1)[0]
    rows = [[cell.strip() for cell in line.strip("| ").split("|")] for line in table.splitlines()[2:]]
    return {row[0]: row for row in rows}


def kernels():
    pattern = r'\{"(\w+)", ([\d.]+), ([\d.]+), (-[\d.]+), ([\d.]+), "([^"]+)",\s*(-?[\d.]+|kNone), ([\d.]+|kNone)\}'
    return re.findall(pattern, SOURCE)


@pytest.mark.parametrize("kernel", kernels(), ids=lambda kernel: kernel[0])
def test_the_programs_table_is_the_pages(kernel):
    name, gap, k3, cost, interval, fell, recompute, recompute_interval = kernel
    bypass = arms()[f"{name} bypass"]
    assert (float(bypass[5]), float(bypass[6])) == (float(gap), float(k3))
    assert bypass[3] == f"{float(cost):.3f} ± {float(interval):.3f}"
    steps = [int(step) for step in re.findall(r"\d+", bypass[4])]
    seeds = f"in {len(steps)} of 3 seeds" if steps else "in no seed"
    assert fell.startswith(seeds)
    assert [int(step) for step in re.findall(r"\d+", fell)[2:]] == sorted({min(steps), max(steps)} if steps else ())
    if recompute == "kNone":
        assert name not in arms()
    else:
        assert arms()[name][3] == f"{float(recompute):.3f} ± {float(recompute_interval):.3f}"


def test_there_are_kernels():
    assert [kernel[0] for kernel in kernels()] == ["fp8", "int4", "int4c", "int3"]


@pytest.mark.parametrize("page", ["docs/rl.md", "docs/results/e3-claims.md", "docs/rl-lint.md", "docs/rl-replay.md"])
def test_intervals_on_the_pages_are_e3s(page):
    """Each `x ± y` of three digits stands in E3's own tables, but for the sign of a difference told as a cost."""
    known = {pair.translate(MINUS).lstrip("-") for pair in re.findall(r"[-−]?\d\.\d{3} ± \d\.\d{3}", PAGE)}
    told = {pair.translate(MINUS).lstrip("-") for pair in
            re.findall(r"[-−]?\d\.\d{3} ± \d\.\d{3}", (ROOT / page).read_text(encoding="utf-8"))}  # fmt: skip
    assert told and told <= known, told - known
