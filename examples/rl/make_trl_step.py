#!/usr/bin/env python3
"""Makes trl-step.pt: the batch of a real GRPO step, as TRL hands it to its loss.

TRL trains the shipped model in float32; a bfloat16 copy of it writes the rollouts, as a rollout engine would.
Needs torch, transformers, datasets and trl. In a checkout: .venv/bin/python examples/rl/make_trl_step.py
"""

import json
import pathlib
import sys
import tempfile

import datasets
import torch
import trl
from transformers import AutoModelForCausalLM, AutoTokenizer

HERE = pathlib.Path(__file__).resolve().parent
MODEL = HERE.parents[1] / "models/kcc-lab"
PROMPTS, ANSWERS, TOKENS_MAX = 16, 4, 40


@torch.no_grad()
def sample(engine, ids, generator, end):
    """An answer drawn from the engine's whole distribution, with the log-probs that it saw."""
    output = engine(input_ids=torch.tensor([ids]), use_cache=True)
    tokens, logprobs = [], []
    while len(tokens) < TOKENS_MAX and end not in tokens:
        logp = output.logits[0, -1].float().log_softmax(-1)
        token = torch.multinomial(logp.exp(), 1, generator=generator)
        tokens.append(token.item())
        logprobs.append(logp[token].item())
        output = engine(input_ids=token[None], past_key_values=output.past_key_values, use_cache=True)
    return tokens, logprobs


def main():
    target = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "trl-step.pt"
    tokenizer = AutoTokenizer.from_pretrained(MODEL)
    asked = [json.loads(line) for line in open(MODEL / "eval.jsonl")][:: 400 // PROMPTS][:PROMPTS]
    prompts = {str(row["id"]): row["prompt"] for row in asked}
    engine = AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.bfloat16).eval()
    generator = torch.Generator().manual_seed(1)

    def rollout(names, trainer):
        answers = [sample(engine, prompts[name], generator, tokenizer.eos_token_id) for name in names]
        return {"prompt_ids": [prompts[name] for name in names], "completion_ids": [tokens for tokens, _ in answers],
                "logprobs": [logprobs for _, logprobs in answers]}  # fmt: skip

    with tempfile.TemporaryDirectory() as scratch:
        trainer = trl.GRPOTrainer(
            model=AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32),
            reward_funcs=lambda completions, **_: [float(len(set(text)) % 5) for text in completions],
            args=trl.GRPOConfig(
                output_dir=scratch, max_steps=1, per_device_train_batch_size=PROMPTS * ANSWERS, num_generations=ANSWERS,
                num_iterations=2, max_completion_length=TOKENS_MAX, report_to=[], use_cpu=True, disable_tqdm=True,
                save_strategy="no", seed=1, bf16=False,
            ),  # fmt: skip
            train_dataset=datasets.Dataset.from_dict({"prompt": list(prompts)}),
            processing_class=tokenizer,
            rollout_func=rollout,
        )
        score = trainer._generate_and_score_completions

        def keep(inputs):
            batch = score(inputs)
            torch.save(batch, target)
            return batch

        trainer._generate_and_score_completions = keep
        trainer.train()


if __name__ == "__main__":
    main()
