"""kcc lab rl through the real program: what a step computes, what it says, what survives a kill, what it refuses."""

import json
import math
import random
import shutil
import signal
import struct
import subprocess
import time

import numpy as np
import pytest

from test_train import CONFIG, examples_at, files_of, kill_after

INT4 = "lab:int4?batch=invariant"
TIS = json.dumps({"weight": {"mode": "truncate", "high": 1.02}})


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    return examples_at(tmp_path_factory.mktemp("task") / "sums.jsonl")


@pytest.fixture(scope="module")
def model(tmp_path_factory, task, kcc_path):
    """A small model that knows some of the sums."""
    folder = tmp_path_factory.mktemp("model")
    (folder / "config.json").write_text(json.dumps(CONFIG))
    command = [kcc_path, "lab", "train", task, "--config", folder / "config.json", "-o", folder / "run", "--epochs", "22",
               "--batch-tokens", "150", "--rate", "0.004"]  # fmt: skip
    subprocess.run(list(map(str, command)), check=True, capture_output=True)
    return folder / "run"


@pytest.fixture
def rl(kcc, task, model, tmp_path):
    """rl("name", "--steps", 3, …) -> Outcome, with the run in tmp_path/name."""

    def run(name, *arguments, code=0):
        usual = {"--problems": 6, "--group": 8, "--eval-every": 10, "--rate": 0.002}
        more = [part for flag, value in usual.items() if flag not in arguments for part in (flag, value)]
        done = kcc("lab", "rl", task, "--model", model, "-o", tmp_path / name, *more, *arguments)
        assert done.code == code, done.err + done.out
        return done

    return run


def lines_of(folder, name="log.jsonl"):
    return [json.loads(line) for line in (folder / name).read_text().splitlines()]


def arrays_of(folder, step):
    data = (folder / "steps" / f"{step:08d}.safetensors").read_bytes()
    (size,) = struct.unpack_from("<Q", data)
    arrays = {}
    for name, entry in json.loads(data[8 : 8 + size]).items():
        if name != "__metadata__":
            start, end = (8 + size + offset for offset in entry["data_offsets"])
            arrays[name] = np.frombuffer(data[start:end], "<f8").reshape(entry["shape"])
    return arrays


def torch_step(torch, model, reference, arrays, line, beta=0.0, clip=(0.2, 0.2), dual=0.0, bypass=False, truncate=math.inf):
    """Loss and gradients of the step in float64, by the formulas of docs/lab-rl.md."""
    offsets = arrays["offsets"].astype(int)
    loss = 0
    for row in range(len(offsets) - 1):
        span = slice(offsets[row], offsets[row + 1])
        prompt = arrays["prompts"][row][arrays["prompts"][row] >= 0].astype(int).tolist()
        answer = arrays["tokens"][span].astype(int).tolist()
        tokens = torch.tensor([prompt + answer])
        first = len(prompt)

        def log_probs(of):
            logits = of(tokens).logits[0]  # noqa: B023
            return torch.log_softmax(logits[first - 1 : -1], -1).gather(1, tokens[0, first:, None])[:, 0]  # noqa: B023

        now = log_probs(model)
        rollout = torch.tensor(arrays["rollout"][span])
        np.testing.assert_allclose(now.detach().numpy(), arrays["train"][span], atol=2e-5)
        old = rollout if bypass else now.detach()
        weight = torch.clamp((old - rollout).exp(), max=truncate) if not bypass and truncate < math.inf else 1.0
        advantage = arrays["advantages"][row]
        ratio = (now - old).exp()
        f = torch.minimum(ratio * advantage, ratio.clamp(1 - clip[0], 1 + clip[1]) * advantage)
        if dual and advantage < 0:
            f = torch.maximum(f, torch.tensor(dual * advantage))
        with torch.no_grad():
            d_reference = log_probs(reference)
        d = d_reference - now
        loss = loss + (-weight * f + beta * (d.exp() - d - 1)).sum() / line["tokens"]
    model.zero_grad()
    loss.backward()
    return loss.item()


