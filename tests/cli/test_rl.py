"""kcc rl through the real program: exit codes, --json, merging, and the page."""

import json
import pathlib
import re

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
STEP = "examples/rl/step.safetensors"
GOLDEN = "tests/data/rl"


def test_diagnose_prints_metrics_by_slice(kcc):
    result = kcc("rl", "diagnose", STEP, "--json")
    assert result.code == 0
    data = result.json
    assert data["all"]["metrics"]["tokens"] == 2878
    assert [s["slice"] for s in data["slices"]] == ["chat", "code", "grid"]
    k3 = [s["metrics"]["token.mean_k3"] for s in data["slices"]]
    assert sum(s["metrics"]["tokens"] for s in data["slices"]) == 2878
    assert k3[2] > 100 * k3[0]
    assert data["verdict"] is None and data["clauses"] == []


def test_limits_decide_the_exit_code(kcc):
    assert kcc("rl", "diagnose", STEP, "--limit", "token.mean_k3<=0.1").code == 0
    assert kcc("rl", "diagnose", STEP, "--limit", "token.mean_k3<=1e-6").code == 1
    assert kcc("rl", "diagnose", STEP, "--limit", "row.mean_tv<=0.05").code == 3
    assert kcc("rl", "diagnose", STEP, "--limit", "token.ess>=0.5").code == 0
    typo = kcc("rl", "diagnose", STEP, "--limit", "token.mean_kk3<=1")
    assert typo.code == 2 and "token.mean_k3" in typo.err
    assert kcc("rl", "diagnose", STEP, "--limit", "nonsense").code == 2


def test_limits_may_use_the_names_of_version_1(kcc):
    assert kcc("rl", "diagnose", STEP, "--limit", "token.k3<=0.1").code == 0
    assert kcc("rl", "diagnose", STEP, "--limit", "token.k3<=1e-6").code == 1
    assert kcc("rl", "diagnose", STEP, "--limit", "tv_rows<=0.05").code == 3
    typo = kcc("rl", "diagnose", STEP, "--limit", "token.kk3<=1")
    assert typo.code == 2 and "token.k3" in typo.err


def test_clauses_are_told_in_the_words_of_a_report(kcc):
    limits = ["--limit", "token.k3<=0.01", "--limit", "row.mean_tv<=0.05", "--limit", "token.ess>=0.999"]
    result = kcc("rl", "diagnose", STEP, *limits, "--json")
    assert result.code == 1
    assert result.json["verdict"] == "violated"
    words = [(c["metric"], c["bound"], c["threshold"], c["verdict"]) for c in result.json["clauses"]]
    assert words == [
        ("token.mean_k3", "atMost", 0.01, "satisfied"),
        ("row.mean_tv", "atMost", 0.05, "inconclusive"),
        ("token.ess", "atLeast", 0.999, "violated"),
    ]
    plain, certified, _ = result.json["clauses"]
    assert plain["confidenceInterval"] is None and not plain["certified"]
    low, high = certified["confidenceInterval"]
    assert low < 0.05 < high and certified["certified"] and "threshold" in certified["reason"]


def spellings(value, found):
    """Every key of a document, but for the objects whose keys are names of metrics."""
    if isinstance(value, dict):
        for key, inner in value.items():
            found.add(key)
            if key not in ("metrics", "confidenceIntervals"):
                spellings(inner, found)
    elif isinstance(value, list):
        for inner in value:
            spellings(inner, found)
    return found


RULE = '{"weight": {"mode": "clip", "low": 0.5, "high": 2, "batchNormalize": true}}'


@pytest.mark.parametrize(
    ("key", "arguments"),
    [
        ("kccRlDiagnose", ["diagnose", STEP, "--limit", "token.ess>=0.5"]),
        ("kccRlLint", ["lint", STEP, "--rule", RULE]),
        ("kccRlDialects", ["dialects"]),
        ("kccRlTranslate", ["translate", "verl"]),
        ("kccRlCorrect", ["correct", STEP, "--rule", RULE]),
        ("kccRlReplay", ["replay", STEP]),
        ("kccRlConform", ["conform", f"{GOLDEN}/trl.json"]),
    ],
)
def test_every_json_has_a_version_first_and_one_spelling(kcc, key, arguments):
    data = kcc("rl", *arguments, "--json").json
    assert next(iter(data.items())) == (key, 2)
    assert not [name for name in spellings(data, set()) if not re.fullmatch("[a-z][a-zA-Z0-9]*", name)]


