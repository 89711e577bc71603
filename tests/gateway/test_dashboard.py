"""The dashboard in a real browser: before a real gateway, and before recorded states that a real one is seldom in."""

import os
import re
import shutil
import signal

import gateway_processes
import pytest
import recorded_api
from playwright.sync_api import expect, sync_playwright

CHROMIUM = os.environ.get("KCC_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
ARGS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
HOSTILE = "<img src=x onerror=alert(1)><script>alert(2)</script>\u202egnorw\u0000&lt;{{status}}"


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def served_page(module_pool, tmp_path_factory):
    """The page as a real gateway serves it, and its Content-Security-Policy."""
    folder = tmp_path_factory.mktemp("page")
    kernel = module_pool.scripted(folder, "a")
    roles = {"a": ("infer", kernel.url), "b": ("fallback", kernel.url), "audit": ("audit", kernel.url)}
    reply = module_pool.gateway(folder / "gateway", roles).admin_ask("/")
    assert reply.status == 200 and reply.headers["Content-Type"] == "text/html; charset=utf-8"
    return reply.body, {"Content-Security-Policy": reply.headers["Content-Security-Policy"]}


@pytest.fixture
def api(served_page):
    """api(change) -> a recorded admin port, whose status change(status) has changed."""
    opened = []

    def start(change=lambda status: None):
        status = recorded_api.recorded()
        change(status)
        opened.append(recorded_api.RecordedApi(*served_page, status))
        return opened[-1]

    yield start
    for one in opened:
        one.close()


@pytest.fixture
def open_page(browser, api, pool):
    """open_page(url, **context) -> page. Whatever the console says fails the test, and so does a request beyond the page's own
    host; `expected`: a pattern of console messages that belong to the test. Pages are closed before what they
    ask (api, pool) ends: they would complain."""
    contexts, problems = [], []

    def open_one(url, expected=None, **options):
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: expected and re.search(expected, message.text) or problems.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: problems.append(f"page error: {error}"))
        page.on("dialog", lambda dialog: (problems.append("a dialog opened"), dialog.dismiss()))
        page.on("request", lambda request: request.url.startswith(url) or problems.append(f"request: {request.url}"))
        page.goto(url)
        return page

    yield open_one
    for context in contexts:
        context.close()
    assert problems == []


def kernel_of(status, name):
    return next(kernel for kernel in status["kernels"] if kernel["name"] == name)


def heal(status):
    """fp8 serves, and every clause of it is satisfied."""
    status["route"].update(serves="fp8", canary=None, share=0, reason="no alarm moves its requests")
    fp8, bf16 = kernel_of(status, "fp8"), kernel_of(status, "bf16")
    fp8.update(state="serving", verdict="satisfied", share=1, health=0, action=None, target=None)
    bf16.update(share=0)
    for pair in fp8["pairs"]:
        pair.update(verdict="satisfied")


def outcome(page):
    return page.locator("h1").get_attribute("data-outcome")


# ---- what the first sentence says


def guard_under_probation(status):
    heal(status)
    kernel_of(status, "fp8").update(state="probation", probationLeft=12)


def refuse(status):
    status["route"].update(serves=None)


def panic(status):
    status["route"].update(panic=True)


def violate(status):
    heal(status)
    kernel_of(status, "fp8").update(verdict="violated")
    kernel_of(status, "fp8")["pairs"][0].update(verdict="violated")


def contradict(status):
    heal(status)
    kernel_of(status, "fp8").update(verdict="error")


def fall_silent(status):
    heal(status)
    status["evaluator"] = {"state": "silent"}


def leave_open(status):
    heal(status)
    kernel_of(status, "fp8").update(verdict="inconclusive")
    kernel_of(status, "fp8")["pairs"][3].update(verdict="inconclusive")


def fall_back(status):
    status["route"].update(serves="reference", canary=None)


OUTCOMES = [
    (heal, "healthy", "Healthy: fp8 serves, and every clause is satisfied."),
    (lambda status: None, "guarded", "Guarded: bf16 serves in place of fp8."),
    (fall_back, "fallback", "Fallback: reference serves in place of fp8."),
    (guard_under_probation, "on probation", "On probation: fp8 serves again, and is watched for 12 more requests."),
    (leave_open, "no alarm", "No alarm: fp8 serves; 1 of 6 clauses on slices is not decided yet."),
    (violate, "violated", "Violated: fp8 serves, and a clause of it is violated."),
    (contradict, "broken evidence", "Broken evidence: fp8 serves, and its evidence contradicts itself."),
    (fall_silent, "not judged", "Not judged: fp8 serves as it did last, and the evaluator is silent."),
    (panic, "panic", "Panic: every kernel that could serve is bad, and bf16 serves as the least bad."),
    (refuse, "refusing requests", "Refusing requests: no kernel may serve."),
]  # fmt: skip


