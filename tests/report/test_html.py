"""report.html in a real browser: what the page shows is what report.json says."""

import json
import os
import shutil

import pytest
from playwright.sync_api import expect, sync_playwright

CHROMIUM = os.environ.get("KCC_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
ARGS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGS)
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser, samples):
    """open_page(sample, **context) -> page; fails the test on any console message, page error or
    request beyond the file itself."""
    contexts, problems = [], []

    def open_one(sample, **options):
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        contexts.append(context)
        page = context.new_page()
        url = (samples / sample / "report.html").as_uri()
        page.on("console", lambda message: problems.append(f"console {message.type}: {message.text}"))
        page.on("pageerror", lambda error: problems.append(f"page error: {error}"))
        page.on("dialog", lambda dialog: (problems.append("a dialog opened"), dialog.dismiss()))
        page.on("request", lambda request: request.url.split("#")[0] != url and problems.append(f"request: {request.url}"))
        page.goto(url)
        return page

    yield open_one
    for context in contexts:
        context.close()
    assert problems == []


def report_of(samples, sample):
    return json.loads((samples / sample / "report.json").read_text())


def number(text):
    """The number a field shows, as report.json would hold it."""
    text = text.replace(",", "").replace("−", "-").lstrip("≤≥ ")
    return float(text)


def field(page, name):
    return page.locator(f'.details [data-field="{name}"]')


def exactly(page, name):
    """Every digit of a field, which stands behind the rounded number."""
    return field(page, name).get_attribute("title")


def rounded(text, value):
    """What people read is the number to four digits, or the number itself where it has fewer."""
    return number(text) == pytest.approx(value, rel=6e-4)


@pytest.mark.parametrize("sample", ["violated", "convergent", "hostile"])
def test_every_cell_shows_its_verdict_value_threshold_and_counts(open_page, samples, sample):
    report = report_of(samples, sample)
    page = open_page(sample)
    pairs = 0
    for index, clause in enumerate(report["clauses"]):
        for pair in clause["slices"]:
            buttons = page.locator(f'.matrix button[data-clause="{index}"]')
            names = buttons.evaluate_all("nodes => nodes.map(node => node.dataset.slice)")
            buttons.nth(names.index(pair["slice"])).click()
            pairs += 1
            assert field(page, "verdict").inner_text() == pair["verdict"]
            assert number(exactly(page, "threshold")) == pair["threshold"]
            assert rounded(field(page, "threshold").inner_text(), pair["threshold"])
            assert field(page, "threshold").inner_text()[0] == ("≤" if clause["bound"] == "atMost" else "≥")
            assert number(field(page, "requests").inner_text()) == pair["count"]["requests"]
            assert number(field(page, "tokens").inner_text()) == pair["count"]["tokens"]
            assert field(page, "other").inner_text() == pair["other"]["verdict"]
            if isinstance(pair["value"], (int, float)):
                assert number(exactly(page, "value")) == pair["value"]
                assert rounded(field(page, "value").inner_text(), pair["value"])
                assert len(field(page, "value").inner_text()) <= 9
            elif pair["interval"] is None:
                assert field(page, "value").inner_text() == "not measured"
            if pair["smallestPassing"] is None:
                assert field(page, "smallestPassing").count() == 0
            else:
                assert number(exactly(page, "smallestPassing")) == pair["smallestPassing"]
            if pair["exceedance"]:
                text = field(page, "exceedance").inner_text()
                assert number(text.split(" of ")[0]) == pair["exceedance"]["exceeding"]
                assert number(text.split(" of ")[1].split(" ")[0]) == pair["exceedance"]["windows"]
            if sample != "hostile":
                assert field(page, "reason").inner_text() == pair["reason"]
                wheres = {row["name"]: row["where"] for row in report["slices"]}
                assert field(page, "where").inner_text() == (wheres[pair["slice"]] or "every request")
                assert field(page, "why").all_inner_texts() == ([clause["why"]] if "why" in clause else [])
    assert pairs == sum(report["totals"]["pairs"].values())


def test_the_top_says_verdict_action_health_and_totals(open_page, samples):
    report = report_of(samples, "violated")
    page = open_page("violated")
    assert page.locator("h1").inner_text().lower() == report["verdict"]
    assert page.locator(".ladder .now").inner_text() == report["action"]
    assert page.locator(".meaning").inner_text() == "fallback: serve from the fallback kernel."
    kernels = page.locator(".kernels").inner_text()
    assert all(report["provenance"][side]["name"] in kernels for side in ("train", "infer"))
    assert report["worstPair"]["text"] in page.locator(".headline").inner_text()
    assert number(page.locator("#health").inner_text()) == pytest.approx(report["health"], rel=1e-3)
    for verdict, count in report["totals"]["pairs"].items():
        assert page.locator(f'[data-total="{verdict}"] b').inner_text() == str(count)


