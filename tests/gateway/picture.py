"""Draws the picture of the README, docs/images/dashboard.png: python tests/gateway/picture.py OUTPUT.

The page is that of `make gateway-demo` a few seconds after its alarm, so a reader can have it too. Not a test: run it when the page
changes. Needs build/kcc, Chromium and a system font worth showing.
"""

import pathlib
import sys
import tempfile
import time

from playwright.sync_api import sync_playwright

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import gateway_demo  # noqa: E402
import gateway_processes  # noqa: E402
import run_docs  # noqa: E402


class Sitting(gateway_demo.Story):
    """The story up to the guard, which is what the picture shows."""

    def __init__(self, kcc, folder, output):
        super().__init__(kcc, folder)
        self.output = output

    def run(self):
        self.until("fp8 is satisfied", lambda: self.kernel()["verdict"] == "satisfied")
        self.fp8.fault(**gateway_demo.FAULT)
        self.until("bf16 serves", lambda: self.status()["route"]["serves"] == "bf16")
        time.sleep(6)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu"])
            page = browser.new_page(viewport={"width": 1240, "height": 1740}, color_scheme="light")
            page.goto(f"{self.admin_url}/")
            page.locator("#traffic .tile").first.wait_for()
            page.wait_for_timeout(1500)
            page.screenshot(path=self.output)
            browser.close()


def main(output):
    kcc = run_docs.kcc_binary()
    pool = gateway_processes.Pool(kcc)
    with tempfile.TemporaryDirectory() as folder:
        try:
            Sitting(kcc, pathlib.Path(folder) / "demo", output).tell(pool)
        finally:
            wrong = pool.end()
    assert wrong == [], wrong


if __name__ == "__main__":
    main(*sys.argv[1:])
