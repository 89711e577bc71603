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


@torch.no_grad()
def rollout_in_bfloat16(engine, tokenizer, tokens_max, lost=None):
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
            if lost is not None:
                scores[tokens_max // 2] = lost
            logprobs.append(scores)
        return {"prompt_ids": prompt_ids, "completion_ids": completions, "logprobs": logprobs}

    return rollout


def make_trainer(tmp_path, steps, lost=None, **sampling):
    # Here, since it takes seconds: every worker reads this file, and one runs it.
    trl = pytest.importorskip("trl", reason="TRL is not installed")
    datasets = pytest.importorskip("datasets")
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(MODEL)
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    model = AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32)
    engine = AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.bfloat16).eval()
    arguments = trl.GRPOConfig(
        output_dir=str(tmp_path), max_steps=steps, per_device_train_batch_size=4, num_generations=4,
        max_completion_length=12, learning_rate=1e-4, logging_steps=1, report_to=[], use_cpu=True,
        disable_tqdm=True, save_strategy="no", seed=1, bf16=False, **sampling,
    )
    return trl.GRPOTrainer(
        model=model,
        reward_funcs=lambda completions, **_: [float(len(set(text))) for text in completions],
        args=arguments,
        train_dataset=datasets.Dataset.from_dict({"prompt": ["add 12 and 30:", "copy abc:"] * 8}),
        processing_class=tokenizer,
        rollout_func=rollout_in_bfloat16(engine, tokenizer, 12, lost),
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


def test_what_the_shipped_contract_orders_stops_the_run_without_being_asked(tmp_path):
    import kcc.trl

    contract = (ROOT / "contracts/rl-post-training.yaml").read_text().replace("atMost: 0.02", "atMost: 1e-9", 1)
    trainer = make_trainer(tmp_path, steps=3)
    watch = kcc.trl.watch(trainer, kcc.Contract(contract))
    trainer.train()
    assert (watch.last.verdict, watch.last.action) == ("violated", "freeze")
    assert trainer.state.global_step == 1


def test_stop_on_knows_the_actions(tmp_path):
    import kcc.trl

    with pytest.raises(kcc.InvalidInput, match="freeze"):
        kcc.trl.watch(make_trainer(tmp_path, steps=1), kcc.Contract(CONTRACT % 0.5), stop_on={"stop"})


def test_without_rollout_log_probs_it_says_what_is_missing(tmp_path):
    import kcc
    import kcc.trl

    trainer = make_trainer(tmp_path, steps=1)
    trainer.rollout_func = None
    kcc.trl.watch(trainer, kcc.Contract(CONTRACT % 0.5))
    with pytest.raises(kcc.InvalidInput, match="rollout_func"):
        trainer.train()


def test_tokens_whose_log_prob_is_not_finite_are_not_left_out(tmp_path):
    import kcc
    import kcc.trl

    trainer = make_trainer(tmp_path, steps=1, lost=float("-inf"))
    watch = kcc.trl.watch(trainer, kcc.Contract(CONTRACT % 0.5))
    trainer.train()
    assert watch.last.verdict == "violated", "a token that the engine calls impossible is infinitely far"

    trainer = make_trainer(tmp_path, steps=1, lost=float("nan"))
    kcc.trl.watch(trainer, kcc.Contract(CONTRACT % 0.5))
    with pytest.raises(kcc.EvidenceError, match="position 6"):
        trainer.train()


@pytest.mark.parametrize(
    ("sampling", "expected"),
    [
        ({}, (1.0, 1.0)),
        ({"temperature": 0.7}, (0.7, 0.7)),
        ({"temperature": 0.7, "top_p": 0.5}, (0.7, 0.0)),
        ({"top_k": 20}, (1.0, 0.0)),
        ({"min_p": 0.1}, (1.0, 0.0)),
        ({"repetition_penalty": 1.1}, (1.0, 0.0)),
        ({"generation_kwargs": {"bad_words": ["a"]}}, (1.0, 0.0)),
    ],
)
def test_the_trainers_sampling_is_recorded(tmp_path, sampling, expected):
    import kcc
    import kcc.trl

    trainer = make_trainer(tmp_path, steps=1, **sampling) if "generation_kwargs" not in sampling else None
    if trainer is None:  # arguments for an engine that is not installed: only the settings are looked at
        trainer = make_trainer(tmp_path, steps=1)
        trainer.args.generation_kwargs = sampling["generation_kwargs"]
    found = kcc.trl.watch(trainer, kcc.Contract(CONTRACT % 0.5)).monitor._sampling
    assert (found["temperature"], found["sampling_temperature"]) == expected
    given = kcc.trl.watch(trainer, kcc.Contract(CONTRACT % 0.5), sampling_temperature=0.9).monitor._sampling
    assert given["sampling_temperature"] == 0.9


def test_what_is_sampled_from_less_than_everything_estimates_nothing(tmp_path):
    import kcc
    import kcc.trl

    spec = CONTRACT.replace("spec:", "spec:\n  assumptions: {tokensMax: 12, temperature: TAU}\n  decision: {about: traffic}")
    spec = spec.replace("mean_abs_log_ratio", "mean_tv") % 0.9
    for sampling, tau, reason in (({"top_p": 0.5}, 1, "no value of tv"), ({"temperature": 0.7}, 1, "temperature 0.7")):
        trainer = make_trainer(tmp_path, steps=1, **sampling)
        watch = kcc.trl.watch(trainer, kcc.Contract(spec.replace("TAU", str(tau))))
        trainer.train()
        assert watch.last.verdict in ("inconclusive", "error")
        assert reason in watch.last.report.clauses[0]["slices"][0]["reason"]


HARD = """
apiVersion: kcc/v1
kind: KernelContract
metadata: {name: hard, version: 1.0.0}
spec:
  numerical:
    - {id: N-1, metric: max_abs_log_ratio, atMost: 1e-9, level: L1}
  escalation: {L1: log}
"""
POLICY = """
apiVersion: kcc/v1
kind: MonitorPolicy
metadata: {name: training, version: 1.0.0}
spec:
  falseAlarms: 1 per 10^6 requests
  panic: serve-safest
  kernels: [{name: rollout, role: infer}, {name: trainer, role: fallback}]
"""


@pytest.mark.parametrize(("stop_on", "steps"), [("alarm", 1), ("alarm:N-1", 1), ("alarm:N-2", 2), ("freeze", 2)])
def test_an_alarm_stops_the_run_if_asked(tmp_path, stop_on, steps):
    import kcc
    import kcc.trl

    trainer = make_trainer(tmp_path, steps=2)
    watch = kcc.trl.watch(trainer, kcc.Contract(HARD), policy=kcc.MonitorPolicy(POLICY), stop_on=stop_on)
    trainer.train()
    assert trainer.state.global_step == steps
    first = watch.steps[0]
    assert [(alarm["kind"], alarm["clause"]) for alarm in first.alarms] == [("proof", "N-1")]
    assert first.metrics["kcc/monitor/counted"] == 1, "four samples of one prompt"