def test_a_risk_that_nobody_measured_is_grey(open_page):
    page = open_page("empty")
    assert page.locator("#health").inner_text() == "not measured"
    fills = page.locator(".unmeasured rect").evaluate_all("nodes => nodes.map(node => node.getAttribute('fill'))")
    assert fills == ["var(--line-strong)"] * 3 and page.locator(".unmeasured circle").count() == 0
    assert open_page("convergent").locator(".unmeasured").count() == 0


def test_findings_stand_by_clause_with_their_reasons(open_page, samples):
    report = report_of(samples, "violated")
    page = open_page("violated")
    open_pairs = {clause["id"]: [pair for pair in clause["slices"] if pair["verdict"] != "satisfied"] for clause in report["clauses"]}
    groups = page.locator(".findings .group")
    assert groups.count() == sum(bool(pairs) for pairs in open_pairs.values())
    for group in groups.all():
        clause = next(row for row in report["clauses"] if row["id"] == group.locator(".anchor").inner_text())
        shown = group.locator(".pair .where a").all_inner_texts()
        assert sorted(shown) == sorted(pair["slice"] for pair in open_pairs[clause["id"]])
        if "why" in clause:
            assert clause["why"] in group.locator(".reason-of").inner_text()
        # One scale: equal thresholds stand at equal places.
        marks = group.locator("svg.bullet > line:last-of-type").evaluate_all("nodes => nodes.map(node => node.getAttribute('x1'))")
        assert len(set(marks)) == 1
    worst = report["worstPair"]
    first = groups.first.locator(".pair").first
    assert worst["slice"] in first.locator(".where").inner_text()
    assert first.locator(".times").inner_text() == f"{round(worst['factor'], 1):g}×"
    assert "prompt_tokens >= 8192" in first.locator(".where code").inner_text()


def test_the_next_commands_are_those_of_the_report_and_can_be_copied(open_page, samples):
    report = report_of(samples, "violated")
    page = open_page("violated", permissions=["clipboard-read", "clipboard-write"])
    commands = page.locator("#next .command code").all_inner_texts()
    assert commands == [step["command"] for step in report["next"]] and len(commands) >= 3
    assert any("'traces/torch bf16'" in command for command in commands), "quoted for a shell"
    page.locator('[data-step="author"] .copy').click()
    expect(page.locator('[data-step="author"] .copy')).to_have_text("copied")
    assert page.evaluate("navigator.clipboard.readText()") == next(step["command"] for step in report["next"] if step["name"] == "author")
    assert open_page("convergent").locator("#next").count() == 0


