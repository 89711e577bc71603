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
            assert number(field(page, "threshold").inner_text()) == pair["threshold"]
            assert field(page, "threshold").inner_text()[0] == ("≤" if clause["bound"] == "atMost" else "≥")
            assert number(field(page, "requests").inner_text()) == pair["count"]["requests"]
            assert number(field(page, "tokens").inner_text()) == pair["count"]["tokens"]
            assert field(page, "other").inner_text() == pair["other"]["verdict"]
            if isinstance(pair["value"], (int, float)):
                assert number(field(page, "value").inner_text()) == pair["value"]
            elif pair["interval"] is None:
                assert field(page, "value").inner_text() == "not measured"
            if pair["smallestPassing"] is None:
                assert field(page, "smallestPassing").count() == 0
            else:
                assert number(field(page, "smallestPassing").inner_text()) == pair["smallestPassing"]
            if pair["exceedance"]:
                text = field(page, "exceedance").inner_text()
                assert number(text.split(" of ")[0]) == pair["exceedance"]["exceeding"]
                assert number(text.split(" of ")[1].split(" ")[0]) == pair["exceedance"]["windows"]
            if sample != "hostile":
                assert field(page, "reason").inner_text() == pair["reason"]
    assert pairs == sum(report["totals"]["pairs"].values())


def test_the_top_says_verdict_action_health_and_totals(open_page, samples):
    report = report_of(samples, "violated")
    page = open_page("violated")
    assert page.locator("h1").inner_text().lower() == report["verdict"]
    assert page.locator(".ladder .now").inner_text() == report["action"]
    assert number(page.locator("#health").inner_text()) == pytest.approx(report["health"], rel=1e-3)
    for verdict, count in report["totals"]["pairs"].items():
        assert page.locator(f'[data-total="{verdict}"] b').inner_text() == str(count)


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
    page.locator(".more").click()
    assert page.locator(".findings li").count() == report["totals"]["pairs"]["violated"]


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
        ("phone", 390, "light", "screen"),
        ("print", 760, "dark", "print"),
    ],
)
def test_it_fits_the_screen_and_is_stored_as_a_picture(open_page, screenshots, sample, look, width, scheme, media):
    page = open_page(sample, viewport={"width": width, "height": 900}, color_scheme=scheme)
    page.emulate_media(media=media, color_scheme=scheme)
    overflow = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert overflow <= 0
    page.screenshot(path=screenshots / f"report-{sample}-{look}.png", full_page=True)
