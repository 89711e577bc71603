"""Draws docs/images/report.png from the sample: python tests/report/picture.py SAMPLES OUTPUT.

Not a test: run it when the page changes. Needs Chromium and a system font worth showing.
"""

import pathlib
import sys

from playwright.sync_api import sync_playwright


def main(samples, output):
    page_url = (pathlib.Path(samples).resolve() / "violated" / "report.html").as_uri()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(viewport={"width": 1240, "height": 1500})
        page.goto(page_url)
        page.locator("#provenance").wait_for()
        page.screenshot(path=output)
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
