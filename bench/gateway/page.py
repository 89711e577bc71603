"""The page of results, written from a run of compare.py; its figures lie beside it as gateway.csv."""

CASES = [
    ("closed-1", "closed loop, 1 connection"),
    ("closed-16", "closed loop, 16 connections"),
    ("open-1000", "open loop, 1,000 requests a second"),
    ("sse-1", "1 stream, a chunk every 2 ms"),
    ("sse-64", "64 streams, a chunk every 10 ms each"),
]
TARGETS = {"direct": "direct", "nginx": "nginx", "kcc": "kcc gateway", "kcc-sampled": "kcc gateway, 10 % sampled, shadow stalled"}

HEAD = """\
# The gateway beside nginx

    make program && cmake --build --preset release --target gateway_load gateway_upstream
    .venv/bin/python bench/gateway/compare.py --csv gateway.csv --page gateway.md    # in docs/results

One run of {rounds} rounds on {cores} cores ({cpu}, Linux {kernel}), written by the command above; [every figure](gateway.csv).
In each round every target is measured in every case, in an order that is drawn anew, so that what else the machine does falls on all
of them. A ratio is taken round by round, and its median is shown.

The upstream is a program of one thread that answers at once; the load is another one, and verifies each answer. Both proxies have one
thread for traffic: {nginx} with one worker, keep-alive connections and no buffering; `kcc gateway` with `threads: 1`. Bodies
have 2 KB. *Added* is what a proxy takes beyond the upstream asked directly in the same round. With so few cores the load, the upstream and
the proxy share them: figures of a closed loop are those of a machine that is full, and the open loop is closer to what a client sees.
{beside}

What was asked for, and whether it held:

| | measured | limit | |
|---|---:|---:|---|
"""


def number(value, digits=0):
    return f"{value:,.{digits}f}"


def claim_rows(claims):
    for words, value, limit, least in claims:
        held = value >= limit if least else value <= limit
        yield f"| {words} | {value:.2f} | {'≥' if least else '≤'} {limit} | {'held' if held else '**missed**'} |"


def request_rows(rows, median, added):
    yield "| | | requests/s | p50 µs | p99 µs | added p50 | added p99 | CPU µs a request |"
    yield "|---|---|---:|---:|---:|---:|---:|---:|"
    for case, words in CASES[:3]:
        for target, title in TARGETS.items():
            more = ["–", "–"] if target == "direct" else [number(added(rows, case, target, what)) for what in ("p50", "p99")]
            figures = [number(median(rows, case, target, what)) for what in ("rps", "p50", "p99")]
            cpu = number(median(rows, case, target, "cpu_us"), 1)
            yield "| " + " | ".join([words, title, *figures, *more, cpu]) + " |"
            words = ""


def stream_rows(rows, median):
    yield "| | | chunks | p50 µs | p99 µs |"
    yield "|---|---|---:|---:|---:|"
    for case, words in CASES[3:]:
        for target, title in TARGETS.items():
            figures = [number(median(rows, case, target, what)) for what in ("delays", "p50", "p99")]
            yield "| " + " | ".join([words, title, *figures]) + " |"
            words = ""


def memory_rows(rows):
    yield "| | streams at once | MiB before | MiB with them | delay of a chunk, p50 / p99 µs |"
    yield "|---|---:|---:|---:|---:|"
    for row in rows:
        if row["case"] == "streams" and row["target"] != "direct":
            yield (f"| {TARGETS[row['target']]} | {number(row['streams'])} | {row['idle_mib']:.0f} | {row['memory_mib']:.0f} | "
                   f"{number(row['p50'])} / {number(row['p99'])} |")  # fmt: skip


def write_page(path, csv, rows, claims, facts, median, added):
    rates = facts["rates"]
    beside = (f"Other programs ran beside: the load average was {facts['load']:.1f} before the run." if facts["load"] > 0.5 else
              "Nothing else ran beside.")  # fmt: skip
    text = HEAD.format(beside=beside, **facts) + "\n".join(claim_rows(claims))
    text += "\n\n## What sampling costs\n\n"
    text += ("At c = 16, with 10 % sampled and a shadow that stalls. The upstreams share the machine with the gateway here, and write 20 KB for a "
             "sampled answer\ninstead of 0.5; the last line leaves that out: it is computed, and not measured.\n\n| | |\n|---|---:|\n")  # fmt: skip
    text += "\n".join(f"| {words} | {value:.2f} |" for words, value in facts["besides"])
    text += "\n\n## Requests\n\n" + "\n".join(request_rows(rows, median, added))
    text += "\n\n## Chunks of streams\n\nFrom the upstream's writing of a chunk to the client's reading it.\n\n"
    text += "\n".join(stream_rows(rows, median))
    text += "\n\n## Many streams\n\nA chunk every 200 ms each, so that the proxies hold them rather than work.\n\n"
    text += "\n".join(memory_rows(rows))
    text += (f"\n\nOf the gateway that samples, {rates['came']:,} requests came over the whole run and {rates['sampled']:,} were sampled; "
             f"{rates['scored']:,} became evidence, {rates['lost']:,} were lost, most of them mirrors that the shadow did not answer, and "
             f"{rates['unasked']:,} mirrors were not asked. {rates['dropped']:,} more were picked and dropped, since the scorer, which goes behind the "
             "traffic of a full machine, had no place. What is lost or dropped is counted, and is evidence of nothing good.\n")  # fmt: skip
    assert csv.name == "gateway.csv"
    path.write_text(text)
