"""`python -m kcc`: a verdict on bundled data, to see that everything is in place.

The data is a small RL step: log-probs of the same tokens by a float32 trainer and by a bfloat16
engine, in two slices of which one hides a drift that the average does not show.
"""

from __future__ import annotations

import argparse
import pathlib
import sys

import numpy as np

import kcc

HERE = pathlib.Path(__file__).resolve().parent / "data"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m kcc", description=__doc__.splitlines()[0])
    parser.add_argument("--contract", default=str(HERE / "contract.yaml"), help="judge under this contract")
    parser.add_argument("--html", metavar="FILE", help="write the report as a page")
    parser.add_argument("--json", action="store_true", help="print report.json")
    arguments = parser.parse_args()
    step = np.load(HERE / "step.npz")
    tags = [[str(tag)] for tag in step["slice"]]
    monitor = kcc.Monitor(arguments.contract)
    result = monitor.step(step["train"], step["rollout"], step["mask"], tags=tags, slices=[tag[0] for tag in tags])
    if arguments.html:
        pathlib.Path(arguments.html).write_text(result.report.render("html"))
    print(result.report.render("json" if arguments.json else "terminal"), end="")
    return {"satisfied": 0, "violated": 1, "inconclusive": 3}.get(result.verdict, 4)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except kcc.Error as error:
        sys.exit(f"kcc: {error}")