def test_summaries_merge(kcc, tmp_path):
    kept = tmp_path / "step.kccrl"
    assert kcc("rl", "diagnose", STEP, "-o", str(kept)).code == 0
    once = kcc("rl", "diagnose", str(kept), "--json")
    assert once.json == json.loads(kcc("rl", "diagnose", STEP, "--json").out)
    twice = json.loads(kcc("rl", "diagnose", str(kept), str(kept), "--json").out)
    assert twice["all"]["metrics"]["tokens"] == 2 * 2878
    kept.write_bytes(kept.read_bytes()[:-3])
    assert kcc("rl", "diagnose", str(kept)).code == 2


def test_threads_change_nothing(kcc):
    one = kcc("rl", "diagnose", STEP, "--json", "--threads", "1")
    three = kcc("rl", "diagnose", STEP, "--json", "--threads", "3")
    assert one.out == three.out


def test_lint_is_silent_on_the_example(kcc):
    result = kcc("rl", "lint", STEP, "--json")
    assert result.code == 0
    assert result.json["findings"] == []


def tempered_step(path, rows, temperature=0.8):
    """Two tokens compete in every context; the engine samples and reports at a temperature, the trainer is at 1."""
    rng = np.random.default_rng(7)
    odds = 3 * rng.standard_normal((rows, 40))
    own = np.where(rng.random(odds.shape) < 1 / (1 + np.exp(-odds / temperature)), odds, -odds)
    np.savez(path, rollout=-np.log1p(np.exp(-own / temperature)), train=-np.log1p(np.exp(-own)))
    return str(path)


def test_lint_is_unsure_where_the_tokens_do_not_tell(kcc, tmp_path):
    few = kcc("rl", "lint", tempered_step(tmp_path / "few.npz", 5), "--json")
    assert few.code == 3
    (finding,) = few.json["findings"]
    assert finding["fault"] == "unsure"
    assert set(finding["candidates"]) == {"temperature", "raw_vs_processed"}
    text = kcc("rl", "lint", tempered_step(tmp_path / "few.npz", 5))
    assert text.code == 3
    assert text.out.startswith("unsure: ") and "if temperature: " in text.out and "if raw_vs_processed: " in text.out
    many = kcc("rl", "lint", tempered_step(tmp_path / "many.npz", 400), "--json")
    assert many.code == 1
    assert [each["fault"] for each in many.json["findings"]] == ["temperature"]
    assert "candidates" not in many.json["findings"][0]


def test_translate_warns(kcc):
    options = '{"rollout_rs": "token_k1", "rollout_rs_threshold": "0.6_1.6"}'
    result = kcc("rl", "translate", "verl", "--options", options, "--json")
    assert result.code == 0
    data = result.json
    assert data["complete"] and any("1/w" in w for w in data["warnings"])
    bad = kcc("rl", "translate", "verl", "--options", '{"rollout_rs": "geometric"}')
    assert bad.code == 2


def test_correct_writes_weights(kcc, tmp_path):
    target = tmp_path / "weights.safetensors"
    rule = '{"weight": {"mode": "truncate", "high": 1.1}}'
    result = kcc("rl", "correct", STEP, "--rule", rule, "-o", str(target), "--json")
    assert result.code == 0
    whole = result.json["all"]
    assert whole["tokensKept"] == whole["tokens"] and whole["unitsOutside"] > 0
    size = int.from_bytes(target.read_bytes()[:8], "little")
    header = json.loads(target.read_bytes()[8 : 8 + size])
    assert header["weights"]["shape"] == [48, 96] and header["mask"]["dtype"] == "U8"
    nothing = '{"reject": [{"statistic": "ratio", "low": 5, "high": 6}]}'
    assert kcc("rl", "correct", STEP, "--rule", nothing).code == 1
    assert kcc("rl", "correct", STEP, "--rule", '{"weigth": {}}').code == 2
    assert kcc("rl", "correct", STEP).code == 2


def test_replay_recommends_and_draws(kcc, tmp_path):
    page = tmp_path / "replay.html"
    result = kcc("rl", "replay", STEP, "-o", str(page), "--json")
    assert result.code == 0
    data = result.json
    best = data["corrections"][data["recommended"]]
    assert best["keptMin"] >= 0.9 and data["reason"]
    assert best["all"]["tokens"] == 2878 and len(best["slices"]) == 3
    again = kcc("rl", "correct", STEP, "--rule", json.dumps(best["correction"]), "--json")
    assert again.json["all"] == best["all"]
    text = page.read_text()
    assert "<svg" not in text.split("<script")[0]
    assert not re.search(r'(src|href)="http', text)
    assert kcc("rl", "replay", STEP, "--ess-min", "1").code in (0, 1)


