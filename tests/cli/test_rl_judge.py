"""kcc rl judge: one command from a dump to a verdict, and what dumps are read as."""

import json
import pathlib

import numpy as np
import pytest

import kcc as package

ROOT = pathlib.Path(__file__).resolve().parents[2]
DUMPS = ROOT / "tests/data/rl/dumps"
ARRAYS = json.loads((DUMPS / "arrays.json").read_text())

CONTRACT = """
apiVersion: kcc/v1
kind: KernelContract
metadata: {name: step, version: 1.0.0}
spec:
  decision: {about: evaluation-set}
  slices:
    - {name: math, where: "'math' in tags"}
    - {name: pushed-up, where: token.advantage > 0}
    - {name: long, where: output_tokens >= 5}
    - {name: long-prompts, where: prompt_tokens >= 3}
    - {name: solved, where: reward > 0}
  numerical:
    - {id: N-1, metric: mean_abs_log_ratio, atMost: LIMIT, slices: [all, math, pushed-up, long, long-prompts, solved], level: L3}
"""


@pytest.fixture
def contract(tmp_path):
    def write(limit):
        path = tmp_path / "contract.yaml"
        path.write_text(CONTRACT.replace("LIMIT", str(limit)))
        return path

    return write


def slices_of(report):
    return {row["slice"]: row for row in report["clauses"][0]["slices"]}


def test_a_dataproto_is_judged_with_its_slices(kcc, contract, tmp_path):
    out = tmp_path / "out"
    result = kcc("rl", "judge", contract(0.1), DUMPS / "dataproto.pkl", "--slice-by", "data_source", "--report", out)
    assert result.code == 0, result.err
    assert "SATISFIED" in result.out and str(out) in result.out
    rows = slices_of(json.loads((out / "report.json").read_text()))
    lengths = np.sum(ARRAYS["mask"], axis=1)
    gap = np.abs(np.subtract(ARRAYS["train"], ARRAYS["rollout"], dtype=np.float64)).sum(axis=1)
    chosen = {
        "all": [0, 1, 2, 3],
        "math": [1, 3],
        "pushed-up": [0, 2],
        "long": [0, 2],
        "long-prompts": [1, 3],
        "solved": [1, 3],
    }
    for name, requests in chosen.items():
        assert rows[name]["count"]["tokens"] == lengths[requests].sum(), name
        assert rows[name]["value"] == pytest.approx(gap[requests].sum() / lengths[requests].sum(), rel=1e-5), name
    assert kcc("rl", "judge", contract(1e-4), DUMPS / "dataproto.pkl", "--slice-by", "data_source").code == 1
    untagged = kcc("rl", "judge", contract(0.1), DUMPS / "dataproto.pkl")
    assert untagged.code == 3 and "no request has the field 'tags'" in untagged.out


def test_a_dump_and_the_arrays_give_the_same_summary(kcc, tmp_path):
    contract = ROOT / "contracts/rl-post-training.yaml"
    summary = tmp_path / "s.kccs"
    mask = np.array(ARRAYS["mask"])
    arrays = {name: np.array(ARRAYS[name]) for name in ("train", "rollout", "mask", "advantages")}
    np.savez(tmp_path / "step.npz", **arrays, rewards=ARRAYS["reward"])
    kcc("rl", "judge", contract, tmp_path / "step.npz", "--sampling-temperature", 1, "--summary", summary)
    requests = [
        {"id": f"{row:08d}", "reward": reward, "output_tokens": int(output)}
        for row, (reward, output) in enumerate(zip(ARRAYS["reward"], mask.sum(axis=1)))
    ]
    measured = package.measure(
        np.array(ARRAYS["train"]), np.array(ARRAYS["rollout"]), package.Contract.read(contract), mask=mask,
        advantages=np.repeat(np.array(ARRAYS["advantages"])[:, None], mask.shape[1], 1), requests=requests,
        lengths=mask.sum(axis=1),
    )  # fmt: skip
    assert measured.to_bytes() == summary.read_bytes()


def test_nothing_is_estimated_from_tokens_that_nobody_said_how_they_were_drawn(kcc, tmp_path):
    rows = 400
    np.savez(tmp_path / "step.npz", train=np.full((rows, 2), -1.0), rollout=np.full((rows, 2), -1.0), mask=np.ones((rows, 2)))
    contract = tmp_path / "tv.yaml"
    contract.write_text(
        "apiVersion: kcc/v1\nkind: KernelContract\nmetadata: {name: tv, version: 1.0.0}\nspec:\n"
        "  assumptions: {tokensMax: 2}\n  decision: {about: traffic}\n"
        "  numerical:\n    - {id: N-1, metric: mean_tv, atMost: 0.2, level: L3}\n"
    )
    assert kcc("rl", "judge", contract, tmp_path / "step.npz").code == 3
    assert kcc("rl", "judge", contract, tmp_path / "step.npz", "--sampling-temperature", 1).code == 0
    assert kcc("rl", "judge", contract, tmp_path / "step.npz", "--sampling-temperature", 0).code == 3


