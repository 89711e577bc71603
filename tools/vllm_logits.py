#!/usr/bin/env python3
"""Log-softmax that vLLM gives at every output position of token sequences; run by vLLM's own Python (tools/servers.sh).

  build/servers/vllm/bin/python tools/vllm_logits.py MODEL SEQUENCES.json OUT.npy

SEQUENCES.json: a list of [token ids, number of prompt tokens]. OUT.npy: one row of the vocabulary a position, in order.
"""

import json
import os
import sys

os.environ |= {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_ENABLE_V1_MULTIPROCESSING": "0"}

import numpy as np  # noqa: E402
from vllm import LLM, SamplingParams  # noqa: E402


def main():
    model, sequences, out = sys.argv[1:]
    with open(sequences) as file:
        sequences = json.load(file)
    llm = LLM(
        model=model, dtype="bfloat16", skip_tokenizer_init=True, enforce_eager=True, max_model_len=1024, max_num_seqs=16,
        max_logprobs=-1, logprobs_mode="raw_logprobs", enable_prefix_caching=False,
    )  # fmt: skip
    asked = SamplingParams(max_tokens=1, temperature=0, prompt_logprobs=-1, detokenize=False)
    rows = []
    for begin in range(0, len(sequences), 32):  # a few at a time: an answer is an object an entry
        part = sequences[begin : begin + 32]
        answers = llm.generate([{"prompt_token_ids": ids} for ids, _ in part], asked, use_tqdm=False)
        for (ids, prompt), answer in zip(part, answers, strict=True):
            for position in range(prompt, len(ids)):
                entries = answer.prompt_logprobs[position]
                row = np.full(max(entries) + 1, -np.inf, np.float32)
                row[list(entries)] = [entry.logprob for entry in entries.values()]
                rows.append(row)
    np.save(out, np.stack(rows))


if __name__ == "__main__":
    main()