def gap_of(path, spread, rows=200, tokens=40, **extra):
    """A dump with a kernel gap of numerics: Gaussian noise on the log-probs."""
    rng = np.random.default_rng(3)
    rollout = -rng.exponential(0.7, (rows, tokens)) - 0.8
    arrays = {"train": rollout + spread * rng.standard_normal(rollout.shape), "rollout": rollout}
    arrays |= {name: make(rng, arrays) for name, make in extra.items()}
    np.savez(path, mask=np.ones_like(rollout), **arrays)
    return path


K3_RULE = '{"reject": [{"statistic": "k3", "aggregate": "sequence_mean", "high": 0.001}]}'


def test_replay_shows_the_kernels_own_k3_and_recommends_nothing_below_it(kcc, tmp_path):
    dump = gap_of(tmp_path / "gap.npz", 0.08)  # k3 about 0.003 as of int4; mean |log w| 0.06 as of int3, which decides
    data = kcc("rl", "replay", dump, "--json").json
    assert "int3" in data["evidence"] and "docs/results/e3-gpu.md" in data["evidence"]
    by_text = {each["text"]: each for each in data["corrections"]}
    (own,) = by_text["weight 1; reject by sequence mean k3 above 0.001"]["ownKernel"]
    assert own["belowOwn"] and own["tokensKept"] < 0.1 * own["tokens"] and own["setting"] == "reject[0]"
    values = {each["p"]: each["value"] for each in own["quantiles"]}
    assert 0.001 < values[0.05] < values[0.5] < values[0.95] and values[0.5] == pytest.approx(0.0032, rel=0.2)
    assert not by_text["weight 1; reject by sequence mean k3 above 0.01"]["ownKernel"][0]["belowOwn"]
    assert by_text["weight 1"]["ownKernel"] == []
    best = data["corrections"][data["recommended"]]
    assert not any(each["belowOwn"] for each in best["ownKernel"])
    text = kcc("rl", "replay", dump)
    (line,) = [line for line in text.out.splitlines() if line.endswith("BELOW IT)") and "k3 above 0.001 " in line]
    assert "(own p50 0.003" in line


def test_replay_finds_thresholds_that_are_not_the_grids(kcc, tmp_path):
    dump = gap_of(tmp_path / "gap.npz", 0.1)
    first = kcc("rl", "replay", dump, "--json").json
    searched = [each for each in first["corrections"] if each["searched"]]
    assert searched and len({each["text"] for each in first["corrections"]}) == len(first["corrections"])
    for each in searched:
        assert each["keptMin"] >= 0.9 and each["all"]["ess"] >= 0.3
    assert kcc("rl", "replay", dump, "--json", "--threads", "3").json == first


def test_replay_warns_of_a_threshold_that_a_low_kept_min_lets_through(kcc):
    low = kcc("rl", "replay", STEP, "--kept-min", "0.1")
    assert low.code == 0 and "warning" in low.err and "e3-gpu.md" in low.err
    assert "cost reward in E3" not in kcc("rl", "replay", STEP).err


def training_of(result):
    return [(each["fault"], each["note"]) for each in result.json["training"]]


def test_lint_warns_of_bypass_at_a_mismatch_that_cost_reward(kcc, tmp_path):
    small, large = gap_of(tmp_path / "small.npz", 0.002), gap_of(tmp_path / "large.npz", 0.02)
    assert training_of(kcc("rl", "lint", large, "--json")) == []
    told = kcc("rl", "lint", large, "--bypass", "--json")
    assert told.code == 1 and training_of(told) == [("bypass_mismatch", False)]
    assert "docs/results/e3-gpu.md" in told.json["training"][0]["message"]
    below = kcc("rl", "lint", small, "--bypass", "--json")
    assert below.code == 0 and training_of(below) == [("bypass_mismatch", True)]
    seen = gap_of(tmp_path / "old.npz", 0.02, old=lambda rng, arrays: arrays["rollout"])
    assert training_of(kcc("rl", "lint", seen, "--json")) == [("bypass_mismatch", False)]
    text = kcc("rl", "lint", seen)
    assert text.code == 1 and "bypass_mismatch: old log-probs are the rollout's (bypass) at mean |log w| 0.01" in text.out


