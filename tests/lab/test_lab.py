"""The lab through the real program: parity with PyTorch, listing, attribution, first divergence."""

import json
import pathlib
import struct

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHIPPED = ROOT / "models" / "kcc-lab"


def tensors_of(trace, wanted=("request", "position", "logits")):
    """These columns of every token file of a trace, one after the other."""
    columns = {}
    for path in sorted(pathlib.Path(trace).glob("tokens-*.safetensors")):
        data = path.read_bytes()
        (size,) = struct.unpack_from("<Q", data)
        for name, entry in json.loads(data[8 : 8 + size]).items():
            if name in wanted:
                begin, end = (8 + size + offset for offset in entry["data_offsets"])
                dtype = "<f4" if name == "logits" else "<i4"
                array = np.frombuffer(data[begin:end], dtype).reshape(entry["shape"])
                columns.setdefault(name, []).append(array)
    return {name: np.concatenate(parts) for name, parts in columns.items()}


def worst_gap(model, requests, trace):
    """The largest difference between PyTorch's float64 logits and the trace's, and the largest logit."""
    import torch

    columns = tensors_of(trace)
    lines = (pathlib.Path(trace) / "requests.jsonl").read_text().splitlines()
    row_of = {json.loads(line)["id"]: row for row, line in enumerate(lines)}
    torch.set_num_threads(1)  # small matrices
    worst = size = 0.0
    rows = 0
    with torch.no_grad():
        for request in requests:
            logits = model(torch.tensor([request["prompt"] + request["output"]]))[0].numpy()
            mine = np.nonzero(columns["request"] == row_of[request["id"]])[0]
            gap = np.abs(columns["logits"][mine] - logits[columns["position"][mine] - 1])
            worst = max(worst, float(gap.max()))
            size = max(size, float(np.abs(logits).max()))
            rows += len(mine)
    assert rows == len(columns["request"]) == sum(len(r["output"]) for r in requests)
    return worst, size


def random_checkpoint(directory, layers, heads, positions):
    """A random model of the shipped shape, smaller."""
    torch = pytest.importorskip("torch")
    from kcc.model import llama

    torch.manual_seed(5)
    config = llama.Config(
        vocab_size=96, hidden_size=64, intermediate_size=96, num_hidden_layers=layers,
        num_attention_heads=heads, num_key_value_heads=2, max_position_embeddings=positions,
    )
    model = llama.Llama(config)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() == 2:
                weight.mul_(4)
    llama.save(model, directory)
    return directory


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    return random_checkpoint(tmp_path_factory.mktemp("model"), layers=2, heads=4, positions=1024)


@pytest.fixture(scope="module")
def requests_file(tmp_path_factory):
    bits = np.random.default_rng(3)
    path = tmp_path_factory.mktemp("requests") / "r.jsonl"
    with path.open("w") as out:
        for i in range(6):
            prompt = bits.integers(0, 96, int(bits.integers(1, 60))).tolist()
            output = bits.integers(0, 96, int(bits.integers(1, 30))).tolist()
            line = {"id": f"r{i}", "prompt": prompt, "output": output, "tags": ["even" if i % 2 == 0 else "odd"]}
            out.write(json.dumps(line) + "\n")
    return path


def test_train_equals_pytorch_float64(kcc, checkpoint, requests_file, tmp_path):
    import torch
    from kcc.model import llama

    done = kcc("score", f"lab:train?model={checkpoint}", "--requests", requests_file, "-o", tmp_path / "t")
    assert done.code == 0, done.err
    requests = [json.loads(line) for line in requests_file.read_text().splitlines()]
    worst, size = worst_gap(llama.load(checkpoint, torch.float64), requests, tmp_path / "t")
    assert worst < 1e-6 * size, "activations are stored in float32, so the gap is relative to the logits"


LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}


