"""A real GRPO run on the CPU: TRL trains the shipped model in float32 while a bfloat16 copy of it,
kept in step, writes the rollouts. kcc watches the gap between the two."""

import pathlib

import pytest
import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = ROOT / "models/kcc-lab"
CONTRACT = """
apiVersion: kcc/v1
kind: KernelContract
metadata: {name: grpo, version: 1.0.0}
spec:
  numerical:
    - {id: N-1, metric: mean_abs_log_ratio, atMost: %s, level: L3, action: rollback}
"""

trl = pytest.importorskip("trl", reason="TRL is not installed")
datasets = pytest.importorskip("datasets")


@torch.no_grad()
def rollout_in_bfloat16(engine, tokenizer, tokens_max):
    """A rollout engine of its own: bfloat16 weights and arithmetic, and the log-probs it saw."""

    def rollout(prompts, trainer):
        engine.load_state_dict(trainer.accelerator.unwrap_model(trainer.model).state_dict())
        prompt_ids = [tokenizer(prompt)["input_ids"] for prompt in prompts]
        completions, logprobs = [], []
        for row, ids in enumerate(prompt_ids):
            generator = torch.Generator().manual_seed(1000 * trainer.state.global_step + row)
            output = engine(input_ids=torch.tensor([ids]), use_cache=True)
            tokens, scores = [], []
            for _ in range(tokens_max):
                logp = output.logits[0, -1].float().log_softmax(-1)
                token = torch.multinomial(logp.exp(), 1, generator=generator)
                tokens.append(token.item())
                scores.append(logp[token].item())
                output = engine(input_ids=token[None], past_key_values=output.past_key_values, use_cache=True)
            completions.append(tokens)
            logprobs.append(scores)
        return {"prompt_ids": prompt_ids, "completion_ids": completions, "logprobs": logprobs}

    return rollout


def make_trainer(tmp_path, steps):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(MODEL)
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    model = AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32)
    engine = AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.bfloat16).eval()
    arguments = trl.GRPOConfig(
        output_dir=str(tmp_path), max_steps=steps, per_device_train_batch_size=4, num_generations=4,
        max_completion_length=12, learning_rate=1e-4, logging_steps=1, report_to=[], use_cpu=True,
        disable_tqdm=True, save_strategy="no", seed=1, bf16=False,
    )
    return trl.GRPOTrainer(
        model=model,
        reward_funcs=lambda completions, **_: [float(len(set(text))) for text in completions],
        args=arguments,
        train_dataset=datasets.Dataset.from_dict({"prompt": ["add 12 and 30:", "copy abc:"] * 8}),
        processing_class=tokenizer,
        rollout_func=rollout_in_bfloat16(engine, tokenizer, 12),
    )


def test_grpo_logs_kccs_verdicts(tmp_path):
    import kcc
    import kcc.trl

    trainer = make_trainer(tmp_path, steps=3)
    correction = {"weight": {"mode": "truncate", "level": "token", "high": 2.0}}
    watch = kcc.trl.watch(trainer, kcc.Contract(CONTRACT % 0.5), correction=correction)
    trainer.train()
    logged = [row for row in trainer.state.log_history if "loss" in row]
    assert len(logged) == 3 and len(watch.steps) == 3
    assert {row["kcc/verdict"] for row in logged} == {"satisfied"}
    gap = logged[-1]["kcc/token/mean_abs_log_ratio"]
    assert 0 < gap < 0.5, "float32 and bfloat16 must differ, and not by much"
    assert watch.last.weights.shape == watch.last.mask.shape
    assert "kcc/correction/ess" in logged[-1]


def test_a_violation_stops_the_run_if_asked(tmp_path):
    import kcc
    import kcc.trl

    trainer = make_trainer(tmp_path, steps=3)
    watch = kcc.trl.watch(trainer, kcc.Contract(CONTRACT % 1e-7), stop_on={"rollback"})
    trainer.train()
    assert trainer.state.global_step == 1
    assert watch.last.verdict == "violated"


def test_without_rollout_log_probs_it_says_what_is_missing(tmp_path):
    import kcc
    import kcc.trl

    trainer = make_trainer(tmp_path, steps=1)
    trainer.rollout_func = None
    kcc.trl.watch(trainer, kcc.Contract(CONTRACT % 0.5))
    with pytest.raises(kcc.InvalidInput, match="rollout_func"):
        trainer.train()