def test_the_report_is_copied_as_markdown_and_as_a_picture(open_page, samples):
    page = open_page("violated", permissions=["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy the report as Markdown").click()
    expect(page.get_by_role("button", name="Copy the report as Markdown")).to_have_text("copied")
    copied = page.evaluate("navigator.clipboard.readText()")
    whole = (samples / "violated" / "report.md").read_text()
    assert copied.split("<details>")[0] == whole.split("<details>")[0]
    size = """async () => { const [item] = await navigator.clipboard.read();
      const picture = await createImageBitmap(await item.getType('image/png')); return [picture.width, picture.height]; }"""
    for name in ("Copy the verdict as PNG", "Copy logit_linf on long-context as PNG"):
        button = page.get_by_role("button", name=name)
        button.click()
        expect(button).to_have_text("copied")
        width, height = page.evaluate(size)
        assert width > 500 and height > 300
    page.get_by_role("button", name="Copy the worst tokens as Markdown").click()
    table = page.evaluate("navigator.clipboard.readText()").splitlines()
    assert table[0].startswith("| quantity | slice |") and len(table) == 2 + page.locator("#worst tbody tr").count()


def test_links_lead_to_what_they_name_and_follow_the_selection(open_page, samples):
    page = open_page("violated")
    page.locator('.matrix button[data-clause="2"]').nth(1).click()
    assert page.evaluate("location.hash") == "#clauses/N-3/safety"
    url = (samples / "violated" / "report.html").as_uri()
    page.goto("about:blank")
    page.goto(url + "#clauses/N-2/late-tokens")
    assert "N-2 on late-tokens" in page.locator(".details h3").inner_text()
    page.goto(url + "#distributions/kl/safety")
    assert page.locator(".dist figure h3").first.inner_text() == "kl on safety"
    page.goto(url + "#findings/R-1")
    assert page.locator(".group", has_text="R-1").first.is_visible()
    page.goto(url + "#clauses/no-such/%E0%A4%A")  # what it does not know it ignores
    assert page.locator("h1").inner_text() == "Violated"


def test_worst_tokens_open_on_what_is_violated(open_page, samples):
    report = report_of(samples, "violated")
    page = open_page("violated")
    slices = set(page.locator("#worst tbody tr td:nth-child(2)").all_inner_texts())
    quantities = set(page.locator("#worst tbody tr td:nth-child(1)").all_inner_texts())
    assert (quantities, slices) == ({"logit_linf"}, {report["worstPair"]["slice"]})


@pytest.mark.parametrize("sample", ["violated", "large"])
def test_every_slice_is_in_sight_at_1280(open_page, sample):
    page = open_page(sample)
    for box in (".scroll", ".strips"):
        assert page.locator(box).evaluate("node => node.scrollWidth <= node.clientWidth"), box
    rows = page.locator(".strips")
    assert rows.evaluate("node => node.scrollHeight <= node.clientHeight + 1")


LABELS = """() => {
  const poor = [];
  for (const svg of document.querySelectorAll('svg.chart')) {
    const boxes = [...svg.querySelectorAll('text')].map((node) => [node.textContent, node.getBoundingClientRect()]);
    boxes.forEach(([text, a], i) => { for (const [other, b] of boxes.slice(i + 1)) {
      const across = Math.min(a.right, b.right) - Math.max(a.left, b.left), down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      if (across > 1 && down > 3) poor.push(text + ' | ' + other);
    } });
  }
  return poor;
}"""


@pytest.mark.parametrize("width", [1280, 420])
@pytest.mark.parametrize("sample", ["violated", "convergent", "large"])
def test_no_label_of_a_chart_covers_another(open_page, samples, sample, width):
    page = open_page(sample, viewport={"width": width, "height": 900})
    for quantity in report_of(samples, sample)["quantities"]:
        page.evaluate("(quantity) => select({ quantity })", quantity)
        assert page.evaluate(LABELS) == [], quantity


def test_clicking_through_slices_redraws_histogram_curve_and_thresholds(open_page, samples):
    report = report_of(samples, "violated")
    page = open_page("violated")
    for quantity, slices in report["quantities"].items():
        page.locator(f'[data-quantity="{quantity}"]').click()
        for name, statistics in slices.items():
            page.locator(f'.strip[data-slice="{name}"]').click()
            assert page.locator(".dist figure h3").first.inner_text() == f"{quantity} on {name}"
            count = page.locator('[data-stat="count"] b').inner_text()
            assert number(count) == statistics["count"]
            shown = page.locator('[data-stat="p99"] b').get_attribute("title")
            assert number(shown) == statistics["p99"]
            bars = page.locator(".dist figure").first.locator("svg.chart rect title")
            kept = [n for n in report["histograms"][quantity][name]["counts"] if n]
            shown = bars.evaluate_all("nodes => nodes.map(node => node.textContent)")
            assert [int(text.split(": ")[1].replace(",", "")) for text in shown] == kept
            wanted = sorted(
                pair["threshold"]
                for clause in report["clauses"]
                if clause.get("quantity") == quantity
                for pair in clause["slices"]
                if pair["slice"] == name
            )
            drawn = page.locator("[data-threshold]").evaluate_all("nodes => nodes.map(node => node.dataset.threshold)")
            assert sorted(number(text) for text in drawn) == wanted
            label = page.locator("#disagreement svg.chart").get_attribute("aria-label")
            assert label.endswith(name)


def test_tables_stand_behind_the_charts(open_page, samples):
    report = report_of(samples, "violated")
    page = open_page("violated")
    for summary in page.locator("details.data summary").all():
        summary.click()
    rows = page.locator("#distributions figure").nth(1).locator("tbody tr")
    # A table is filled when its toggle event arrives, which is after the click: expect waits for it.
    expect(rows).to_have_count(len(report["quantities"]["logit_linf"]))
    expect(page.locator("#disagreement tbody tr")).to_have_count(len(report["curves"][0]["points"]))
    page.get_by_label("Worst tokens of").select_option("")
    assert page.locator("#worst tbody tr").count() == len(report["worst"])
    assert page.locator("#bounds tbody tr").count() == len(report["bounds"])


def test_the_matrix_is_driven_by_the_keyboard(open_page):
    page = open_page("violated")
    first = page.locator('.matrix button[data-clause="0"]').first
    first.click()
    assert page.locator('.matrix button[tabindex="0"]').count() == 1
    page.keyboard.press("ArrowRight")
    assert "N-1 on long-context" in page.locator(".details h3").inner_text()
    page.keyboard.press("ArrowDown")
    assert "N-2 on long-context" in page.locator(".details h3").inner_text()
    page.keyboard.press("End")
    assert "N-2 on late-tokens" in page.locator(".details h3").inner_text()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowUp")
    assert "N-1 on all" in page.locator(".details h3").inner_text()
    focused = page.evaluate("document.activeElement.getAttribute('aria-label')")
    assert focused.startswith("N-1 on all: satisfied")


def test_hostile_text_stays_text(open_page):
    page = open_page("hostile")
    assert page.locator("img").count() == 0
    assert "onerror=alert(1)" in page.locator(".verdict .name").inner_text()
    assert page.locator("script").count() == 2


def test_forty_clauses_by_fifty_slices_stay_usable(open_page, samples):
    report = report_of(samples, "large")
    page = open_page("large")
    assert page.locator(".matrix button[data-clause]").count() == sum(report["totals"]["pairs"].values())
    page.get_by_label("only what is not satisfied").check()
    rows = page.locator(".matrix tbody tr:not(.family)")
    assert rows.count() == sum(clause["verdict"] != "satisfied" for clause in report["clauses"])
    page.locator(".findings ~ .more").click()
    assert page.locator(".findings .pair").count() == report["totals"]["pairs"]["violated"]


def test_an_empty_report_is_shown(open_page):
    page = open_page("empty")
    assert page.locator("h1").inner_text() == "Inconclusive"
    assert page.locator("#distributions, #worst, #bounds, #disagreement").count() == 0


def test_without_scripts_a_summary_remains(open_page):
    page = open_page("violated", java_script_enabled=False)
    assert "qwen3-8b-fp8-serving 1.3.0: violated" in page.locator("#static h1").inner_text()
    assert page.locator("#static tbody tr").count() == 5 + 10
    assert page.locator("#app").is_hidden()


def test_the_theme_follows_the_system_and_the_button(open_page):
    page = open_page("violated", color_scheme="dark")
    background = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(background)
    page.get_by_role("button", name="Switch to the light theme").click()
    assert page.evaluate(background) != dark
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate(background) == "rgb(255, 255, 255)"


CONTRAST = """() => {
  const lum = ([r, g, b]) => { const f = (c) => { c /= 255; return c <= .04045 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4; };
    return .2126 * f(r) + .7152 * f(g) + .0722 * f(b); };
  const rgba = (text) => { const v = text.match(/[\\d.]+/g).map(Number); return v.length < 4 ? [...v, 1] : v; };
  const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3]));
  const poor = [];
  for (const node of document.querySelectorAll('#app *')) {
    const own = [...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim());
    if (!own || !node.getClientRects().length || node.closest('[aria-hidden="true"], .hidden-text')) continue;
    let ground = [255, 255, 255];
    const chain = []; for (let n = node; n; n = n.parentElement) chain.unshift(n);
    for (const n of chain) { const c = getComputedStyle(n).backgroundColor; if (c.startsWith('rgb')) ground = over(rgba(c), ground); }
    const style = getComputedStyle(node);
    const paint = node instanceof SVGElement ? style.fill : style.color;
    if (!paint.startsWith('rgb')) continue;
    const [a, b] = [lum(over(rgba(paint), ground)), lum(ground)].sort((x, y) => y - x);
    if ((a + .05) / (b + .05) < 4.5) poor.push(node.tagName + '.' + node.getAttribute('class') + ' ' + node.textContent.slice(0, 30) + ' ' + ((a + .05) / (b + .05)).toFixed(2));
  }
  return poor;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("sample", ["violated", "convergent"])
def test_every_text_has_the_contrast_of_wcag_aa(open_page, sample, scheme):
    page = open_page(sample, color_scheme=scheme)
    assert page.evaluate(CONTRAST) == []


@pytest.mark.parametrize("sample", ["violated", "large", "hostile", "convergent"])
@pytest.mark.parametrize(
    "look,width,scheme,media",
    [
        ("light", 1280, "light", "screen"),
        ("dark", 1280, "dark", "screen"),
        ("phone", 420, "light", "screen"),
        ("phone-dark", 390, "dark", "screen"),
        ("print", 760, "dark", "print"),
    ],
)
def test_it_fits_the_screen(open_page, screenshot, sample, look, width, scheme, media):
    page = open_page(sample, viewport={"width": width, "height": 900}, color_scheme=scheme)
    page.emulate_media(media=media, color_scheme=scheme)
    overflow = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert overflow <= 0
    screenshot(page, f"report-{sample}-{look}")
