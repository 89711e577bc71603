#!/usr/bin/env python3
"""The page of bench/gpu/e1_e2.py.

    python3 bench/gpu/e1_e2_page.py OUT/e1_e2.json > docs/results/h200.md
"""

import json
import pathlib
import sys

MARKS = {"satisfied": "✓", "violated": "✕", "inconclusive": "?", "error": "!"}


def _number(value):
    return "–" if value is None else f"{value:.2g}"


def _share(value):
    return "–" if value is None else f"{100 * value:.3g} %"


def _marks(verdicts, *names):
    return " | ".join(MARKS.get(verdicts.get(name), "–") for name in names)


def _figures(cell):
    figures = cell["figures"]
    return (
        f"{_number(figures['p50_logit_linf'])} | {_number(figures['p99_logit_linf'])} | {_number(figures['p50_kl'])} | {_number(figures['p99_kl'])} | "
        f"{_share(figures['flip_rate'])} | {_number(figures['mean_abs_log_ratio'])}"
    )


def _measured(cells, part, model):
    return [cell for cell in cells if cell.get("part") == part and cell.get("model") == model and "figures" in cell]


HEAD = "L∞ p50 | L∞ p99 | KL p50 | KL p99 | top-1 changed | mean abs log-ratio"


def _prefill(cells, model):
    rows = _measured(cells, "prefill", model)
    if not rows:
        return
    reference = {cell["length"]: cell for cell in cells if cell.get("model") == model and "sigma" in cell}
    yield f"\n### {model}: prefill against float32\n"
    yield f"| format | attention | prompt | {HEAD} | serving | substitution | rl | ms | ms in f32 |"
    yield "|---|---|---" + "|---" * 11 + "|"
    for cell in rows:
        against = reference.get(cell["length"], {}).get("ms")
        yield (
            f"| {cell['format']} | {cell['attention']} | {cell['length']:,} | {_figures(cell)} | "
            f"{_marks(cell['verdicts'], 'serving', 'substitution', 'rl')} | {cell['ms']:.1f} | {'–' if against is None else f'{against:.1f}'} |"
        )


def _pairs(cells, model):
    rows = _measured(cells, "pairs", model)
    if not rows:
        return
    yield f"\n### {model}: backend against backend, prompts of {rows[0]['length']:,} tokens\n"
    yield f"| format | one | other | bits differ | {HEAD} | substitution | exact |"
    yield "|---|---|---|---" + "|---" * 8 + "|"
    for cell in rows:
        yield (
            f"| {cell['format']} | {cell['attention']} | {cell['against']} | {_share(cell['figures']['rate_bit_mismatch'])} | {_figures(cell)} | "
            f"{_marks(cell['verdicts'], 'substitution', 'exact')} |"
        )


def _decode(cells, model):
    rows = _measured(cells, "decode", model)
    if not rows:
        return
    sizes = sorted({cell["length"] for cell in rows})
    lines = {}
    for cell in rows:
        lines.setdefault((cell["format"], cell["attention"]), {})[cell["length"]] = cell
    yield f"\n### {model}: decoding the same requests in batches of M\n"
    yield "Share of rows whose logits differ in a bit from those at M = 1, and in brackets the p99 L∞ between the two; ✓ where no bit differs.\n"
    yield "| format | attention | " + " | ".join(f"M = {size}" for size in sizes) + " |"
    yield "|---|---|" + "---|" * len(sizes)
    for (format, attention), by_size in lines.items():
        texts = []
        for size in sizes:
            cell = by_size.get(size)
            if cell is None:
                texts.append("–")
            elif not cell["unequal_rows"]:
                texts.append("✓")
            else:
                texts.append(f"{_share(cell['unequal_rows'] / cell['rows'])} ({_number(cell['alone']['figures']['p99_logit_linf'])})")
        yield f"| {format} | {attention} | " + " | ".join(texts) + " |"
    yield "\nMilliseconds of a step of decoding, and against float32 at M = 1:\n"
    yield "| format | attention | " + " | ".join(f"M = {size}" for size in sizes) + f" | {HEAD} | serving | rl |"
    yield "|---|---|" + "---|" * len(sizes) + "---|" * 8
    for (format, attention), by_size in lines.items():
        times = " | ".join(f"{by_size[size]['ms']:.2f}" if size in by_size else "–" for size in sizes)
        last = by_size[max(by_size)]
        yield f"| {format} | {attention} | {times} | {_figures(last)} | {_marks(last['verdicts'], 'serving', 'rl')} |"


def _evaluation(cells):
    rows = _measured(cells, "evaluation", "kcc-lab")
    if not rows:
        return
    yield "\n### kcc-lab on its evaluation set\n"
    yield f"{rows[0]['requests']:,} requests, {rows[0]['tokens']:,} tokens, the shipped weights; against float32.\n"
    yield f"| format | attention | {HEAD} | serving | substitution | rl |"
    yield "|---|---" + "|---" * 9 + "|"
    for cell in rows:
        yield f"| {cell['format']} | {cell['attention']} | {_figures(cell)} | {_marks(cell['verdicts'], 'serving', 'substitution', 'rl')} |"


def _lines(data):
    cells = data["cells"]
    yield "# Formats, attention and batch sizes on a GPU\n"
    parameters = ", ".join(f"{name} ({count / 1e9:.2f} B)" for name, count in data["models"].items())
    yield (
        f"{data['device']}, PyTorch {data['torch']}; models {parameters}. Made by `bench/gpu/e1_e2.py`, logits measured by kcc and judged by "
        f"`bench/gpu/e1_e2.yaml` (`{data['contract'][:19]}…`): the clauses of the shipped contracts for FP8 serving, attention substitution, RL and bit-exactness "
        "on all tokens. ✓ satisfied, ✕ violated, ? inconclusive.\n"
    )
    sigma = [cell["sigma"] for cell in cells if "sigma" in cell and cell["model"] != "kcc-lab"]
    spread = f" (standard deviation {min(sigma):.1f} to {max(sigma):.1f})" if sigma else ""
    yield (
        f"The large models have random weights, so how often the top token changes is a property of their logits' spread{spread}, not of a trained model; "
        "kernels can be compared with one another. FP8 is e4m3 matrices by output and activations by token in the seven products of a layer; the rest is BF16. "
        f"A prefill cell has {data['tokens']:,} tokens; decoding is {data['requests']} requests of {data['context']} tokens, {data['steps']} steps of given tokens, "
        "larger batches filled with the same requests again. Times are of eager PyTorch, one run of a prefill and the median of steps: what launches cost is in them.\n"
    )
    for model in data["models"]:
        for part in (_prefill, _pairs, _decode):
            yield from part(cells, model)
    yield from _evaluation(cells)
    failed = [cell for cell in cells if "error" in cell]
    if failed:
        yield "\n### What did not run\n\n| cell | error |\n|---|---|"
        for cell in failed:
            words = " ".join(str(cell[key]) for key in ("part", "model", "format", "attention", "length", "against") if key in cell)
            yield f"| {words} | {cell['error'].replace('|', '/')} |"


def page(data):
    return "\n".join(_lines(data)) + "\n"


if __name__ == "__main__":
    sys.stdout.write(page(json.loads(pathlib.Path(sys.argv[1]).read_text())))
