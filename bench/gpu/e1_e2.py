#!/usr/bin/env python3
"""E1 and E2 on a GPU: what formats, attention backends and batch sizes do to logits, measured and judged by kcc.

    python3 bench/gpu/e1_e2.py OUT                          # OUT/e1_e2.json and OUT/h200.md, written after every cell
    python3 bench/gpu/e1_e2.py OUT --device cpu --small     # a tiny shape, in seconds

For each model, 1.5 B and 8 B random Llama shapes and models/kcc-lab:

  prefill  format x attention backend x prompt length against float32
  pairs    attention backend against attention backend in one format
  decode   the same requests in batches of M = 1 ... 256, against M = 1 and against float32 at M = 1

Every cell is judged by bench/gpu/e1_e2.yaml. A cell that fails is recorded with its error; the others go on. On a
CUDA device logits are measured where they lie (docs/gpu.md: KCC_CUDA_LIBRARY or build/gpu).
"""

import argparse
import json
import os
import pathlib
import sys
import time

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parents[2] / "python")]

import e1_e2_page  # noqa: E402
import torch  # noqa: E402
from llama_shapes import BACKENDS, SHAPES, Model, checkpoint_weights, random_weights  # noqa: E402

import kcc  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONTRACT = pathlib.Path(__file__).with_name("e1_e2.yaml")
FORMATS = ("bf16", "fp16", "fp8")
REFERENCE = ("f32", "math")


class Book:
    """The results so far, in a file after every cell."""

    def __init__(self, path, about):
        self._path, self.data = path, about | {"cells": []}
        self._begun = time.monotonic()

    def seconds(self):
        return time.monotonic() - self._begun

    def cell(self, work, **names):
        """Runs `work` for its figures; an error is a figure, too. None where it failed."""
        begun, figures = time.monotonic(), None
        try:
            figures = work()
        except Exception as error:  # what one backend refuses must not cost the other cells
            self.add(names | {"error": f"{type(error).__name__}: {str(error).splitlines()[0][:200]}"})
            if torch.cuda.is_available():
                torch.cuda.empty_cache()
            return None
        self.add(names | figures | {"seconds": round(time.monotonic() - begun, 3)})
        return figures

    def add(self, cell):
        self.data["cells"].append(cell)
        self.data["seconds"] = round(self.seconds(), 1)
        part = self._path.with_suffix(".part")
        part.write_text(json.dumps(self.data, indent=1) + "\n")
        os.replace(part, self._path)
        verdicts = " ".join(f"{name} {verdict}" for name, verdict in cell.get("verdicts", {}).items())
        words = [str(cell[key]) for key in ("part", "model", "format", "attention", "length", "against") if key in cell]
        print(f"{self.seconds():6.1f} s  {' '.join(words)}  {cell.get('error', verdicts)}", flush=True)


class Ruler:
    """Measures two sides' logits [requests, tokens, vocab] and judges them."""

    def __init__(self):
        self._contract = kcc.Contract.read(CONTRACT)

    def __call__(self, train, infer, tokens=None, **more):
        train, infer = train.float(), infer.float()  # two formats in one pair are measured in double
        if tokens is None:
            tokens = sampled(infer)
        summary = kcc.measure(
            train, infer, self._contract, logits=True, tokens=tokens.flatten().int().cpu(),
            train_fingerprint="torch train", infer_fingerprint="torch infer", **more,
        )  # fmt: skip
        report = kcc.judge(self._contract, summary)
        verdicts, figures = {}, {}
        order = ["satisfied", "inconclusive", "violated", "error"]
        for clause in report.clauses:
            found = clause["slices"][0]
            value = found["value"] if found["value"] is not None else (found["interval"] or [None, None])[1]
            figures[clause["metric"]] = value
            name = clause["id"].split("-")[1]
            if name != "figure":
                verdicts[name] = max(verdicts.get(name, "satisfied"), clause["verdict"], key=order.index)
        return {"tokens": summary.tokens, "requests": summary.requests, "figures": figures, "verdicts": verdicts}


def sampled(logits):
    """A token of each row, at temperature 1; a request at a time, for the memory."""
    generator = torch.Generator(logits.device).manual_seed(3)
    return torch.stack([torch.multinomial(row.softmax(-1), 1, generator=generator)[:, 0] for row in logits])


class Clock:
    """Milliseconds of a block of work."""

    def __init__(self, device):
        self._cuda = device.type == "cuda"

    def __call__(self, work):
        if not self._cuda:
            begun = time.perf_counter()
            found = work()
            return found, (time.perf_counter() - begun) * 1e3
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        found = work()
        end.record()
        end.synchronize()
        return found, begin.elapsed_time(end)


