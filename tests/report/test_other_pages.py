"""The pages beside report.html, made by the real program and looked at in a real browser: attribution and replay."""

import json
import os
import pathlib
import shutil
import subprocess

import pytest
from playwright.sync_api import expect, sync_playwright

CHROMIUM = os.environ.get("KCC_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
ROOT = pathlib.Path(__file__).resolve().parents[2]
LOOKS = [(width, scheme) for width in (1280, 420) for scheme in ("light", "dark")]


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
        yield browser
        browser.close()


@pytest.fixture
def open_file(browser):
    """open_file(path, **context) -> page; fails the test on any console message, page error or further request."""
    contexts, problems = [], []

    def open_one(path, **options):
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: problems.append(message.text))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("request", lambda request: request.url.split("#")[0] != path.as_uri() and problems.append(request.url))
        page.goto(path.as_uri())
        return page

    yield open_one
    for context in contexts:
        context.close()
    assert problems == []


@pytest.fixture(scope="module")
def run(kcc_path):
    """run("report", path) -> what it printed; a verdict is not a failure here."""

    def run_one(*words):
        done = subprocess.run([kcc_path, *map(str, words)], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode in (0, 1), done.stderr
        return done.stdout

    return run_one


@pytest.fixture(scope="module")
def attributed(run, tmp_path_factory):
    """A report of two lab kernels, its attribution beside it, and the same attribution as JSON."""
    folder = tmp_path_factory.mktemp("lab report") / "out"
    requests = folder.parent / "requests.jsonl"
    requests.write_text("".join((ROOT / "models/kcc-lab/eval.jsonl").read_text().splitlines(keepends=True)[::40]))
    sides = ["--train", "lab:train", "--infer", "lab:int4", "--requests", requests]
    run("run", "examples/fp8.yaml", *sides, "--report", folder)
    words = ["attribute", *sides, "--contract", "examples/fp8.yaml", "--quantity", "kl,tv"]
    run(*words, "-o", folder / "attribution.html")
    return folder, json.loads(run(*words, "--json"))


def test_the_attribution_shows_every_share_with_its_interval_in_one_unit(open_file, attributed):
    folder, data = attributed
    page = open_file(folder / "attribution.html")
    falls = page.locator(".fall")
    assert falls.count() == len([cell for cell in data["cells"] if cell["tokens"] > 0])
    for cell in data["cells"]:
        fall = page.locator(f"#{cell['quantity']} .fall", has=page.locator("h3", has_text=cell["slice"])).first
        for source in ("operator", "precision", "batch", "route"):
            row = fall.locator(f".s-{source}")
            shown = row.locator(".value").inner_text().replace(",", " ").replace("[", " ").replace("]", " ").split()
            exact = [cell[source]["share"], *cell[source]["interval"]]
            assert [float(number) for number in shown] == pytest.approx(exact, rel=6e-4, abs=1e-300)
        # A waterfall: every bar begins where the one before ended, and the last ends at the total.
        bars = fall.locator(".bar-of").evaluate_all("nodes => nodes.map(node => [node.x.baseVal.value, node.width.baseVal.value])")
        assert len(bars) == 5


def test_the_report_leads_to_its_attribution_and_back(open_file, attributed):
    folder, _ = attributed
    page = open_file(folder / "report.html")
    step = page.locator('[data-step="attribute"]')
    assert f"-o '{folder}/attribution.html'" in step.locator("code").inner_text(), "quoted: the directory has a blank"
    assert step.get_by_role("link").get_attribute("href") == "attribution.html"
    assert open_file(folder / "attribution.html").get_by_role("link", name="The report").get_attribute("href") == "report.html"


def test_a_new_report_takes_the_old_attribution_away(run, attributed, tmp_path):
    folder, _ = attributed
    again = tmp_path / "again"
    shutil.copytree(folder, again)
    (again / "mine.html").write_text("mine")
    run("report", folder, "-o", again)
    assert not (again / "attribution.html").exists() and (again / "mine.html").exists()
    (again / "attribution.html").write_text("mine too")
    run("report", folder, "-o", again)
    assert (again / "attribution.html").read_text() == "mine too"


@pytest.fixture(scope="module")
def replay(run, tmp_path_factory):
    path = tmp_path_factory.mktemp("replay") / "replay.html"
    run("rl", "replay", "examples/rl/step.safetensors", "-o", path)
    return path


def test_the_replay_is_sorted_by_any_column_with_the_keyboard(open_file, replay):
    page = open_file(replay)
    button = page.get_by_role("button", name="variance")
    button.focus()
    page.keyboard.press("Enter")
    column = page.locator("th").all_inner_texts().index("variance")
    values = [float(text) for text in page.locator(f"tbody td:nth-child({column + 1})").all_inner_texts() if text not in "–∞"]
    assert values == sorted(values) and len(values) > 10
    assert page.locator("th").nth(column).get_attribute("aria-sort") == "ascending"
    page.keyboard.press("Enter")
    expect(page.locator("th").nth(column)).to_have_attribute("aria-sort", "descending")
    assert page.locator("tr.best").count() == 1


def test_the_replay_has_a_theme_and_cards_on_a_phone(open_file, replay):
    page = open_file(replay, viewport={"width": 420, "height": 900}, color_scheme="dark")
    background = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(background)
    page.get_by_role("button", name="Switch to the light theme").click()
    assert page.evaluate(background) != dark
    assert page.locator("thead").is_hidden()
    page.get_by_label("Sort by").select_option(label="kept ↓")
    label = page.locator("tbody tr").first.locator("td").nth(1)
    assert label.get_attribute("data-label") == "kept" and label.inner_text().startswith("100")
    size = page.locator("figure svg text").first.evaluate("node => node.getBoundingClientRect().height")
    assert size >= 10, "letters of the picture are not shrunk"


@pytest.mark.parametrize("width, scheme", LOOKS)
def test_pages_fit_the_screen(open_file, attributed, replay, width, scheme):
    for path in (attributed[0] / "attribution.html", attributed[0] / "report.html", replay):
        page = open_file(path, viewport={"width": width, "height": 900}, color_scheme=scheme)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
        assert page.evaluate("document.documentElement.dataset.theme") == scheme


def test_the_replay_says_why_a_point_off_the_front_is_recommended(open_file, replay):
    page = open_file(replay)
    assert page.locator(".pick b").inner_text().startswith("token truncate at 2; reject by sequence mean ratio")
    assert "It lies off the front: whatever is better in both" in page.locator(".pick").inner_text()


def test_the_replay_of_a_small_gap_says_that_no_correction_is_needed(run, open_file, tmp_path):
    run("rl", "replay", "examples/rl/trl-step.pt", "-o", tmp_path / "replay.html")
    page = open_file(tmp_path / "replay.html", viewport={"width": 420, "height": 900})
    assert page.locator(".pick b").inner_text() == "No correction is needed"
    assert "inside NeMo-RL's 0.001" in page.locator(".pick").inner_text()
    assert page.evaluate("document.documentElement.scrollWidth") <= 420


def test_the_replay_says_what_the_gap_spends_of_ppos_epsilon_and_the_settings(run, open_file, tmp_path):
    printed = run("rl", "replay", "examples/rl/step.safetensors", "--for", "verl", "-o", tmp_path / "replay.html").splitlines()
    for width in (1280, 420):
        page = open_file(tmp_path / "replay.html", viewport={"width": width, "height": 900})
        shown = page.locator(".pick").inner_text()
        assert "A correction is advised: k3 is 0.01833 on slice grid, beyond NeMo-RL's 0.001." in shown
        assert next(line for line in printed if line.startswith("PPO's epsilon 0.2: ")) in shown
        settings = printed[printed.index("settings for verl:") + 1 :]
        assert page.locator(".settings").inner_text().splitlines() == [line.strip() for line in settings]
        assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.fixture(scope="module")
def curves(run, tmp_path_factory):
    """A page of two runs of reinforcement learning, one of them under a contract that it violates."""
    folder = tmp_path_factory.mktemp("rl")
    contract = folder / "strict.yaml"
    contract.write_text(
        "apiVersion: kcc/v1\nkind: KernelContract\nmetadata: {name: strict, version: 1.0.0}\nspec:\n"
        "  decision: {about: evaluation-set}\n  numerical:\n"
        "    - {id: N-1, metric: mean_abs_log_ratio, atMost: 1e-6, level: L3}\n"
    )
    common = ["lab", "rl", "products", "--problems", 2, "--group", 4, "--steps", 4, "--eval-every", 2, "--eval-problems", 4]
    run(*common, "-o", folder / "exact")
    run(*common, "-o", folder / "int4", "--infer", "lab:int4?batch=invariant", "--contract", contract, "--orders", "log")
    run("lab", "curves", folder / "exact", folder / "int4", "-o", folder / "arms.html")
    return folder


@pytest.mark.parametrize("width, scheme", LOOKS)
def test_the_page_of_runs_shows_every_curve_and_clause(curves, open_file, screenshot, width, scheme):
    page = open_file(curves / "arms.html", viewport={"width": width, "height": 900}, color_scheme=scheme)
    expect(page.locator("h1")).to_have_text("Runs side by side")
    assert page.locator(".chart").count() >= 12
    for chart in page.locator(".chart").all():
        assert chart.locator("svg.plot polyline, svg.plot .dot").count() >= 1
    expect(page.locator(".runs span")).to_have_count(2)
    strip = page.locator(".strip")
    expect(strip).to_have_count(1)
    expect(strip.locator(".mono")).to_have_text("N-1/all")
    assert strip.locator("rect.v-violated").count() >= 1
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    screenshot(page, f"rl-curves-{width}-{scheme}")


def test_a_run_has_a_page_of_its_own(curves, open_file):
    page = open_file(curves / "int4/curves.html")
    expect(page.locator("h1")).to_have_text("GRPO on products")
    expect(page.locator(".runs")).to_have_count(0)
    assert page.locator(".chart svg[role=img]").count() >= 12