@pytest.mark.parametrize(
    "family, more",
    [
        ("llama", {"attention_bias": True}),
        ("llama", {"rope_parameters": LLAMA3 | {"rope_theta": 500.0, "original_max_position_embeddings": 64}}),
        ("llama", {"rope_parameters": {"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0}}),
        ("qwen2", {}),
        ("qwen2", {"tie_word_embeddings": True}),
        ("qwen3", {"head_dim": 32}),
    ],
    ids=["llama with biases", "llama3 RoPE", "linear RoPE", "qwen2", "qwen2 tied", "qwen3"],
)
def test_train_equals_transformers_on_other_families(kcc, requests_file, tmp_path, family, more):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")

    shape = {
        "vocab_size": 96, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "max_position_embeddings": 512, "tie_word_embeddings": False,
    }  # fmt: skip
    torch.manual_seed(6)
    config = transformers.AutoConfig.for_model(family, **shape | more)
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            weight.mul_(4) if weight.dim() == 2 else weight.add_(torch.randn_like(weight) * 0.3)
    model.save_pretrained(tmp_path / "model")
    done = kcc("score", f"lab:train?model={tmp_path / 'model'}", "--requests", requests_file, "-o", tmp_path / "t")
    assert done.code == 0, done.err
    double = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "model", dtype=torch.float64)
    requests = [json.loads(line) for line in requests_file.read_text().splitlines()]
    worst, size = worst_gap(lambda tokens: double(tokens).logits, requests, tmp_path / "t")
    # transformers forms the angles of RoPE in float32, whatever the dtype of the model.
    assert worst < 1e-4 * size


@pytest.mark.parametrize("every", [10, pytest.param(1, marks=pytest.mark.slow)], ids=["a tenth", "all"])
def test_train_equals_pytorch_float64_on_the_evaluation_set(kcc, tmp_path, every):
    torch = pytest.importorskip("torch")
    from kcc.model import llama

    file = tmp_path / "r.jsonl"
    file.write_text("".join((SHIPPED / "eval.jsonl").read_text().splitlines(keepends=True)[::every]))
    done = kcc("score", "lab:train", "--requests", file, "-o", tmp_path / "t")
    assert done.code == 0, done.err
    requests = [json.loads(line) for line in file.read_text().splitlines()]
    worst, _ = worst_gap(llama.load(SHIPPED, torch.float64), requests, tmp_path / "t")
    assert worst < 1e-5


def test_list_names_every_kernel_and_switch(kcc):
    listed = kcc("lab", "list", "--json").json
    assert {"train", "bf16", "fp8", "int4"} <= {kernel["name"] for kernel in listed["kernels"]}
    assert {s["source"] for s in listed["switches"]} == {"operator", "precision", "batch", "route", ""}
    text = kcc("lab", "list").out
    for switch in listed["switches"]:
        assert f"  {switch['name']}: " in text


@pytest.mark.parametrize(
    "options, source",
    [("attention=tiles:8", "operator"), ("weights=int4", "precision"), ("batch=dynamic", "batch"), ("route=shape:9", "route")],
)
def test_attribution_gives_one_source_its_share(kcc, checkpoint, requests_file, options, source):
    done = kcc(
        "attribute", "--train", f"lab:f32?model={checkpoint}", "--infer",
        f"lab:custom?{options}&model={checkpoint}", "--requests", requests_file, "--json",
    )
    assert done.code == 0, done.err
    for cell in done.json["cells"]:
        shares = [cell[name]["share"] for name in ("operator", "precision", "batch", "route")]
        assert ((shares[0] + shares[1]) + shares[2]) + shares[3] == cell["total"]
        assert abs(cell[source]["share"]) >= 0.95 * abs(cell["total"])
    for envelope in done.json["envelopes"].values():
        assert envelope["measuredLinf"] <= envelope["worstLinf"]


@pytest.mark.parametrize("more", [[], ["--first-divergence"]])
def test_the_requests_of_attribution_may_be_a_trace(kcc, checkpoint, requests_file, tmp_path, more):
    trace = tmp_path / "trace"
    assert kcc("score", f"lab:f32?model={checkpoint}", "--requests", requests_file, "-o", trace).code == 0
    pair = [f"lab:f32?model={checkpoint}", f"lab:bf16?model={checkpoint}", *more]
    by_file = kcc("attribute", *pair, "--requests", requests_file)
    by_trace = kcc("attribute", *pair, "--requests", trace)
    assert (by_trace.code, by_trace.out) == (0, by_file.out), by_trace.err


def test_first_divergence_names_the_operator(kcc, checkpoint, requests_file):
    arguments = ["--train", f"lab:f32?model={checkpoint}", "--requests", requests_file, "--first-divergence"]
    done = kcc("attribute", *arguments, "--infer", f"lab:custom?swiglu=fused&model={checkpoint}")
    assert done.code == 0, done.err
    assert "layer 0, gated" in done.out
    same = kcc("attribute", *arguments, "--infer", f"lab:f32?chunk=5&page=7&model={checkpoint}")
    assert "agree bit for bit" in same.out


@pytest.mark.parametrize(
    "kernel, message",
    [
        ("lab:fp9", "the lab has no kernel 'fp9'"),
        ("lab:custom?kv=fp8", "switch kv takes"),
        ("lab:custom?promote=128", "needs a narrow accumulator"),
        ("lab:f32?model=nowhere", "nowhere"),
    ],
)
def test_mistakes_are_named(kcc, requests_file, tmp_path, kernel, message):
    done = kcc("score", kernel, "--requests", requests_file, "-o", tmp_path / "t")
    assert done.code in (2, 4)
    assert message in done.err


def test_decode_under_pressure_scores_the_same_bits(kcc, checkpoint, requests_file, tmp_path):
    traces = {}
    for name, options in {"calm": "", "pressed": "&path=decode&kv_tokens=112&page=8&chunk=7"}.items():
        kernel = f"lab:f32?model={checkpoint}{options}"
        assert kcc("score", kernel, "--requests", requests_file, "-o", tmp_path / name).code == 0
        traces[name] = tensors_of(tmp_path / name)["logits"]
    assert np.array_equal(traces["calm"], traces["pressed"])


def test_contexts_of_8k_survive_preemption_with_the_same_bits(kcc, tmp_path):
    model = random_checkpoint(tmp_path / "model", layers=1, heads=2, positions=8448)
    bits = np.random.default_rng(9)
    file = tmp_path / "long.jsonl"
    with file.open("w") as out:
        for i in range(3):
            prompt = bits.integers(0, 96, 8192).tolist()
            out.write(json.dumps({"id": f"long{i}", "prompt": prompt, "output": [1, 2, 3 + i]}) + "\n")
    logits = {}
    for name, options in {"calm": "", "pressed": "&kv_tokens=12000&concurrency=512&chunk=512"}.items():
        kernel = f"lab:f32?model={model}{options}"
        done = kcc("score", kernel, "--requests", file, "-o", tmp_path / name)
        assert done.code == 0, done.err
        logits[name] = tensors_of(tmp_path / name)["logits"]
    assert logits["calm"].shape[0] == 9
    assert np.array_equal(logits["calm"], logits["pressed"])
    lines = [json.loads(line) for line in (tmp_path / "pressed" / "requests.jsonl").read_text().splitlines()]
    assert sum(line.get("preemptions", 0) for line in lines) > 0


def test_traces_carry_the_requests_gold_and_calibration_is_judged(kcc, tmp_path):
    """Every label of the requests stands beside its token, so that clauses about calibration have a verdict."""
    file = tmp_path / "r.jsonl"
    lines = [json.loads(line) for line in (SHIPPED / "eval.jsonl").read_text().splitlines()][::20]
    assert all(line["gold"] == "output" for line in lines)
    lines[1]["gold"] = [-1] * len(lines[1]["output"])
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert kcc("score", "lab:f32", "--requests", file, "-o", tmp_path / "t", "--batch", 7).code == 0
    gold = tensors_of(tmp_path / "t", {"gold"})["gold"].tolist()
    expected = [label for line in lines for label in (line["output"] if line["gold"] == "output" else line["gold"])]
    assert gold == expected and -1 in gold

    contract = tmp_path / "c.yaml"
    contract.write_text(
        "apiVersion: kcc/v1\nkind: KernelContract\nmetadata: {name: calibration, version: 1.0.0}\n"
        "spec:\n  decision: {about: evaluation-set}\n  statistical:\n"
        "    - {id: S-1, metric: ece_gap, atMost: 0.5, level: L2}\n"
        "    - {id: S-2, metric: brier_gap, atMost: 0.5, level: L2}\n"
    )
    lines[1]["gold"] = "output"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    judged = kcc("run", contract, "--train", "lab:train", "--infer", "lab:int4", "--requests", file, "--json")
    assert judged.code == 0, judged.err
    for clause in judged.json["clauses"]:
        assert clause["slices"][0]["verdict"] == "satisfied"
        assert clause["slices"][0]["value"] > 0, "two kernels, so two calibrations"
    for line in lines:
        del line["gold"]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    unlabelled = kcc("run", contract, "--train", "lab:train", "--infer", "lab:int4", "--requests", file, "--json")
    assert unlabelled.code == 3, "without labels there is nothing to judge"