def test_the_first_sentence_says_whether_it_is_healthy(open_page, api):
    recorded = api()
    page = open_page(recorded.url)
    expect(page.locator(".live")).to_have_text("● live")
    for change, word, sentence in OUTCOMES:
        status = recorded_api.recorded()
        change(status)
        recorded.tell("status", status)
        expect(page.locator("h1")).to_have_text(sentence)
        assert outcome(page) == word
        assert page.title().startswith(sentence.split(":")[0])
        assert page.locator(".verdict > svg.glyph.v-satisfied").count() == (word == "healthy")


def test_healthy_is_never_said_of_a_verdict_that_the_page_does_not_know(open_page, api):
    def change(status):
        heal(status)
        kernel_of(status, "fp8").update(verdict="splendid")

    page = open_page(api(change).url)
    expect(page.locator("h1")).to_contain_text("No alarm")


# ---- what else it shows


def test_kernels_clauses_promotion_incidents_and_rates_are_those_of_the_status(open_page, api):
    status = recorded_api.recorded()
    page = open_page(api().url)
    page.locator("#traffic .tile").first.wait_for()
    for kernel in status["kernels"]:
        row = page.locator(f'#kernels tr[data-kernel="{kernel["name"]}"]')
        text = row.inner_text()
        assert kernel["verdict"] in text and str(kernel["served"]) in text
        assert page.locator(f'[data-share-of="{kernel["name"]}"] .n').inner_text() == f"{kernel['share'] * 100:g}%"
    assert "■" in page.locator('#kernels tr[data-kernel="fp8"]').inner_text(), "told by shape as well"
    assert "guard → bf16" in page.locator('#kernels tr[data-kernel="fp8"]').inner_text()
    rows = page.locator("#clauses tr[data-clause]")
    pairs = status["kernels"][0]["pairs"]
    assert rows.count() == len(pairs)
    for row, pair in zip(rows.all(), pairs, strict=True):
        text = row.inner_text()
        assert all(str(pair[key]) in text for key in ("slice", "verdict", "reason", "observations")), text
        assert row.locator(f".mark.v-{pair['verdict']} svg").count() == 1
    page.get_by_role("button", name="not satisfied").click()
    assert rows.count() == sum(pair["verdict"] != "satisfied" for pair in pairs)
    page.get_by_role("button", name="bf16").click()
    assert rows.count() == 6
    assert page.locator(".stages .now").inner_text() == "▸ canary"
    assert page.locator(".missing li").all_inner_texts() == status["promotion"]["missing"]
    assert page.locator("[data-incident] .command code").inner_text() == status["incidents"][0]["replayCommand"]
    for name, value in status["rates"].items():
        if name not in ("reasons", "came"):
            assert page.locator(f'[data-rate="{name}"] b').inner_text() == f"{value:g}"
    assert "1.17%" in page.locator(".warning").inner_text(), "lost evidence is said at the top"


def test_the_audit_kernel_is_not_judged(open_page, api):
    def change(status):
        status["kernels"].append(dict(kernel_of(status, "bf16"), name="train", role="audit", share=0))

    page = open_page(api(change).url)
    row = page.locator('#kernels tr[data-kernel="train"]')
    expect(row.locator(".place")).to_have_text("◇audit")
    assert "inconclusive" not in row.inner_text() and page.get_by_role("button", name="train").count() == 0


def test_the_replay_command_can_be_copied(open_page, api):
    page = open_page(api().url, permissions=["clipboard-read", "clipboard-write"])
    page.locator("[data-incident] .copy").click()
    expect(page.locator("[data-incident] .copy")).to_have_text("copied")
    assert page.evaluate("navigator.clipboard.readText()") == recorded_api.recorded()["incidents"][0]["replayCommand"]