def test_lint_names_thresholds_below_the_kernels_own_and_old_log_probs_of_another_kernel(kcc, tmp_path):
    int4 = gap_of(tmp_path / "int4.npz", 0.08)
    told = kcc("rl", "lint", int4, "--rule", K3_RULE, "--json")
    assert told.code == 1 and training_of(told) == [("below_own_kernel", False)]
    bf16 = gap_of(tmp_path / "bf16.npz", 0.003)
    assert training_of(kcc("rl", "lint", bf16, "--rule", K3_RULE, "--json")) == []

    def noisy(rng, arrays):
        return arrays["train"] + 0.016 * rng.standard_normal(arrays["train"].shape)

    other = kcc("rl", "lint", gap_of(tmp_path / "other.npz", 1e-7, old=noisy), "--json")
    assert other.code == 1 and training_of(other) == [("old_of_other_kernel", False)]


def test_diagnose_begins_with_a_sentence_against_published_bounds(kcc):
    result = kcc("rl", "diagnose", STEP)
    assert result.out.splitlines()[0] == (
        "k3 0.006189: beyond NeMo-RL's 0.001, inside prime-rl's 0.015; slice grid has 0.01833: beyond NeMo-RL's 0.001 and "
        "prime-rl's 0.015."
    )
    published = kcc("rl", "diagnose", STEP, "--json").json["published"]
    assert {row["source"]: row["inside"] for row in published if row["metric"] == "token.mean_k3"} == {
        "NeMo-RL": False,
        "prime-rl": True,
    }


def test_replay_prints_a_frameworks_settings_and_what_is_spent_of_epsilon(kcc):
    text = kcc("rl", "replay", STEP, "--for", "verl")
    assert text.code == 0
    assert "correction advised: k3 is" in text.out and "PPO's epsilon 0.2: kernels and staleness together spend" in text.out
    assert 'algorithm.rollout_correction.rollout_rs="seq_mean_k1"' in text.out
    data = kcc("rl", "replay", STEP, "--for", "trl", "--json", "--epsilon", "0.1").json
    assert data["clipBudget"]["epsilon"] == 0.1 and data["clipBudget"]["kernels"] is None
    assert data["settings"]["lines"][0] == "vllm_importance_sampling_correction=True"
    assert data["settings"]["correction"] != data["recommended"] and "trl has no settings" in data["settings"]["reason"]


def test_a_small_gap_needs_no_correction(kcc, tmp_path):
    rng = np.random.default_rng(1)
    rollout = -rng.exponential(0.7, (64, 50))
    old = np.minimum(rollout + 1e-3 * rng.standard_normal(rollout.shape), 0)
    train = np.minimum(old + 2e-3 * rng.standard_normal(rollout.shape), 0)
    np.savez(tmp_path / "small.npz", train=train, rollout=rollout, old=old, mask=np.ones_like(rollout))
    data = kcc("rl", "replay", tmp_path / "small.npz", "--for", "trl", "--json").json
    assert data["correctionNeeded"] is False and "NeMo-RL's 0.001" in data["needReason"]
    assert data["settings"]["lines"] == ["vllm_importance_sampling_correction=False"]
    spent = data["clipBudget"]
    assert spent["kernels"]["share"] == pytest.approx(np.mean(np.abs(np.expm1(old - rollout))) / 0.2)
    assert spent["staleness"]["share"] > spent["kernels"]["share"]
    assert "no correction needed: k3 is at most" in kcc("rl", "replay", tmp_path / "small.npz").out


def test_conform_passes_on_every_golden_file(kcc):
    golden = sorted((ROOT / GOLDEN).glob("*.json"))
    ids = {dialect["id"] for dialect in kcc("rl", "dialects", "--json").json["dialects"]}
    assert {path.stem for path in golden} == ids | {"errors"}
    result = kcc("rl", "conform", *golden, "--float64", "--json")
    assert result.code == 0
    files = result.json["files"]
    assert [f["cases"] for f in files] == [len(json.loads(path.read_text())) for path in golden]
    refused = {pathlib.Path(f["file"]).stem: f["refused"] for f in files if f["refused"]}
    assert refused == {"errors": 25}


def test_dialects_list_the_options_that_golden_files_use(kcc):
    """An option that a framework's golden file sets and its row does not list would be missing in the docs."""
    for dialect in kcc("rl", "dialects", "--json").json["dialects"]:
        listed = {function["name"]: set(function["options"]) for function in dialect["functions"]}
        used = {name: set() for name in listed}
        for case in json.loads((ROOT / GOLDEN / f"{dialect['id']}.json").read_text()):
            used[case["function"]] |= set(case["config"])
        assert used == listed, dialect["id"]


