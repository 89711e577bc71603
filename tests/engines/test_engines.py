"""Real engines under contract, through kcc: one checkpoint in PyTorch, llama.cpp and ONNX Runtime."""

import itertools

import engine_drift as engines
import pytest

PER_SKILL = 3


@pytest.fixture(scope="module", autouse=True)
def as_users_start_them(torch_lm):
    """The kernels' commands. Meanwhile those of PyTorch are forked from a process that has made its imports, which take
    longer than their work."""
    plain = dict(engines.KERNELS)
    for name, command in plain.items():
        if command.startswith(engines.TORCH):
            engines.KERNELS[name] = torch_lm(engines.MODEL, command.removeprefix(engines.TORCH)).removeprefix("exec:")
    yield plain
    engines.KERNELS.update(plain)


@pytest.fixture(scope="module")
def work(tmp_path_factory, exports):
    """The exports, with room for traces beside them."""
    directory = tmp_path_factory.mktemp("engines")
    for file in exports.iterdir():
        (directory / file.name).symlink_to(file)
    return directory


@pytest.fixture(scope="module")
def requests(work):
    return engines.first_requests(engines.MODEL / "eval.jsonl", PER_SKILL, work / "requests.jsonl")


@pytest.fixture(scope="module")
def judged(work, requests):
    """judged(train, infer) -> the report of the scored pair."""

    def run(train, infer):
        traces = [engines.score(name, requests, work) for name in (train, infer)]
        return engines.report(engines.SCORING, *traces)

    return run


def test_float32_kernels_agree_to_1e_4_at_every_logit_and_are_convergent(judged):
    for train, infer in itertools.combinations(engines.EXACT, 2):
        report = judged(train, infer)
        assert report["convergent"], f"{train} against {infer}: {report['headline']}"
        drift = report["quantities"]["raw_logit_linf"]["all"]
        assert drift["max"] <= 1e-4, f"{train} against {infer}: {drift}"


def test_float32_kernels_are_different_programs(judged):
    different = {
        pair: judged(*pair)["quantities"]["raw_logit_linf"]["all"]["max"]
        for pair in itertools.combinations(["torch f32 SDPA", "llama.cpp f32", "ONNX Runtime"], 2)
    }
    assert min(different.values()) > 0, different


@pytest.mark.parametrize(
    "name", ["llama.cpp f32, KV f16", "torch bf16 eager", "torch bf16 SDPA", "llama.cpp Q8_0"]
)
def test_rounding_is_seen_and_graded_below_l3(judged, name):
    report = judged(engines.REFERENCE, name)
    assert not report["convergent"]
    entries = engines.values(report)
    assert entries["N-1", "all"]["verdict"] == "violated"
    assert entries["S-1", "all"]["verdict"] == "satisfied"


def test_four_bits_are_caught(judged):
    report = judged(engines.REFERENCE, "llama.cpp Q4_K_M")
    entries = engines.values(report)
    assert report["verdict"] == "violated"
    assert entries["N-2", "all"]["verdict"] == "violated", entries["N-2", "all"]["reason"]


def test_kcc_run_drives_two_engines_directly(work, requests, as_users_start_them):
    """No trace on disk: both programs run, batch by batch."""
    arguments = []
    for side, name in (("--train", "torch f32 SDPA"), ("--infer", "llama.cpp f32")):
        arguments += [side, engines.uri(as_users_start_them[name], work)]
    engines.kcc("run", engines.SCORING, *arguments, "--requests", requests, "--batch", 4)


@pytest.mark.slow
def test_a_kernel_that_breaks_tool_calls_is_caught_by_their_slice_while_the_average_passes(work):
    requests = engines.MODEL / "eval.jsonl"
    reference = engines.answers(engines.REFERENCE, engines.KERNELS[engines.REFERENCE], requests, work)
    for name in ("llama.cpp Q3_K_S", "llama.cpp Q2_K"):
        broken = engines.answers(name, engines.WRITERS[name], requests, work)
        entries = engines.values(engines.report(engines.BEHAVIOUR, reference, broken))
        assert entries["S-1", "all"]["verdict"] == "satisfied", entries["S-1", "all"]["reason"]
        assert entries["S-2", "json"]["verdict"] == "violated", entries["S-2", "json"]["reason"]


@pytest.mark.slow
def test_all_requests_grade_the_pairs_as_the_page_says(work):
    """The page's verdicts, which do not hang on the last digit of a drift."""
    requests = engines.MODEL / "eval.jsonl"
    everything = work / "all"
    everything.mkdir()
    for file in ("f32.gguf", "model.onnx", *(f"{kind}.gguf" for kind in engines.GGUF_TYPES)):
        (everything / file).symlink_to(work / file)
    shown = engines.PAGE.read_text().splitlines()
    for line in engines.pair_table(everything, requests):
        cells = line.split(" | ")
        assert any(row.startswith(" | ".join(cells[:2])) and row.endswith(cells[-1]) for row in shown), line