def test_the_chart_shows_who_served_and_numbers_the_changes(open_page, api):
    page = open_page(api().url)
    page.locator(".timeline").wait_for()
    bands = page.locator(".timeline rect.band").evaluate_all("nodes => nodes.map((node) => node.dataset.serves)")
    assert bands == ["fp8", "bf16"]
    assert page.locator(".timeline path.series[data-kernel='fp8']").count() == 2
    assert page.locator(".timeline .change-number").all_text_contents() == ["1"]
    kinds = page.locator(".changes li").evaluate_all("nodes => nodes.map((node) => node.dataset.kind)")
    assert kinds == ["route", "guard", "alarm"], "the latest first"
    assert "fp8 is guarded, and its alarms order guard to bf16" in page.locator(".changes").inner_text()


def test_what_happens_is_shown_as_it_happens(open_page, api):
    recorded = api()
    page = open_page(recorded.url)
    expect(page.locator("h1")).to_contain_text("Guarded")
    expect(page.locator(".live")).to_have_text("● live")
    status = recorded_api.recorded()
    heal(status)
    status["atMs"] += 5000
    change = {"atMs": status["atMs"], "kind": "route", "kernel": "fp8", "clause": "", "slice": "", "reason": "no alarm moves its requests", "serves": "fp8"}
    for _ in range(2):  # the same twice is one change
        recorded.tell("change", change)
    del status["history"], status["risk"]
    recorded.tell("status", status)
    expect(page.locator("h1")).to_contain_text("Healthy")
    assert page.locator(".changes li").count() == 4
    bands = page.locator(".timeline rect.band").evaluate_all("nodes => nodes.map((node) => node.dataset.serves)")
    assert bands == ["fp8", "bf16", "fp8"]


def test_a_lost_connection_is_said_and_nothing_is_claimed(open_page, api):
    recorded = api(heal)
    page = open_page(recorded.url, expected="503|Failed to load|ERR_")
    expect(page.locator("h1")).to_contain_text("Healthy")
    recorded.cut()
    expect(page.get_by_role("alert")).to_contain_text("Connection lost.")
    expect(page.locator("h1")).to_contain_text("Not known: nothing is heard from the gateway any more.")
    expect(page.locator(".live")).to_have_text("▲ not connected")
    recorded.silent.clear()
    page.get_by_role("button", name="Try now").click()
    expect(page.locator("h1")).to_contain_text("Healthy")
    expect(page.locator(".banner")).to_be_hidden()


def test_no_text_becomes_markup(open_page, api):
    def replace(value):
        if isinstance(value, dict):
            return {key: replace(one) if key not in ("role", "state", "kind", "atMs") else one for key, one in value.items()}
        if isinstance(value, list):
            return [replace(one) for one in value]
        return HOSTILE + value if isinstance(value, str) else value

    def change(status):
        hostile = replace(status)
        hostile["rates"]["reasons"] = {HOSTILE: 3, "__proto__": 1}
        hostile["promotion"]["missing"] = [HOSTILE, {"not": "a text"}]
        status.clear()
        status.update(hostile)

    page = open_page(api(change).url, viewport={"width": 420, "height": 900})
    page.locator("#traffic table").wait_for()
    assert page.locator("main img, main script").count() == 0
    shown = page.locator("main").inner_text()
    assert "<img src=x" in shown and "\u202e" not in shown
    assert page.evaluate("document.documentElement.scrollWidth") <= 420


def test_a_part_that_the_gateway_leaves_out_breaks_no_other(open_page, api):
    recorded = api()
    page = open_page(recorded.url)
    expect(page.locator(".live")).to_have_text("● live")
    for at, missing in enumerate(["kernels", "history", "risk", "rates", "route", "promotion", "incidents", "contract"]):
        status = recorded_api.recorded()
        del status[missing]
        status["url"] = f"http://without-{missing}"
        status["atMs"] += at * 2000
        recorded.tell("status", status)
        expect(page.locator("footer")).to_contain_text(f"without-{missing}")  # drawn last
        assert outcome(page) != "healthy"


# ---- for everybody


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 420])
def test_it_fits_and_can_be_read_in_both_themes(open_page, api, screenshot, width, scheme):
    page = open_page(api().url, viewport={"width": width, "height": 900}, color_scheme=scheme)
    page.locator("#traffic .tile").first.wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate("document.documentElement.dataset.theme") == scheme
    poor = page.evaluate(CONTRAST)
    assert poor == []
    screenshot(page, f"dashboard-{width}-{scheme}")


