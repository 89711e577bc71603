#!/usr/bin/env python3
"""docs/results/gateway-soak.md from what tools/soak.py --json wrote.

tools/soak_page.py REPORT PAGE
"""

import collections
import json
import pathlib
import sys

HEAD = """\
# Soak of the gateway

    make soak        # or: tools/soak.py --seconds {seconds:.0f} --seed {seed} --json report.json && tools/soak_page.py report.json PAGE

{minutes:.0f} minutes of mixed load on two gateways, while one thing after the other went wrong around them: one stood before scripted kernels, the
other before servers of the lab with faults of their own. Chat and completions, streamed and whole, some with log-probs that the client
asked for, 5 % of the streams left by their client; a fifth of the requests sampled. Every prompt demands an answer that names it, so
that a stream that was mixed with another, or an answer that lost its end, is seen. This page is written from the report of one run,
on a machine on which other programs ran too.

## What was held against it

"""


def counted(rows):
    return "\n".join(f"| {' | '.join(str(cell) for cell in row)} |" for row in rows)


def page_of(report):
    text = HEAD.format(minutes=report["seconds"] / 60, **report)
    text += "\n".join(f"- {words}" for words in report["held"])
    if report["failed"]:
        text += "\n\n**Failed:**\n\n" + "\n".join(f"- {words}" for words in report["failed"])
    text += "\n\n## What went wrong, on purpose\n\n| what | times |\n|---|---:|\n"
    text += counted((f"`{what}`", times) for what, times in sorted(collections.Counter(one["what"] for one in report["disturbances"]).items()))
    text += "\n\n## What came of it\n\n| | scripted | lab |\n|---|---:|---:|\n"
    words = {"right": "answers, whole and the client's own", "told": "streams that broke off after content, and said so",
             "broken": "whole answers that broke off", "garbage": "answers that were no JSON, as the kernel said",
             "left": "left by the client", "error": "errors", "wrong": "anything else"}  # fmt: skip
    text += counted((title, *(report["clients"][name].get(end, 0) for name in ("scripted", "lab"))) for end, title in words.items())
    text += "\n" + counted([("requests sent to a further kernel", report["counts"]["retried"], report["labCounts"]["retried"])])
    rates = report["rates"]
    text += f"\n\nOf the scripted gateway {rates['sampled']:,} requests were sampled, {rates['scored']:,} became evidence, {rates['lost']:,} were lost "
    text += "(the audit kernel was killed or stopped in turn) and counted as such. What the monitor decided: "
    text += ", ".join(f"{count} × {kind}" for kind, count in sorted(report["history"].items())) + ".\n"
    text += "\n## Memory\n\n| gateway | MiB after each tenth of the run |\n|---|---|\n"
    for one in report["memory"]:
        samples = one["samples"]
        tenths = [samples[min(len(samples) - 1, i * len(samples) // 10)][1] for i in range(11)]
        text += f"| {one['gateway']} | {' · '.join(f'{mib:.0f}' for mib in tenths)} |\n"
    return text


if __name__ == "__main__":
    report_file, page = map(pathlib.Path, sys.argv[1:])
    page.write_text(page_of(json.loads(report_file.read_text())))
