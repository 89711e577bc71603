"""Held-out accuracy of a checkpoint: greedy answers that equal the right one, per skill.

    python -m kcc.model.evaluate models/kcc-lab
"""

import json
import sys

import torch

from kcc.model import corpus, llama

SKILL_COUNT = 200
LONG = {2048: 20, 4096: 20, 8192: 20}


@torch.no_grad()
def greedy(model, prompts, tokens_max):
    """Continues prompts of one length; stops a row at eos."""
    caches = [{} for _ in model.model.layers]
    device = model.lm_head.weight.device
    tokens = torch.tensor(prompts, device=device)
    outputs = [[] for _ in prompts]
    place = tokens.shape[1]
    logits = model(tokens, caches=caches)[:, -1]
    for _ in range(tokens_max):
        chosen = logits.argmax(-1)
        for output, token in zip(outputs, chosen.tolist()):
            if not output or output[-1] != corpus.EOS:
                output.append(token)
        if all(output[-1] == corpus.EOS for output in outputs):
            break
        logits = model(chosen[:, None], torch.tensor([[place]], device=device), caches)[:, -1]
        place += 1
    return outputs


def right(model, documents):
    """Which of the documents are answered exactly; prompts of one length run together."""
    by_length = {}
    for index, document in enumerate(documents):
        by_length.setdefault(len(document.prompt_ids), []).append(index)
    found = [False] * len(documents)
    for length in sorted(by_length):
        for start in range(0, len(by_length[length]), 32):
            indices = by_length[length][start : start + 32]
            wanted = [documents[i].answer_ids for i in indices]
            outputs = greedy(model, [documents[i].prompt_ids for i in indices], max(map(len, wanted)) + 1)
            for index, output, answer in zip(indices, outputs, wanted):
                found[index] = output == answer
    return found


def accuracy(model, count=SKILL_COUNT, long=LONG):
    scores = {}
    for skill in corpus.MAKERS:
        found = right(model, corpus.held_out(skill, count))
        scores[skill] = sum(found) / len(found)
    for size, documents in long.items():
        found = right(model, corpus.long_recall(size, documents))
        scores[f"recall-{size}"] = sum(found) / len(found)
    return scores


if __name__ == "__main__":
    print(json.dumps(accuracy(llama.load(sys.argv[1])), indent=2))