# Text against the first opaque ground behind it, as WCAG counts it; 4.5 is asked for.
CONTRAST = """() => {
  const rgb = (text) => (text.match(/[\\d.]+/g) || []).map(Number);
  const luminance = ([r, g, b]) => [r, g, b].map((c) => c / 255).map((c) => c <= .03928 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [.2126, .7152, .0722][i], 0);
  const ground = (node) => { for (; node; node = node.parentElement) { const c = rgb(getComputedStyle(node).backgroundColor); if (c.length === 3 || c[3] === 1) return c; } return [255, 255, 255]; };
  const poor = [];
  for (const node of document.querySelectorAll('main *')) {
    if (![...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim()) || node.closest('svg')) continue;
    const [a, b] = [luminance(rgb(getComputedStyle(node).color)), luminance(ground(node))];
    const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    if (ratio < 4.5) poor.push([node.textContent.slice(0, 40), ratio]);
  }
  return poor;
}"""


def test_the_keyboard_reaches_everything_and_keeps_its_place(open_page, api):
    recorded = api()
    page = open_page(recorded.url)
    page.locator("#traffic .tile").first.wait_for()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the clauses"
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent") == "bf16":
            break
    page.keyboard.press("Enter")
    expect(page.locator("#clauses table")).to_have_attribute("aria-label", "Clauses of bf16")
    assert page.evaluate("document.activeElement.textContent") == "bf16", "the button is another, and has the focus"
    status = recorded_api.recorded()
    status["atMs"] += 3000
    status["kernels"][1]["pairs"][0]["observations"] = 15
    recorded.tell("status", status)
    expect(page.locator("#clauses tr[data-clause]").first).to_contain_text("15")
    assert page.evaluate("document.activeElement.textContent") == "bf16"


def test_nothing_moves_where_no_motion_is_wanted(open_page, api):
    moving = "getComputedStyle(document.querySelector('.live')).animationName"
    page = open_page(api().url, reduced_motion="reduce")
    expect(page.locator(".live")).to_have_text("● live")
    assert page.evaluate(moving) == "none"


# ---- the real process


def test_it_shows_what_a_real_gateway_does(open_page, scripted, until):
    gateway = scripted.gateway()
    page = open_page(f"http://{gateway.admin}/", expected="ERR_|Failed to load")
    expect(page.locator("h1")).to_contain_text("No alarm: a serves")
    for i in range(5):
        body = {"model": "kcc-lab", "messages": [{"role": "user", "content": f"ask-{i} words-3"}]}
        assert gateway.post("/v1/chat/completions", **body).status == 200
    expect(page.locator('[data-rate="requestsPerSecond"] small')).to_have_text("5 came", timeout=15000)
    expect(page.locator('#kernels tr[data-kernel="a"]')).to_contain_text("serves")
    assert page.locator("#clauses tr[data-clause]").count() == len(gateway.status["kernels"][0]["pairs"]) > 0
    expect(page.locator("footer")).to_contain_text(gateway.status["contract"]["digest"])
    gateway.process.send_signal(signal.SIGKILL)
    expect(page.locator("h1")).to_contain_text("Not known", timeout=20000)
    expect(page.get_by_role("alert")).to_contain_text("Connection lost.")
    until(lambda: gateway.ended)


def test_the_token_is_asked_for_and_kept_for_the_visit(open_page, scripted):
    gateway = scripted.gateway(token="open-sesame-1234")
    page = open_page(f"http://{gateway.admin}/", expected="401|403")
    expect(page.get_by_label("The gateway asks for its token")).to_be_visible()
    assert "Not known" in page.locator("h1").inner_text()
    page.keyboard.type("wrong")
    page.keyboard.press("Enter")
    expect(page.get_by_label("The gateway does not take this token")).to_be_visible()
    page.get_by_label("The gateway does not take").fill("open-sesame-1234")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_contain_text("No alarm")
    page.reload()
    expect(page.locator("h1")).to_contain_text("No alarm")


def test_no_other_page_can_show_or_read_it(browser, scripted):
    gateway = scripted.gateway()
    page = gateway.admin_ask("/")
    policy = page.headers["Content-Security-Policy"]
    assert "frame-ancestors 'none'" in policy and "unsafe" not in policy
    assert page.headers["X-Content-Type-Options"] == "nosniff"
    for path in ("/v1/status", "/v1/events"):
        cross = {"Origin": "http://evil.example", "Sec-Fetch-Site": "cross-site"}
        assert gateway.admin_ask(path, headers=cross).status == 403
    rebound = gateway_processes.ask(gateway.admin, "GET", "/v1/status", headers={"Host": "evil.example"})
    assert rebound.status in (400, 403, 421), "a name that was rebound to this address reads nothing"
