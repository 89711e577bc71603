"""Trains the shipped model from a seed and writes it in the Hugging Face layout.

    python -m kcc.model.train --out models/kcc-lab

AdamW, cosine schedule, float32 weights; products in BF16 where the CPU has instructions for them. A
step takes documents until their tokens reach --batch-tokens and sorts them by length into groups of
rows, so that little is padding and no mask is needed. A group is one thread's work from forward to
gradient, and gradients are added in the groups' order: the number of threads changes no bit. Recall
documents get jumps in their positions (Zhu et al., "PoSE", 2023,
arXiv:2309.10400): a row of 300 tokens then teaches distances of thousands.
"""

import argparse
import json
import math
import pathlib
import random
import time
from concurrent import futures

import torch
from torch.nn import functional

from kcc.model import corpus, evaluate, initial, llama

PROMPT_WEIGHT = 0.05  # of a prompt's token in the loss; an answer's weighs 1
CONTEXT = 8192
GROUPS = 4


def size_of(document):
    return len(document.prompt_ids) + len(document.answer_ids)


def positions_of(document, length, rng):
    """0, 1, 2 … with up to three jumps at sentence ends, within CONTEXT."""
    steps = [1] * length
    steps[0] = 0
    if document.breaks and rng.random() < 0.7:
        left = CONTEXT - length
        for place in rng.sample(document.breaks, min(len(document.breaks), rng.randint(1, 3))):
            jump = int(left * rng.random() ** 2)
            left -= jump
            steps[place + 2] += jump  # after bos and user
    total, places = 0, []
    for step in steps:
        total += step
        places.append(total)
    return places


def groups_of(documents, rng):
    """Rows of similar length, about a GROUPS-th of the tokens each: (tokens, positions, weights)."""
    documents = sorted(documents, key=size_of)
    limit = sum(map(size_of, documents)) / GROUPS
    group, tokens = [], 0
    for document in documents:
        group.append(document)
        tokens += size_of(document)
        if tokens >= limit:
            yield tensors_of(group, rng)
            group, tokens = [], 0
    if group:
        yield tensors_of(group, rng)


def tensors_of(documents, rng):
    rows = []
    for document in documents:
        prompt, answer = document.prompt_ids, document.answer_ids
        weights = [PROMPT_WEIGHT] * (len(prompt) - 1) + [1.0] * len(answer) + [0.0]
        rows.append((prompt + answer, positions_of(document, len(prompt + answer), rng), weights))
    width = max(len(row[0]) for row in rows)
    fill = (corpus.PAD, 0, 0.0)
    return tuple(
        torch.tensor([row[part] + [fill[part]] * (width - len(row[part])) for row in rows])
        for part in range(3)
    )


def batch_of(stream, tokens):
    documents, total = [], 0
    while total < tokens:
        document = next(stream)
        documents.append(document)
        total += size_of(document)
    return documents, total


def gradients(model, parameters, group, weight, bfloat16):
    """The group's part of the loss, and its gradients."""
    tokens, positions, weights = group
    device = parameters[0].device.type
    tokens, positions, weights = tokens.to(device), positions.to(device), weights.to(device)
    with torch.autocast(device, torch.bfloat16, enabled=bfloat16):
        logits = model(tokens[:, :-1], positions[:, :-1])
    each = functional.cross_entropy(
        logits.float().flatten(0, 1), tokens[:, 1:].flatten(), reduction="none"
    )
    loss = (each * weights[:, :-1].flatten()).sum() / weight
    return loss.detach(), torch.autograd.grad(loss, parameters)


def train(options, config, log, keep):
    """`keep` gets the model every 250 steps: an interrupted run leaves something to look at."""
    torch.manual_seed(options.seed)
    rng = random.Random(options.seed)
    stream = corpus.documents(options.seed)
    model = llama.Llama(config)
    initial.initialise(model)
    model.to(options.device)
    parameters = list(model.parameters())
    optimizer = torch.optim.AdamW(
        [
            {"params": [p for p in parameters if p.dim() == 2], "weight_decay": 0.05},
            {"params": [p for p in parameters if p.dim() != 2], "weight_decay": 0.0},
        ],
        lr=options.rate, betas=(0.9, 0.98), fused=True,
    )  # fmt: skip
    threads = futures.ThreadPoolExecutor(options.threads, initializer=lambda: torch.set_num_threads(1))
    seen, step, began = 0, 0, time.monotonic()
    while seen < options.tokens:
        done = seen / options.tokens
        # Small batches first: the early steps need a direction, not an exact one.
        size = options.batch_tokens // 2 if done < 0.3 else options.batch_tokens
        documents, total = batch_of(stream, size)
        for group in optimizer.param_groups:
            cosine = 0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * done))
            group["lr"] = options.rate * min(1.0, (step + 1) / 60) * cosine
        batch = list(groups_of(documents, rng))
        weight = float(sum(weights.sum() for _, _, weights in batch))
        parts = list(
            threads.map(lambda g: gradients(model, parameters, g, weight, options.bfloat16), batch)
        )
        for index, parameter in enumerate(parameters):
            parameter.grad = sum(part[1][index] for part in parts)
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        seen += total
        step += 1
        if step % 100 == 0:
            loss = float(sum(part[0] for part in parts))
            log(f"step {step}  tokens {seen}  loss {loss:.4f}  {time.monotonic() - began:.0f} s")
        if step % 250 == 0:
            keep(model)
    return model.eval()


def has_bfloat16():
    """Without avx512_bf16 or AMX, BF16 products are slower than float32's."""
    capabilities = torch.cpu.get_capabilities()
    return bool(capabilities.get("avx512_bf16") or capabilities.get("amx_bf16"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tokens", type=int, default=3_000_000)
    parser.add_argument("--batch-tokens", type=int, default=4096)
    parser.add_argument("--rate", type=float, default=1.5e-3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    parser.add_argument(
        "--bfloat16", action=argparse.BooleanOptionalAction, default=has_bfloat16(),
        help="products in BF16; by default where this CPU has instructions for them",
    )  # fmt: skip
    options = parser.parse_args()
    torch.set_num_threads(1)
    wall, cpu = time.monotonic(), time.process_time()
    model = train(
        options,
        llama.Config(),
        log=lambda line: print(line, flush=True),
        keep=lambda model: llama.save(model, options.out),
    )
    llama.save(model, options.out)
    record = {
        "seed": options.seed,
        "tokens": options.tokens,
        "bfloat16": options.bfloat16,
        "wall_s": round(time.monotonic() - wall),
        "cpu_s": round(time.process_time() - cpu),
    }
    print(json.dumps(record), flush=True)
    model = llama.load(options.out).to(options.device)  # what is judged is what was saved: BF16 weights
    record["accuracy"] = evaluate.accuracy(model)
    print(json.dumps(record))
    (pathlib.Path(options.out) / "training.json").write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
