#!/usr/bin/env python3
"""Writes the steps of the GitHub job in docs/ci.md as scripts, so that tools/check_dist.sh can run what the page shows.

    tools/ci_steps.py FOLDER    writes FOLDER/1.sh, FOLDER/2.sh, ..., one for each step with a `run`
"""

import pathlib
import sys

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[1]


def job(page: str) -> dict:
    """The only job of the first YAML block under the heading."""
    section = page.split("\n## GitHub Actions\n", 1)[1]
    workflow = yaml.safe_load(section.split("```yaml\n", 1)[1].split("```", 1)[0])
    (only,) = workflow["jobs"].values()
    return only


def main() -> int:
    if len(sys.argv) != 2:
        print("usage: tools/ci_steps.py FOLDER", file=sys.stderr)
        return 2
    folder = pathlib.Path(sys.argv[1])
    steps = [step["run"] for step in job((ROOT / "docs/ci.md").read_text())["steps"] if "run" in step]
    for number, text in enumerate(steps, 1):
        (folder / f"{number}.sh").write_text(text)
    print(len(steps))
    return 0


if __name__ == "__main__":
    sys.exit(main())
