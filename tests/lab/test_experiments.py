"""E1 and E2 through the real program: figures, Markdown and the pages in a real browser."""

import json
import os
import pathlib
import re
import shutil

import jsonschema
import pytest
from playwright.sync_api import sync_playwright

CHROMIUM = os.environ.get("KCC_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        )
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def experiments(kcc_path, tmp_path_factory):
    """Both experiments, quickly: {"e1": directory, "e2": directory}."""
    import subprocess

    folder = tmp_path_factory.mktemp("experiments")
    for name in ("e1", "e2"):
        done = subprocess.run([kcc_path, "lab", name, "--quick", "-o", folder, "--json"], cwd=ROOT,
                              capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout) == json.loads((folder / f"{name}.json").read_text())
    return folder


def figures(experiments, name):
    return json.loads((experiments / f"{name}.json").read_text())


def contrast(page, selector):
    """The least contrast of text against its own background among the elements."""
    return page.locator(selector).evaluate_all(
        """nodes => Math.min(...nodes.map(node => {
          const parse = (text) => text.match(/[\\d.]+/g).slice(0, 3).map(Number);
          const light = (rgb) => { const [r, g, b] = rgb.map(v => { v /= 255;
            return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
            return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
          const style = getComputedStyle(node);
          const [a, b] = [light(parse(style.color)), light(parse(style.backgroundColor))];
          return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        }))"""
    )


@pytest.mark.parametrize("name", ["e1", "e2"])
@pytest.mark.parametrize("scheme, width", [("light", 1240), ("dark", 1240), ("light", 390), ("dark", 390)])
def test_pages_are_whole_in_both_themes_and_on_a_phone(browser, experiments, name, scheme, width):
    problems = []
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    url = (experiments / f"{name}.html").as_uri()
    page.on("console", lambda message: problems.append(message.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("request", lambda request: request.url.split("#")[0] != url and problems.append(request.url))
    page.goto(url)
    assert page.evaluate("document.documentElement.dataset.theme") == scheme
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "nothing leaves the page sideways"
    for step in ("h0", "h1", "h2", "h3", "h4"):
        if page.locator(f"td.{step}").count():
            assert contrast(page, f"td.{step}") >= 4.5, step
    page.locator("#theme").click()
    assert page.evaluate("document.documentElement.dataset.theme") != scheme
    context.close()
    assert problems == []


def test_e2_shows_every_cell_it_measured(browser, experiments):
    measured = figures(experiments, "e2")["cells"]
    page = browser.new_page()
    page.goto((experiments / "e2.html").as_uri())
    cells = page.locator("table.map td[title]")
    assert cells.count() == len(measured)
    titles = cells.evaluate_all("nodes => nodes.map(node => [node.title, node.textContent, node.className])")
    shown = {title: (text, classes) for title, text, classes in titles}
    for cell in measured:
        length = "as asked" if cell["promptTokens"] == 0 else f"{cell['promptTokens']} tokens"
        load = f"{cell['batch']} at once" + (", under pressure" if cell["pressed"] else "")
        start = f"lab:{cell['engine']}, {cell['slice']}, prompts {length}, {load}: {cell['passing']} of {cell['requests']} "
        (text, classes), = [value for title, value in shown.items() if title.startswith(start)]
        assert text.split()[0] == str(100 * cell["passing"] // cell["requests"])
        assert ("near" in classes.split()) == cell["narrow"]
        mark = {(False, False): "✓", (False, True): "△", (True, True): "▽", (True, False): "✕"}
        assert text.split()[1] == mark[(cell["fails"], cell["narrow"])]


def test_e2_varies_every_axis(experiments):
    cells = figures(experiments, "e2")["cells"]
    assert len({c["engine"] for c in cells}) >= 5
    assert len({c["promptTokens"] for c in cells}) >= 2
    assert len({(c["batch"], c["pressed"]) for c in cells}) >= 2
    assert {c["slice"] for c in cells} >= {"all", "arithmetic", "structured", "refusal", "recall", "copying", "long"}
    assert any(c["fails"] for c in cells) and any(not c["fails"] for c in cells)
    assert sum(c["preemptions"] for c in cells if c["pressed"]) > 0


def test_e2_agrees_with_the_judge(kcc, tmp_path):
    """A cell of E2 is what kcc run says of the same engine, requests and contract."""
    lines = (ROOT / "models/kcc-lab/eval.jsonl").read_text().splitlines(keepends=True)[::40]
    (tmp_path / "r.jsonl").write_text("".join(lines))
    arguments = ["--requests", tmp_path / "r.jsonl"]
    done = kcc("lab", "e2", *arguments, "-o", tmp_path / "e2", "--engine", "int8,int4", "--length", 0, "--max-requests", 10,
               "--quick", "--json")
    assert done.code == 0, done.err
    for engine in ("int8", "int4"):
        kernel = f"lab:{engine}?path=decode&chunk=64&concurrency=1"
        report = kcc("run", "contracts/lab.yaml", "--train", "lab:train", "--infer", kernel, *arguments, "--json").json
        for cell in (c for c in done.json["cells"] if c["engine"] == engine and c["batch"] == 1):
            judged = [s["verdict"] for clause in report["clauses"] if clause["id"] in ("N-1", "N-2", "S-1")
                      for s in clause["slices"] if s["slice"] == cell["slice"]]
            assert ("violated" in judged) == cell["fails"], cell


@pytest.fixture(scope="module")
def validator():
    schema = json.loads((ROOT / "docs/experiment.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


PARTS = ["passRates", "quality", "runtimeWork", "runtimeTime", "incidents"]


@pytest.mark.parametrize("name", ["e1", "e2"])
def test_figures_follow_the_template_and_its_schema(experiments, validator, name):
    report = figures(experiments, name)
    assert [error.message for error in validator.iter_errors(report)] == []
    assert report["experiment"] == name
    assert {part for part in PARTS if report[part] is None} == {"quality", "runtimeTime", "incidents"}
    assert set(report["notMeasured"]) == {"quality", "runtimeTime", "incidents"}
    identity = report["identity"]
    assert identity["contract"]["name"] == "lab" and identity["contract"]["digest"].startswith("sha256:")
    kernels = [kernel["name"] for kernel in identity["kernels"]]
    arms = [arm["name"] for arm in identity["arms"]]
    assert len(set(kernels)) == len(kernels) and len(set(arms)) == len(arms)
    assert all({arm["train"], arm["infer"]} <= set(kernels) for arm in identity["arms"])
    assert [arm["arm"] for arm in report["passRates"]["arms"]] == arms
    assert {row["arm"] for row in report["runtimeWork"]} == set(arms)
    assert [clause["clause"] for clause in report["passRates"]["notJudged"]] == ["O-1"]
    for arm in report["passRates"]["arms"]:
        for row in arm["slices"]:
            assert [clause["clause"] for clause in row["clauses"]] == ["N-1", "N-2", "S-1"]
            assert row["judged"] + row["empty"] == 3 * arm["regimes"]
            assert row["judged"] == sum(row[verdict] for verdict in ("satisfied", "violated", "inconclusive", "error"))
            assert row["share"] == (row["satisfied"] / row["judged"] if row["judged"] else None)


@pytest.mark.parametrize("sample", ["bare", "full"])
def test_a_report_with_no_part_and_one_with_all_follow_the_schema(validator, sample):
    """What the writer writes byte for byte (kcc/experiment/experiment_report_test.cc)."""
    report = json.loads((ROOT / "tests/data/experiment" / f"{sample}.json").read_text())
    assert [error.message for error in validator.iter_errors(report)] == []
    assert [part for part in PARTS if report[part] is None] == (PARTS if sample == "bare" else [])
    assert list(report["notMeasured"]) == (PARTS if sample == "bare" else [])


def test_the_schema_refuses_what_the_template_forbids(experiments, validator):
    report = figures(experiments, "e1")
    reasons = report["notMeasured"]
    wrong = [
        {**report, "kccExperiment": 2},
        {key: value for key, value in report.items() if key != "incidents"},
        {**report, "notMeasured": {key: value for key, value in reasons.items() if key != "quality"}},
        {**report, "notMeasured": {**reasons, "quality": ""}},
        {**report, "notMeasured": {**reasons, "passRates": "but they are there"}},
        {**report, "quality": 0},
        {**report, "incidents": [{"arm": "train", "faults": 0}]},
        {**report, "identity": {**report["identity"], "contract": "lab 1.0.0"}},
    ]
    for document in wrong:
        assert not validator.is_valid(document)


def test_pass_rates_are_verdicts_of_kcc_run(kcc, tmp_path):
    """Batch-invariant engines have one answer under both loads, so every verdict counts twice."""
    lines = (ROOT / "models/kcc-lab/eval.jsonl").read_text().splitlines(keepends=True)[::40]
    (tmp_path / "r.jsonl").write_text("".join(lines))
    arguments = ["--requests", tmp_path / "r.jsonl"]
    engines = ["fp8?batch=invariant", "int4?batch=invariant"]
    done = kcc("lab", "e2", *arguments, "-o", tmp_path / "e2", "--engine", ",".join(engines), "--length", 0,
               "--max-requests", 10, "--quick", "--json")
    assert done.code == 0, done.err
    passes = {arm["arm"]: arm for arm in done.json["passRates"]["arms"]}
    prints = {kernel["name"]: kernel["fingerprint"] for kernel in done.json["identity"]["kernels"]}
    seen = set()
    for engine in engines:
        kernel = f"lab:{engine}&path=decode&chunk=64"
        report = kcc("run", "contracts/lab.yaml", "--train", "lab:train?path=decode&chunk=64", "--infer", kernel,
                     *arguments, "--json").json
        assert report["contract"]["digest"] == done.json["identity"]["contract"]["digest"]
        assert report["provenance"]["infer"]["fingerprint"] == prints[f"lab:{engine}"]
        assert report["provenance"]["infer"]["model"] == done.json["identity"]["model"]
        judged = {(clause["id"], row["slice"]): row for clause in report["clauses"] for row in clause["slices"]}
        for row in passes[f"lab:{engine}"]["slices"]:
            for clause in row["clauses"]:
                verdict = judged[clause["clause"], row["slice"]]
                word = "empty" if verdict["count"]["requests"] == 0 else verdict["verdict"]
                assert clause[word] == 2, (engine, row["slice"], clause)
                seen.add(word)
    assert seen >= {"satisfied", "violated", "empty"}


@pytest.mark.parametrize("name", ["e1", "e2"])
def test_the_page_shows_the_whole_template(browser, experiments, name):
    report = figures(experiments, name)
    page = browser.new_page()
    page.goto((experiments / f"{name}.html").as_uri())
    section = page.locator("#report")
    titles = section.locator(".part > h3").all_text_contents()
    assert titles == ["What was judged", "Clause pass rates", "Quality and reward", "Runtime cost: work",
                      "Runtime cost: time", "Incidents"]
    text = section.text_content()
    assert report["identity"]["contract"]["digest"] in text
    for reason in report["notMeasured"].values():
        assert f"Not measured: {reason}." in text
    slices = len(report["passRates"]["arms"][0]["slices"])
    assert section.locator("table.map tbody td").count() == slices * len(report["passRates"]["arms"])


def test_e1_draws_every_perturbation_on_every_slice(browser, experiments):
    measured = figures(experiments, "e1")["perturbations"]
    slices = [s["slice"] for s in measured[0]["slices"] if s["tokens"] > 0]
    assert len(slices) == 7
    page = browser.new_page()
    page.goto((experiments / "e1.html").as_uri())
    assert page.locator("#histograms .ridge .area").count() == len(slices) * 4 * len(measured)
    assert page.locator("#curves .plot").count() == 2 * len(slices)
    assert page.locator("#slices tbody tr").count() == len(measured)
    for row in measured:
        assert row["linfMax"] <= row["worstCase"]
    title = page.locator("#histograms .ridge[title]").first.get_attribute("title")
    assert re.match(r"attention=tiles:32: p50 \S+, p95 \S+, p99 \S+, largest", title)


@pytest.mark.parametrize(
    "arguments, message",
    [(["--engine", "fp9"], "no kernel 'fp9'"), (["--length", "16300"], "16384 positions"),
     (["--engine", "int4?scale=tensor"], "need scale=group:N")],
)
def test_mistakes_are_named(kcc, tmp_path, arguments, message):
    done = kcc("lab", "e2", "--quick", "-o", tmp_path / "e2", *arguments)
    assert done.code == 2 and message in done.err
    assert not (tmp_path / "e2").exists()


@pytest.mark.parametrize("name", ["e1", "e2"])
def test_the_committed_results_are_of_this_program(experiments, name):
    """docs/results is written by the command (make results): the same headings and columns."""
    def shape(text):
        return [line for line in text.splitlines() if line.startswith(("#", "| engine", "| perturbation", "| the paper"))]

    committed = (ROOT / "docs/results" / f"{name}.md").read_text()
    # A preview has another title and states no finding.
    drop = lambda lines: [line for line in lines if not line.startswith(("| engine | load", "## What the paper", "| the paper", "# "))]  # noqa: E731
    assert drop(shape(committed)) == drop(shape((experiments / f"{name}.md").read_text()))
    headings = [line for line in committed.splitlines() if line.startswith("## ")]
    assert headings[-2:] == ["## What the paper expects, and what was seen", "## Report"], "figures first"


@pytest.mark.parametrize("name", ["e1", "e2"])
def test_a_preview_says_so_and_claims_nothing(browser, experiments, name):
    report = figures(experiments, name)
    assert report["preview"] is True and report["findings"] == []
    text = (experiments / f"{name}.md").read_text()
    assert text.startswith(f"# Preview of E{name[1]}") and "It claims nothing" in text
    assert "What the paper expects" not in text
    page = browser.new_page()
    page.goto((experiments / f"{name}.html").as_uri())
    assert page.locator("h1").inner_text().startswith("Preview of E")
    assert "It claims nothing" in page.locator(".warning").inner_text()
    assert page.locator("#seen").count() == 0
    assert page.locator("main section").first.get_attribute("id") in ("histograms", "maps"), "figures first"


def test_the_terminal_prints_text(kcc, tmp_path):
    done = kcc("lab", "e2", "--quick", "--max-requests", 1, "--length", 0, "--engine", "bf16,int4", "-o", tmp_path / "e2")
    assert done.code == 0, done.err
    assert not any(line.startswith(("#", "|")) for line in done.out.splitlines())
    assert "`" not in done.out and "**" not in done.out
    assert "This is a preview" in done.out and done.out.rstrip().endswith("e2.html")
    assert max(map(len, done.out.splitlines()[:-1])) <= 100