def test_conform_reports_every_miss(kcc, tmp_path):
    cases = json.loads(open(f"{GOLDEN}/trl.json").read())
    cases[0]["expected"]["sampling/importance_sampling_ratio/mean"] = 1.5
    wrong = tmp_path / "trl.json"
    wrong.write_text(json.dumps(cases))
    result = kcc("rl", "conform", str(wrong), "--json")
    assert result.code == 1
    misses = result.json["files"][0]["misses"]
    assert [m["what"] for m in misses] == ["sampling/importance_sampling_ratio/mean"]


def test_broken_dumps_are_errors(kcc, tmp_path):
    assert kcc("rl", "lint", "missing.npz").code == 4
    text = tmp_path / "dump.txt"
    text.write_text("x")
    result = kcc("rl", "diagnose", str(text))
    assert result.code == 2 and ".safetensors" in result.err


def test_dumps_of_torch_and_json_lines_give_the_same_figures(kcc, tmp_path):
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    rollout = -torch.rand(4, 16, dtype=torch.float64)
    train = rollout - 0.01 * torch.rand(4, 16, dtype=torch.float64)
    padded = {"old_log_probs": train, "rollout_log_probs": rollout, "response_mask": torch.ones(4, 16, dtype=torch.bool)}
    torch.save({"batch": padded, "step": 7}, tmp_path / "padded.pt")
    offsets = torch.arange(0, 65, 16, dtype=torch.int32)
    torch.save({"train": train.flatten(), "rollout": rollout.flatten(), "cu_seqlens": offsets}, tmp_path / "packed.pt")
    rows = [json.dumps({"train": t, "rollout": r}) for t, r in zip(train.tolist(), rollout.tolist())]
    (tmp_path / "rows.jsonl").write_text("\n".join(rows) + "\n")
    outputs = [kcc("rl", "diagnose", str(tmp_path / name), "--json") for name in ("padded.pt", "packed.pt", "rows.jsonl")]
    assert [each.code for each in outputs] == [0, 0, 0], outputs
    assert outputs[0].json["all"]["metrics"]["tokens"] == 64
    assert outputs[0].out == outputs[1].out == outputs[2].out
    torch.save({"train": train.T, "rollout": rollout.T}, tmp_path / "view.pt")
    refused = kcc("rl", "diagnose", str(tmp_path / "view.pt"))
    assert refused.code == 2 and "contiguous" in refused.err


def test_token_exports_and_full_logit_traces_are_dumps(kcc):
    exports = kcc("rl", "diagnose", f"{GOLDEN}/token_exports/step_7", "--json")
    assert exports.code == 0 and exports.json["all"]["metrics"]["tokens"] == 94
    assert [each["slice"] for each in exports.json["slices"]] == ["code", "math"]
    traces = kcc("rl", "diagnose", "examples/traces/train", "examples/traces/infer", "--json")
    assert traces.code == 0 and traces.json["all"]["metrics"]["tokens"] == 576


def test_lint_names_vacuous_settings(kcc):
    low = kcc("rl", "lint", STEP, "--rule", '{"weight": {"mode": "truncate", "high": 0.9}}', "--json")
    assert low.code == 1 and low.json["settings"][0]["fault"] == "excludes_one"
    idle = kcc("rl", "lint", STEP, "--rule", '{"veto": {"low": 1e-4}}', "--json")
    assert idle.code == 0 and idle.json["settings"][0]["note"]
    options = '{"rollout_rs": "token_k1", "rollout_rs_threshold": "1.5_1.6"}'
    band = kcc("rl", "lint", STEP, "--dialect", "verl", "--options", options, "--json")
    assert band.code == 1, band.out
    assert kcc("rl", "lint", STEP, "--rule", "{").code == 2


@pytest.mark.parametrize("words", [["replay", "--epsilon", "0"], ["replay", "--epsilon", "-1"], ["judge", "--temperature", "0"],
                                   ["judge", "--sampling-temperature", "-1"]], ids=" ".join)  # fmt: skip
def test_numbers_out_of_range_are_told_in_short(kcc, words):
    command, flag, value = words
    contract = ["contracts/rl-dump.yaml"] if command == "judge" else []
    done = kcc("rl", command, *contract, "examples/rl/step.safetensors", flag, value)
    assert done.code == 2
    assert done.err.startswith(f"kcc rl {command}: error: {flag}: '{value}' is not a number ")
    assert len(done.err.splitlines()[0]) < 120, done.err
