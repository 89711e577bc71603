"""Trains the shipped model from a seed and writes it in the Hugging Face layout.

    python -m kcc.model.train --out models/kcc-lab

AdamW, cosine schedule, float32. A step takes documents until their tokens reach --batch-tokens,
sorts them by length and runs them in a few rows-of-one-length groups, so that little is padding and
no mask is needed. Recall documents get jumps in their positions (Zhu et al., "PoSE", 2023,
arXiv:2309.10400): a row of 300 tokens then teaches distances of thousands.
"""

import argparse
import json
import math
import pathlib
import random
import time

import torch
from torch.nn import functional

from kcc.model import corpus, evaluate, llama

PROMPT_WEIGHT = 0.05  # of a prompt's token in the loss; an answer's weighs 1
CONTEXT = 8192


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


def groups_of(documents, rng, count):
    """Rows of similar length: (tokens, positions, weights), padded to the longest of each group."""
    documents = sorted(documents, key=lambda d: len(d.prompt) + len(d.answer))
    size = math.ceil(len(documents) / count)
    for start in range(0, len(documents), size):
        rows = []
        for document in documents[start : start + size]:
            prompt, answer = document.prompt_ids, document.answer_ids
            weights = [PROMPT_WEIGHT] * (len(prompt) - 1) + [1.0] * len(answer) + [0.0]
            rows.append((prompt + answer, positions_of(document, len(prompt + answer), rng), weights))
        width = max(len(row[0]) for row in rows)
        fill = (corpus.PAD, 0, 0.0)
        yield tuple(
            torch.tensor([row[part] + [fill[part]] * (width - len(row[part])) for row in rows])
            for part in range(3)
        )


def batch_of(stream, tokens):
    documents, total = [], 0
    while total < tokens:
        document = next(stream)
        documents.append(document)
        total += len(document.prompt) + len(document.answer) + 4
    return documents, total


def train(config, seed, tokens_total, batch_tokens, rate, device="cpu", log=print, keep=None):
    """`keep` gets the model every 250 steps: an interrupted run leaves something to look at."""
    torch.manual_seed(seed)
    rng = random.Random(seed)
    stream = corpus.documents(seed)
    model = llama.Llama(config).to(device)
    matrices = [p for p in model.parameters() if p.dim() == 2]
    others = [p for p in model.parameters() if p.dim() != 2]
    optimizer = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": 0.05}, {"params": others, "weight_decay": 0.0}],
        lr=rate, betas=(0.9, 0.98), fused=True,
    )
    seen, step, began = 0, 0, time.monotonic()
    while seen < tokens_total:
        done = seen / tokens_total
        # Small batches first: the early steps need a direction, not an exact one.
        documents, total = batch_of(stream, batch_tokens // 2 if done < 0.2 else batch_tokens)
        warm = min(1.0, (step + 1) / 60)
        for group in optimizer.param_groups:
            group["lr"] = rate * warm * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * done)))
        batch = list(groups_of(documents, rng, 3))
        weight = float(sum(weights.sum() for _, _, weights in batch))
        loss = 0.0
        for tokens, positions, weights in batch:
            logits = model(tokens[:, :-1].to(device), positions[:, :-1].to(device))
            each = functional.cross_entropy(
                logits.flatten(0, 1), tokens[:, 1:].flatten().to(device), reduction="none"
            )
            part = (each * weights[:, :-1].flatten().to(device)).sum() / weight
            part.backward()
            loss += part.detach()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        seen += total
        step += 1
        if step % 100 == 0:
            seconds = time.monotonic() - began
            log(f"step {step}  tokens {seen}  loss {float(loss):.4f}  {seconds:.0f} s")
        if keep and step % 250 == 0:
            keep(model)
    return model.eval()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tokens", type=int, default=6_500_000)
    parser.add_argument("--batch-tokens", type=int, default=4096)
    parser.add_argument("--rate", type=float, default=1.5e-3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--config", default="{}", help="JSON that overrides the architecture")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    wall, cpu = time.monotonic(), time.process_time()
    config = llama.Config(**json.loads(options.config))
    model = train(
        config, options.seed, options.tokens, options.batch_tokens, options.rate, options.device,
        log=lambda line: print(line, flush=True),
        keep=lambda model: llama.save(model, options.out),
    )
    record = {
        "seed": options.seed,
        "tokens": options.tokens,
        "wall_s": round(time.monotonic() - wall),
        "cpu_s": round(time.process_time() - cpu),
    }
    llama.save(model, options.out)
    model = llama.load(options.out).to(options.device)  # what is judged is what was saved: BF16 weights
    record["accuracy"] = evaluate.accuracy(model)
    print(json.dumps(record))
    (pathlib.Path(options.out) / "training.json").write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