@pytest.mark.parametrize(
    "more, how",
    [
        (["--infer", INT4, "--rule", TIS], {"truncate": 1.02}),
        (["--infer", INT4, "--bypass", "--clip-low", 0.003, "--clip-high", 0.005, "--dual-clip", 1.008, "--kl", 0.5],
         {"bypass": True, "clip": (0.003, 0.005), "dual": 1.008, "beta": 0.5}),
    ],
    ids=["truncated", "bypass, dual clip and KL"],
)  # fmt: skip
def test_a_step_is_pytorchs_in_float64(rl, tmp_path, model, more, how):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    from kcc.model import checkpoint

    rl("one", "--steps", 1, *more)
    rl("two", "--steps", 2, "--keep-steps", *more)
    torch.set_num_threads(1)
    load = transformers.AutoModelForCausalLM.from_pretrained
    now, reference = (load(where, dtype=torch.float64) for where in (tmp_path / "one", model))
    line = lines_of(tmp_path / "two")[1]
    assert line["updated"] and line["tokensScored"] > 20
    arrays = arrays_of(tmp_path / "two", 2)
    loss = torch_step(torch, now, reference, arrays, line, **how)
    assert math.isclose(line["loss"], loss, rel_tol=1e-3, abs_tol=1e-6)
    length = torch.nn.utils.clip_grad_norm_(now.parameters(), math.inf).item()
    assert math.isclose(line["gradientLength"], length, rel_tol=1e-3)
    # AdamW's second step is along its moments; compare the direction of the change with the gradient that made it.
    made, before = (checkpoint.read_tensors(tmp_path / name) for name in ("two", "one"))
    assert any(np.any(made[name] != before[name]) for name in made)
    if how.get("bypass"):
        assert line["clip"]["low"] > 0 and line["clip"]["high"] > 0 and line["clip"]["dual"] > 0
    else:
        assert line["correction"]["unitsOutside"] > 0 and line["clip"] == {"low": 0, "high": 0, "dual": 0}


def test_what_a_step_says(rl, tmp_path):
    done = rl("exact", "--steps", 20, "--json")
    lines = lines_of(tmp_path / "exact")
    assert [line["step"] for line in lines] == list(range(1, 21))
    scored = [line for line in lines if line["tokensScored"]]
    assert len(scored) > 10
    for line in scored:
        metrics = line["metrics"]
        assert metrics["token.mean_k3"] == metrics["token.mean_abs_log_ratio"] == metrics["skew.positive"] == 0
        assert metrics["token.ess"] == metrics["bit_equal_share"] == line["correction"]["keptShare"] == 1
        assert line["klToReference"] >= 0 and line["gradientLength"] > 0
    assert scored[-1]["klToReference"] > 1e-4 > scored[0]["klToReference"]
    held_out = lines_of(tmp_path / "exact", "held-out.jsonl")
    assert [line["step"] for line in held_out] == [0, 10, 20]
    assert all(line["rewardTrain"] == line["rewardInfer"] for line in held_out)
    assert done.json["kccLabRl"] == 1 and done.json["step"] == 20 and done.json["stoppedBy"] is None
    assert done.json["heldOut"]["last"]["step"] == 20

    rl("apart", "--steps", 3, "--infer", INT4, "--score-all")
    for line in lines_of(tmp_path / "apart"):
        assert line["groupsScored"] == 6 and line["tokensScored"] == line["tokens"]
        metrics = line["metrics"]
        assert 0 < metrics["token.mean_k3"] < metrics["token.mean_abs_log_ratio"] < 1
        assert metrics["token.ess"] < 1 and metrics["skew.positive"] != 0


@pytest.mark.parametrize("more", [[], ["--infer", INT4, "--rule", TIS], ["--algorithm", "ppo"]], ids=["exact", "int4", "ppo"])
def test_it_learns(rl, tmp_path, more):
    rl("run", "--steps", 70, *more)
    rewards = [line["reward"] for line in lines_of(tmp_path / "run")]
    assert np.mean(rewards[-15:]) > np.mean(rewards[:15]) + 0.15


def test_a_dialects_preset_is_its_rule(rl, tmp_path):
    common = ["--steps", 3, "--infer", INT4]
    rl("rule", *common, "--rule", '{"weight": {"mode": "truncate", "level": "token", "high": 2}}')
    rl("verl", *common, "--dialect", "verl", "--options", '{"rollout_is": "token", "rollout_is_threshold": 2.0}')
    assert (tmp_path / "rule/log.jsonl").read_bytes() == (tmp_path / "verl/log.jsonl").read_bytes()
    rl("k3", *common, "--rule", '{"reject": [{"statistic": "k3", "aggregate": "sequence_mean", "high": 1e-4}]}')
    kept = [line["correction"]["keptShare"] for line in lines_of(tmp_path / "k3") if line["tokensScored"]]
    assert 0 <= min(kept) < 1