def test_two_traces_are_judged_as_by_run(kcc):
    pair = ["examples/traces/train", "examples/traces/infer"]
    by_run = kcc("run", "examples/contract.yaml", "--train", pair[0], "--infer", pair[1], "--json")
    by_rl = kcc("rl", "judge", "examples/contract.yaml", *pair, "--json")
    assert (by_rl.code, by_rl.out) == (by_run.code, by_run.out) and by_rl.code == 1


def test_names_can_be_mapped_and_are_listed_where_they_are_missing(kcc, contract, tmp_path):
    path = tmp_path / "mine.npz"
    np.savez(path, logp_new=ARRAYS["train"], logp_vllm=ARRAYS["rollout"], valid=ARRAYS["mask"])
    refused = kcc("rl", "judge", contract(0.1), path)
    assert refused.code == 2
    assert "found logp_new, logp_vllm and valid" in refused.err and "--map NAME=train" in refused.err
    names = ["--map", "logp_new=train", "--map", "logp_vllm=rollout", "--map", "valid=mask"]
    diagnosed = kcc("rl", "diagnose", *names, path, "--json")
    assert diagnosed.code == 0 and diagnosed.err == ""
    assert diagnosed.json["all"]["metrics"]["tokens"] == np.sum(ARRAYS["mask"])
    wrong = kcc("rl", "diagnose", path, "--map", "logp_new=trian")
    assert wrong.code == 2 and "train" in wrong.err


def test_padding_is_recognised_where_there_is_no_mask(kcc, tmp_path):
    path = tmp_path / "maskless.npz"
    np.savez(path, train=ARRAYS["train"], rollout=ARRAYS["rollout"])
    result = kcc("rl", "diagnose", path, "--json")
    assert result.json["all"]["metrics"]["tokens"] == np.sum(ARRAYS["mask"])
    assert "warning: there is no mask: 7 of 24 tokens" in result.err


def test_faults_of_meaning_are_warned_of_before_the_verdict(kcc, contract):
    result = kcc("rl", "judge", contract(0.1), "examples/rl/tempered.npz")
    assert result.code == 3  # nothing of it is in the slices
    assert "warning: unsure: " in result.err and "temperature" in result.err


def test_a_summary_of_diagnostics_is_no_dump(kcc, contract, tmp_path):
    kept = tmp_path / "step.kccrl"
    kcc("rl", "diagnose", "examples/rl/step.safetensors", "-o", kept)
    refused = kcc("rl", "judge", contract(0.1), kept)
    assert refused.code == 2 and "give the dump" in refused.err


@pytest.mark.parametrize("framework, dump", [("verl", "dataproto.pkl"), ("verl", "tensordict.pt"), ("trl", "trl.pt")])
def test_both_sides_of_a_dump_are_imported_as_traces_of_one_another(kcc, tmp_path, framework, dump):
    pair = []
    for side in ("train", "infer"):
        pair.append(tmp_path / side)
        done = kcc("import", framework, DUMPS / dump, "--side", side, "--vocab-size", "100", "--fingerprint", side,
                   "--temperature", "1", "-o", pair[-1])  # fmt: skip
        assert done.code == 0 and "4 requests, 17 tokens" in done.out, done.err
    figures = kcc("rl", "diagnose", *pair, "--json").json["all"]["metrics"]
    assert figures["tokens"] == 17
    direct = kcc("rl", "diagnose", DUMPS / dump, "--json").json["all"]["metrics"]
    assert figures["token.mean_k3"] == pytest.approx(direct["token.mean_k3"], rel=1e-6)


def test_an_import_asks_for_a_side_and_for_token_ids(kcc, tmp_path):
    assert "--side train or infer" in kcc("import", "verl", DUMPS / "dataproto.pkl", "-o", tmp_path / "t").err
    np.savez(tmp_path / "bare.npz", train=ARRAYS["train"], rollout=ARRAYS["rollout"], mask=ARRAYS["mask"])
    bare = kcc("import", "trl", tmp_path / "bare.npz", "--side", "train", "--vocab-size", "9", "-o", tmp_path / "t")
    assert bare.code == 2 and "--map NAME=tokens" in bare.err
    other = kcc("import", "tgi", "x.jsonl", "--map", "a=train", "-o", tmp_path / "t")
    assert other.code == 2 and "--map names arrays of a dump" in other.err


def test_a_clean_step_of_trl_is_satisfied_and_no_fault_is_named(kcc):
    """60 of its 64 rows have advantage 0, as GRPO's often do: they say nothing of where the update pushes."""
    step = ROOT / "examples/rl/trl-step.pt"
    assert kcc("rl", "lint", step).out == "ok: no fault found in 1480 tokens; the gap looks like numerics\n"
    judged = kcc("rl", "judge", ROOT / "contracts/rl-dump.yaml", step)
    assert (judged.code, judged.err) == (0, "")


def test_a_contract_that_asks_for_the_engine_says_how_a_dump_names_it(kcc):
    command = ["rl", "judge", ROOT / "contracts/rl-post-training.yaml", ROOT / "examples/rl/trl-step.pt"]
    assert "clause O-1 asks which engine sampled" in kcc(*command).err
    assert "--infer-fingerprint NAME" in kcc(*command).err
    assert kcc(*command, "--infer-fingerprint", "vllm 0.10.2").err == ""
    assert "O-1" not in kcc("rl", "judge", ROOT / "contracts/rl-dump.yaml", ROOT / "examples/rl/trl-step.pt").err