class Bench:
    def __init__(self, options, book):
        self.options, self.book, self.device = options, book, torch.device(options.device)
        self.ruler, self.clock = Ruler(), Clock(self.device)
        self.attentions = ["math", "flash"] if self.device.type == "cpu" else list(BACKENDS)

    def late(self):
        return self.options.seconds and self.book.seconds() > self.options.seconds

    def tokens(self, shape, requests, length):
        generator = torch.Generator().manual_seed(7)
        highest = min(shape.vocab, 256) if shape.name == "kcc-lab" else shape.vocab
        return torch.randint(highest, (requests, length), generator=generator).to(self.device)

    def weights(self, shape):
        if shape.name == "kcc-lab":
            return checkpoint_weights(ROOT / "models/kcc-lab", self.device)
        return random_weights(shape, self.device)

    # --- prefill and pairs

    def prompts(self, shape):
        """As many requests of each length as make the same number of tokens."""
        return {length: self.tokens(shape, max(self.options.tokens // length, 1), length) for length in self.options.lengths}

    def prefill(self, shape, weights, references):
        prompts = self.prompts(shape)
        model = Model(shape, weights, REFERENCE[0])
        for length, tokens in prompts.items():

            def reference(length=length, tokens=tokens, model=model):
                references[length], ms = self.clock(lambda: model.logits(tokens, REFERENCE[1]))
                return {"ms": ms, "sigma": float(references[length].std())}

            self.book.cell(reference, part="prefill", model=shape.name, format="f32", attention="math", length=length)
        for attention in self.attentions[1:]:
            for length in {min(prompts), max(prompts)}:
                self._against(references, shape, model, attention, length, prompts[length])
        del model
        for format in FORMATS:
            model = Model(shape, weights, format)
            kept = {}
            for length, tokens in prompts.items():
                for attention in self.attentions:
                    if self.late():
                        return
                    logits = self._against(references, shape, model, attention, length, tokens)
                    if length == self.options.pair_length and logits is not None:
                        kept[attention] = logits
            self.pairs(shape, format, kept)
            del model, kept
        self.fast_accumulation(shape, weights, prompts)

    def _against(self, references, shape, model, attention, length, tokens):
        found = []

        def work():
            reference = references[length]
            if not found:  # the first call warms up
                model.logits(tokens[:, : min(length, 64)], attention)
            logits, ms = self.clock(lambda: model.logits(tokens, attention))
            found.append(logits)
            return {"ms": ms} | self.ruler(reference, logits)

        names = dict(part="prefill", model=shape.name, format=model.format, attention=attention, length=length)
        return found[-1] if self.book.cell(work, **names) is not None else None

    def pairs(self, shape, format, kept):
        names = list(kept)
        for i, left in enumerate(names):
            for right in names[i + 1 :]:
                self.book.cell(
                    lambda: self.ruler(kept[left], kept[right]),
                    part="pairs", model=shape.name, format=format, attention=left, against=right, length=self.options.pair_length,
                )  # fmt: skip

    def fast_accumulation(self, shape, weights, prompts):
        """FP8 products summed by the units alone, against those with float32 sums in between."""
        if self.device.type != "cuda" or self.late():
            return
        tokens = prompts[self.options.pair_length]

        def work():
            sides = [Model(shape, weights, "fp8", fast=fast).logits(tokens, "flash") for fast in (False, True)]
            return self.ruler(*sides)

        self.book.cell(
            work, part="pairs", model=shape.name, format="fp8", attention="float32 sums", against="fast sums", length=self.options.pair_length
        )

    # --- decode

    def decode(self, shape, weights):
        options = self.options
        context, steps, requests = options.context, options.steps, options.requests
        tokens = self.tokens(shape, requests, context + steps)
        reference = []
        for format in ("f32", *FORMATS):
            model = Model(shape, weights, format)
            filled = model.cache(requests, context)
            try:  # the context's keys and values are the same for every backend and batch
                model.hidden(tokens[:, :context], "math", filled)
            except Exception as error:
                self.book.add(dict(part="decode", model=shape.name, format=format, error=str(error).splitlines()[0][:200]))
                continue
            for attention in self.attentions if format != "f32" else self.attentions[:1]:
                alone = []
                for size in options.batches:
                    if self.late():
                        return

                    def work(size=size, attention=attention, alone=alone, model=model, filled=filled):
                        logits, ms = self.batched(model, attention, filled, tokens, size)
                        if not alone:
                            alone.append(logits)
                            if not reference:
                                reference.append(logits)
                        figures = {"ms": ms, "unequal_rows": int((logits != alone[0]).any(-1).sum()), "rows": logits.shape[0] * logits.shape[1]}
                        found = figures | {"alone": self.ruler(alone[0], logits)} | self.ruler(reference[0], logits)
                        found["verdicts"] = found["verdicts"] | {"exact": found["alone"]["verdicts"]["exact"]}
                        return found

                    done = self.book.cell(work, part="decode", model=shape.name, format=format, attention=attention, length=size)
                    if done is None and not alone:
                        break  # the backend cannot do it at all
            del model, filled

    def batched(self, model, attention, filled, tokens, size):
        """Logits [requests, steps, vocab] of given tokens decoded in batches of `size`, and the median ms of a step.

        Where a batch is larger than the requests they are repeated: companions are there for the shape."""
        options = self.options
        requests, context = tokens.shape[0], options.context
        places = torch.arange(max(size, requests), device=self.device) % requests
        found, times = [], []
        for begin in range(0, requests, size):
            here = places[begin : begin + size]
            cache = model.cache(len(here), context + options.steps)
            for mine, given in zip(cache, filled):
                mine[:, :, :, :context] = given[:, here]
            rows = []
            for step in range(context, context + options.steps):
                logits, ms = self.clock(lambda: model.logits(tokens[here, step : step + 1], attention, cache, step))
                rows.append(logits[:requests, 0].clone())
                times.append(ms)
            found.append(torch.stack(rows, 1))
        return torch.cat(found)[:requests], sorted(times)[len(times) // 2]

    # --- the shipped model on its evaluation set

    def evaluation(self):
        """models/kcc-lab on the requests of eval.jsonl, packed answers."""
        shape = SHAPES["kcc-lab"]
        weights = self.weights(shape)
        lines = [json.loads(line) for line in (ROOT / "models/kcc-lab/eval.jsonl").read_text().splitlines()]
        lines = lines[:: 40 if self.options.small else 1]
        lengths = [len(line["output"]) for line in lines]
        requests = [{"id": line["id"], "tags": line["tags"], "prompt_tokens": len(line["prompt"])} for line in lines]
        outputs = torch.tensor([token for line in lines for token in line["output"]])

        def packed(model, attention):
            rows = []
            for line in lines:
                tokens = torch.tensor([line["prompt"] + line["output"]], device=self.device)
                rows.append(model.logits(tokens[:, :-1], attention)[0, len(line["prompt"]) - 1 :])
            return torch.cat(rows)

        reference = packed(Model(shape, weights, "f32"), "math")
        for format in FORMATS:
            model = Model(shape, weights, format)
            for attention in self.attentions:
                self.book.cell(
                    lambda: self.ruler(reference, packed(model, attention), outputs, lengths=lengths, requests=requests),
                    part="evaluation", model="kcc-lab", format=format, attention=attention,
                )  # fmt: skip

    def model(self, name):
        shape = SHAPES[name]
        weights = self.weights(shape)
        if not self.late():
            self.prefill(shape, weights, {})
        self._free()
        if not self.late():
            self.decode(shape, weights)
        self._free()

    def _free(self):
        if self.device.type == "cuda":
            torch.cuda.empty_cache()


def parsed():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--small", action="store_true", help="a tiny shape and kcc-lab, few tokens")
    parser.add_argument("--seconds", type=float, help="begin no further cell after these")
    parser.add_argument("--models", type=lambda text: text.split(","))
    options = parser.parse_args()
    options.models = options.models or (["tiny"] if options.small else ["kcc-lab", "1.5B", "8B"])
    if options.small:
        options.tokens, options.lengths, options.pair_length = 64, (16, 32), 32
        options.batches, options.context, options.steps, options.requests = (1, 2, 8), 8, 2, 4
    else:
        options.tokens, options.lengths, options.pair_length = 8192, (512, 1024, 2048, 4096, 8192), 2048
        options.batches, options.context, options.steps, options.requests = (1, 2, 4, 8, 16, 32, 64, 128, 256), 256, 8, 16
    return options


def main():
    options = parsed()
    options.out.mkdir(parents=True, exist_ok=True)
    torch.set_float32_matmul_precision("highest")
    device = torch.cuda.get_device_name() if options.device == "cuda" else "CPU"
    about = {
        "kccE1E2Gpu": 1, "device": device, "torch": torch.__version__, "contract": kcc.Contract.read(CONTRACT).digest,
        "tokens": options.tokens, "context": options.context, "steps": options.steps, "requests": options.requests,
        "models": {name: SHAPES[name].parameters for name in options.models},
    }  # fmt: skip
    book = Book(options.out / "e1_e2.json", about)
    bench = Bench(options, book)
    logits = torch.randn(1, 4, 16384, device=bench.device)
    bench.ruler(logits, logits + 0.01)  # what cannot measure ends here, before any time is spent
    for name, work in [("evaluation", bench.evaluation)] + [(name, lambda name=name: bench.model(name)) for name in options.models]:
        try:
            work()
        except Exception as error:  # such as no memory for a model's weights
            book.add({"part": "model", "model": name, "error": f"{type(error).__name__}: {str(error).splitlines()[0][:200]}"})
        bench._free()
        (options.out / "h200.md").write_text(e1_e2_page.page(book.data))
    failed = sum("error" in cell for cell in book.data["cells"])
    print(f"{len(book.data['cells'])} cells, {failed} failed, {book.seconds():.0f} s: {options.out / 'h200.md'}")


if __name__ == "__main__":
    main()
