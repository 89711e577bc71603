"""Draws the picture of the README, docs/images/report.png: python tests/report/picture.py OUTPUT.

The page is that of the README's own `kcc run`, so a reader can have it too. Not a test: run it when the page changes.
Needs build/kcc, Chromium and a system font worth showing.
"""

import pathlib
import subprocess
import sys
import tempfile

from playwright.sync_api import sync_playwright

ROOT = pathlib.Path(__file__).resolve().parents[2]
SIDES = ["--train", "trace:examples/traces/train", "--infer", "trace:examples/traces/infer"]


def main(output):
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        run = [ROOT / "build/kcc", "run", "examples/contract.yaml", *SIDES, "--report", folder]
        judged = subprocess.run(run, cwd=ROOT, stdout=subprocess.DEVNULL, check=False)
        assert judged.returncode == 1, "the example is violated"
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1240, "height": 1500})
        page.goto((pathlib.Path(folder) / "report.html").as_uri())
        page.locator("#provenance").wait_for()
        page.screenshot(path=output)
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
