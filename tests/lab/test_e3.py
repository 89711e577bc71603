"""E3 through the real program: its cells, runs that go on, the figures and the page in a real browser."""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

import jsonschema
import pytest
from playwright.sync_api import sync_playwright

CHROMIUM = os.environ.get("KCC_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
ROOT = pathlib.Path(__file__).resolve().parents[2]
# Two cells of three steps, from the shipped model.
TINY = ["--cells", "exact,int4-bypass", "--eval-problems", "4", "--steps"]


def e3(kcc_path, folder, *arguments, steps="3"):
    return subprocess.run([kcc_path, "lab", "e3", "-o", folder, *TINY, steps, *arguments], cwd=ROOT, capture_output=True, text=True,
                          timeout=300, check=False)  # fmt: skip


def bytes_of(folder):
    return {path.relative_to(folder): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.fixture(scope="module")
def made(kcc_path, tmp_path_factory):
    folder = tmp_path_factory.mktemp("e3")
    done = e3(kcc_path, folder, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == json.loads((folder / "e3.json").read_text())
    return folder


@pytest.fixture(scope="module")
def figures(made):
    return json.loads((made / "e3.json").read_text())


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        )
        yield browser
        browser.close()


def test_the_cells_are_listed_with_their_cost_and_nothing_runs(kcc):
    listed = kcc("lab", "e3", "--list", "--full", "--json").json
    names = [cell["cell"] for cell in listed["cells"]]
    assert len(set(names)) == len(names) == 35
    assert {"exact", "stale", "fp8-tis-rs", "int4-rs-fitted", "int4c-bypass", "int3-bypass", "ppo-int4-tis", "side-f32-int4"} <= set(names)
    assert listed["steps"] == 985 and listed["seeds"] == 3 and listed["rate"] == 1e-4
    assert listed["cpuSeconds"] == pytest.approx(sum(cell["cpuSeconds"] for cell in listed["cells"]))
    text = kcc("lab", "e3", "--list").out
    assert [line.split()[0] for line in text.splitlines()[:-1]] == ["exact", "int4", "int4-bypass", "int3-bypass"]
    assert re.match(r"4 cells × 1 seed × 60 steps: \S+ CPU-min", text.splitlines()[-1])


def test_runs_are_runs_of_kcc_lab_rl(made, kcc, tmp_path):
    """The same bits as the command with the flags that the cell stands for."""
    done = kcc("lab", "rl", "products", "-o", tmp_path / "run", "--infer", "lab:int4?batch=invariant", "--bypass", "--steps", 3, "--seed", 10,
               "--eval-problems", 4, "--contract", "contracts/rl-post-training.yaml", "--orders", "log")  # fmt: skip
    assert done.code == 0, done.err
    for name in ("log.jsonl", "held-out.jsonl", "model.safetensors"):
        assert (tmp_path / "run" / name).read_bytes() == (made / "runs/int4-bypass-10" / name).read_bytes(), name


def test_figures_are_those_of_the_logs(made, figures):
    cells = {cell["cell"]: cell for cell in figures["cells"]}
    assert len(cells) == 35 and {name for name, cell in cells.items() if cell["runs"]} == {"exact", "int4-bypass"}
    for name in ("exact", "int4-bypass"):
        (run,) = cells[name]["runs"]
        lines = [json.loads(line) for line in (made / f"runs/{name}-10/log.jsonl").read_text().splitlines()]
        held_out = [json.loads(line) for line in (made / f"runs/{name}-10/held-out.jsonl").read_text().splitlines()]
        assert run["steps"] == len(lines) == 3 and run["tokens"] == sum(line["tokens"] for line in lines)
        assert run["startTrain"] == held_out[0]["rewardTrain"] and run["rewardInfer"] == held_out[-1]["rewardInfer"]
        k3 = run["measures"]["metrics token.mean_k3"]
        assert [k3["early"], k3["late"]] == [lines[i]["metrics"]["token.mean_k3"] for i in (0, -1)]
        assert (k3["late"] == 0) == (name == "exact")
    assert cells["int4-bypass"]["recompute"] is None and cells["exact"]["recompute"] == "lab:f32"


def test_figures_follow_the_template_and_say_what_was_not_run(figures):
    jsonschema.Draft202012Validator(json.loads((ROOT / "docs/experiment.schema.json").read_text())).validate(figures)
    assert figures["experiment"] == "e3" and set(figures["notMeasured"]) == {"quality", "runtimeTime", "incidents"}
    assert [arm["arm"] for arm in figures["passRates"]["arms"]] == ["exact", "int4-bypass"]
    for arm in figures["passRates"]["arms"]:
        for row in arm["slices"]:
            for clause in row["clauses"]:
                assert clause["judged"] + clause["empty"] == arm["regimes"] == 3
    assert all("falsified" in finding["predicted"] for finding in figures["findings"])
    decided = [finding for finding in figures["findings"] if finding["holds"] is not None]
    assert [finding["predicted"].startswith("Proposition 2") for finding in decided] == [True], "three steps decide nothing else"


def test_the_enumerable_problem_has_every_correction_within_its_bound(figures):
    table = figures["enumerable"]
    assert table["refuted"] == 0 and len(table["corrections"]) >= 10
    assert all(row["bias"] <= row["bound"] * (1 + 1e-12) + 1e-13 for row in table["corrections"])


def test_what_is_there_is_not_run_again_and_more_seeds_give_intervals(made, kcc_path, tmp_path):
    folder = tmp_path / "again"
    shutil.copytree(made, folder)
    before = bytes_of(folder)
    assert e3(kcc_path, folder).returncode == 0
    assert bytes_of(folder) == before
    assert e3(kcc_path, folder, "--seeds", "2", "--jobs", "2", "--threads", "1").returncode == 0
    report = json.loads((folder / "e3.json").read_text())
    rewards = [figure for figure in report["quality"] if figure["arm"] == "int4-bypass"]
    assert [figure["estimate"]["samples"] for figure in rewards] == [2, 2]
    assert rewards[0]["delta"]["method"] == "Student's t over seeds"
    runs = {path: data for path, data in bytes_of(folder).items() if str(path).endswith("-10/log.jsonl")}
    assert all(before[path] == data for path, data in runs.items()) and len(runs) == 2


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_experiment_goes_on_to_the_same_bits(made, kcc_path, tmp_path, how):
    folder = tmp_path / "cut"
    process = subprocess.Popen([kcc_path, "lab", "e3", "-o", folder, *TINY, "3"], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    log = folder / "runs/exact-10/log.jsonl"
    until = time.monotonic() + 120
    while (not log.exists() or not log.read_bytes()) and time.monotonic() < until:
        time.sleep(0.02)
    process.send_signal(how)
    process.communicate(timeout=120)
    assert process.returncode in (-how, 128 + how)
    assert not (folder / "e3.json").exists()
    done = e3(kcc_path, folder)
    assert done.returncode == 0, done.stderr
    assert bytes_of(folder) == bytes_of(made)


@pytest.mark.parametrize(
    "arguments, message",
    [(["--cells", "int5"], "no cell of E3 is called 'int5'"), (["--task", "sums"], "no task 'sums'"), (["--steps", "0"], "--steps"),
     (["--contract", "nowhere.yaml"], "nowhere.yaml"), (["--model", "nowhere"], "nowhere")],
)  # fmt: skip
def test_mistakes_are_named(kcc, tmp_path, arguments, message):
    done = kcc("lab", "e3", "-o", tmp_path / "e3", *arguments)
    assert done.code in (2, 4) and message in done.err
    assert not (tmp_path / "e3").exists()


def test_a_place_is_needed(kcc):
    done = kcc("lab", "e3")
    assert done.code == 2 and "-o" in done.err


def test_runs_of_another_length_are_not_gone_on_with(made, kcc_path, tmp_path):
    folder = tmp_path / "longer"
    shutil.copytree(made, folder)
    done = e3(kcc_path, folder, steps="4")
    assert done.returncode == 2 and "steps" in done.stderr
    assert bytes_of(folder) == bytes_of(made)


@pytest.mark.parametrize("scheme, width", [("light", 1240), ("dark", 1240), ("light", 390), ("dark", 390)])
def test_the_page_is_whole_in_both_themes_and_on_a_phone(browser, made, figures, scheme, width):
    problems = []
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    url = (made / "e3.html").as_uri()
    page.on("console", lambda message: problems.append(message.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("request", lambda request: request.url.split("#")[0] != url and problems.append(request.url))
    page.goto(url)
    assert page.evaluate("document.documentElement.dataset.theme") == scheme
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "nothing leaves the page sideways"
    assert page.locator("#reward .ridge").count() == 2
    assert page.locator("#cells tbody tr").count() == 2
    assert page.locator("#bias tbody tr").count() == len(figures["enumerable"]["corrections"])
    words = page.locator("#seen li > span:first-child").all_text_contents()
    assert words.count("– not run") == len(figures["findings"]) - 1
    if os.environ.get("KCC_PICTURES"):
        page.screenshot(path=f"{os.environ['KCC_PICTURES']}/e3-{scheme}-{width}.png", full_page=True)
    context.close()
    assert problems == []


def test_markdown_has_the_same_rows(made, figures):
    text = (made / "e3.md").read_text()
    assert text.startswith("# E3: mismatch, corrections and reward")
    cells = text.split("## Cells\n")[1].split("\n## ")[0]
    for cell in figures["cells"]:
        assert (f"\n| {cell['cell']} |" in cells) == bool(cell["runs"])
    headings = [line for line in text.splitlines() if line.startswith("## ")]
    assert headings[-2:] == ["## What the paper expects, and what was seen", "## Report"], "figures first"