def test_threads_do_not_change_a_bit_and_the_seed_does(rl, tmp_path):
    def files(name, *more):
        rl(name, "--steps", 4, "--infer", "lab:fp8", "--stale", 1, "--keep-steps", "--algorithm", "ppo", *more)
        folder = tmp_path / name
        return {path.relative_to(folder): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}

    one = files("one", "--threads", 1)
    assert files("two", "--threads", 2) == one
    assert files("three", "--threads", 3, "--save-every", 1) == one
    assert files("seed", "--seed", 2) != one


@pytest.mark.parametrize("more", [["--infer", INT4, "--kl", 0.01], ["--algorithm", "ppo", "--stale", 2]], ids=["grpo", "ppo"])
def test_a_run_that_is_killed_at_any_place_resumes_to_the_same_bits(rl, kcc, kcc_path, task, model, tmp_path, more):
    steps = 24
    command = ["lab", "rl", task, "--model", model, "--problems", 4, "--group", 4, "--rate", 0.002, "--steps", steps,
               "--save-every", 3, "--eval-every", 4, "--threads", 1, *more]  # fmt: skip
    assert kcc(*command, "-o", tmp_path / "whole").code == 0
    expected = files_of(tmp_path / "whole")
    bits = random.Random(7)
    kills = 0
    for _ in range(30):
        folder = tmp_path / "killed"
        shutil.rmtree(folder, ignore_errors=True)
        resume = []
        for _ in range(2):
            with subprocess.Popen([kcc_path, *map(str, command), "-o", folder, *resume],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as run:  # fmt: skip
                kills += kill_after(run, folder / "log.jsonl", bits.randrange(steps), 0)
            if (folder / "state.safetensors").exists():
                resume = ["--resume"]
        done = kcc(*command, "-o", folder, *resume)
        assert done.code == 0, done.err
        left = files_of(folder)
        assert {name for name in left if not name.endswith(".tmp")} == set(expected)
        for name, content in expected.items():
            assert left[name] == content, name
        if kills >= 6:
            break
    assert kills >= 6, "the runs were over before they were killed"


def test_an_interrupted_run_saves_its_state_and_goes_on(kcc, kcc_path, task, model, tmp_path):
    command = [str(part) for part in ("lab", "rl", task, "--model", model, "--steps", 100000, "--eval-every", 0, "-o", tmp_path / "run")]
    with subprocess.Popen([kcc_path, *command], stdout=subprocess.PIPE, text=True) as run:
        while not (tmp_path / "run/log.jsonl").exists() or not (tmp_path / "run/log.jsonl").read_text():
            time.sleep(0.01)
        run.send_signal(signal.SIGINT)
        out = run.stdout.read()
    assert run.returncode == -signal.SIGINT
    assert "--resume goes on" in out
    steps = len(lines_of(tmp_path / "run"))
    assert f"to {steps} of 100000" in out, "every step that was taken is in the state"
    assert not (tmp_path / "run/model.safetensors").exists()


CONTRACT = """\
apiVersion: kcc/v1
kind: KernelContract
metadata: {name: rl-small, version: 1.0.0}
spec:
  decision: {about: evaluation-set}
  slices:
    - {name: pushed-up, where: token.advantage > 0}
    - {name: long, where: output_tokens > 100}
  numerical:
    - {id: N-1, metric: mean_abs_log_ratio, atMost: LIMIT, slices: [all, pushed-up], level: LEVEL}
    - {id: N-2, metric: mean_k3, atMost: 0.5, slices: [all, long], level: L3}
  statistical:
    - {id: S-1, metric: mean_reward, atLeast: 0.001, level: L1}
  escalation: {L2: guard, L3: freeze}
"""


@pytest.fixture
def contract(tmp_path):
    def write(limit, level="L2"):
        path = tmp_path / f"contract-{limit}-{level}.yaml"
        path.write_text(CONTRACT.replace("LIMIT", str(limit)).replace("LEVEL", level))
        return path

    return write


def test_clauses_are_judged_as_kcc_rl_judge_does(rl, kcc, contract, tmp_path):
    document = contract(0.02)
    rl("run", "--steps", 5, "--infer", INT4, "--contract", document, "--orders", "log", "--keep-steps")
    judged = 0
    for line in lines_of(tmp_path / "run"):
        if not line["tokensScored"]:
            continue
        file = tmp_path / "run/steps" / f"{line['step']:08d}.safetensors"
        report = kcc("rl", "judge", document, file, "--sampling-temperature", 1, "--json").json
        assert line["contract"]["verdict"] == report["verdict"]
        rows = {f"{clause['id']}/{row['slice']}": row for clause in report["clauses"] for row in clause["slices"]}
        assert set(rows) == set(line["contract"]["clauses"]) == {"N-1/all", "N-1/pushed-up", "N-2/all", "N-2/long", "S-1/all"}
        for name, row in rows.items():
            assert line["contract"]["clauses"][name]["verdict"] == row["verdict"], name
            assert line["contract"]["clauses"][name]["value"] == row["value"], name
        assert rows["N-2/long"]["verdict"] == "inconclusive"
        # What k3 the diagnostics say is what the contract measures.
        assert math.isclose(line["metrics"]["token.mean_k3"], rows["N-2/all"]["value"], rel_tol=1e-9)
        judged += 1
    assert judged >= 3


def test_a_violated_clause_guards_or_ends_the_run(rl, contract, tmp_path):
    from kcc.model import checkpoint

    common = ["--infer", INT4, "--steps", 4]
    rl("kept", *common, "--contract", contract(1.0))
    rl("alone", *common)
    weights = (tmp_path / "kept/model.safetensors").read_bytes()
    assert weights == (tmp_path / "alone/model.safetensors").read_bytes()
    assert all(line["contract"]["action"] is None for line in lines_of(tmp_path / "kept") if line["tokensScored"])

    done = rl("guarded", *common, "--contract", contract(1e-9))
    guarded = lines_of(tmp_path / "guarded")
    assert all(line["contract"]["action"] == "guard" for line in guarded if line["tokensScored"])
    assert not any(line["updated"] for line in guarded)
    assert "withheld by the contract" in done.out
    start = checkpoint.read_tensors(tmp_path / "guarded")
    log = rl("logged", *common, "--contract", contract(1e-9), "--orders", "log")
    assert any(np.any(start[name] != after) for name, after in checkpoint.read_tensors(tmp_path / "logged").items())
    assert "withheld" not in log.out

    done = rl("stopped", *common, "--contract", contract(1e-9, "L3"), code=1)
    assert "stopped by the contract (freeze): N-1 on all, N-1 on pushed-up" in done.out
    first = lines_of(tmp_path / "stopped")
    assert first[-1]["contract"]["action"] == "freeze" and not first[-1]["updated"]
    assert not (tmp_path / "stopped/model.safetensors").exists()
    done = rl("stopped", *common, "--contract", contract(1e-9, "L3"), "--resume", "--json", code=1)
    assert done.json["resumedFrom"] == len(first) < done.json["step"]
    assert done.json["stoppedBy"]["action"] == "freeze"


def test_mistakes_are_named(rl, kcc, task, model, contract, tmp_path):
    def refused(*arguments, code=2):
        return rl("bad", *arguments, code=code).err

    assert "no task 'produkts'" in kcc("lab", "rl", "produkts", "-o", tmp_path / "a").err
    assert "count it twice" in refused("--bypass", "--rule", TIS)
    assert "nothing is recomputed" in refused("--bypass", "--recompute", "lab:f32")
    assert "at least two" in refused("--group", 1)
    assert "above 1.2" in refused("--dual-clip", 1.1)
    assert "which every step then computes" in refused("--kl", 0.1, "--reference-every", 5)
    assert "the lab has no kernel 'f33'" in refused("--infer", "lab:f33")
    assert "the run starts from --model" in refused("--train", "lab:f32?model=x")
    assert "exclude each other" in refused("--rule", TIS, "--dialect", "verl")
    assert not (tmp_path / "bad").exists()
    rl("run", "--steps", 2)
    assert "--resume goes on with it" in rl("run", "--steps", 2, code=2).err
    message = rl("run", "--steps", 2, "--resume", "--stale", 1, code=2).err
    assert "was started with stale 0, and would go on with 1" in message
    message = rl("run", "--steps", 2, "--resume", "--contract", contract(1.0), code=2).err
    assert "was started with contract none" in message
    message = rl("run", "--steps", 2, "--resume", "--infer", INT4, code=2).err
    assert "was started with infer " in message
    few = tmp_path / "few.jsonl"
    few.write_text(json.dumps({"id": "a", "prompt": [1], "output": [2]}) + "\n")
    assert "no problem of task 'few.jsonl' is held out" in kcc("lab", "rl", few, "--model", model, "-o", tmp_path / "few").err


def test_the_shipped_model_starts_on_products(kcc, tmp_path):
    done = kcc("lab", "rl", "products", "-o", tmp_path / "run", "--steps", 2, "--problems", 2, "--group", 4,
               "--eval-every", 0, "--infer", INT4)  # fmt: skip
    assert done.code == 0, done.err
    lines = lines_of(tmp_path / "run")
    assert 0 < np.mean([line["reward"] for line in lines]) < 1
    assert all(150 < line["tokens"] < 300 for line in lines), "eight answers of about 34 tokens"
