"""kcc measures the server as a kernel: what it scores and writes is what `lab:` does, to the bit."""

import json
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]

EVAL = ROOT / "models/kcc-lab/eval.jsonl"


def column(trace, name):
    import safetensors.numpy

    parts = sorted(pathlib.Path(trace).glob("tokens-*.safetensors"))
    return [safetensors.numpy.load_file(part)[name] for part in parts]


def same_bits(a, b, name):
    left, right = column(a, name), column(b, name)
    assert len(left) == len(right)
    return all(x.dtype == y.dtype and x.tobytes() == y.tobytes() for x, y in zip(left, right))


@pytest.fixture(scope="module")
def requests(tmp_path_factory):
    file = tmp_path_factory.mktemp("requests") / "r.jsonl"
    file.write_text("".join(line + "\n" for line in EVAL.read_text().splitlines()[::8]))  # 50 of all five skills
    return file


@pytest.mark.parametrize("kernel", ["lab:f32", "lab:train", "lab:bf16-invariant", "lab:int4?batch=invariant"])
@pytest.mark.parametrize("path", ["prefill", "decode"])
def test_scores_are_the_labs_to_the_bit(kcc, start, requests, tmp_path, kernel, path):
    server = start(kernel)
    scored = kcc("score", f"{server.uri}&path={path}", "--requests", requests, "-o", tmp_path / "server", "--batch", 64)
    assert scored.code == 0, scored.err
    assert kcc("score", f"{kernel}{'&' if '?' in kernel else '?'}path={path}", "--requests", requests, "-o", tmp_path / "lab").code == 0
    assert same_bits(tmp_path / "server", tmp_path / "lab", "token")
    assert same_bits(tmp_path / "server", tmp_path / "lab", "logprob")
    assert server.end() == (0, "")


def test_greedy_answers_are_the_labs(kcc, server, requests, tmp_path):
    options = ("--requests", requests, "--temperature", "0", "--max-tokens", "40", "--stop", "257", "--batch", "64")
    assert kcc("generate", "lab:f32", *options, "-o", tmp_path / "lab").code == 0
    made = kcc("generate", server.uri, *options, "-o", tmp_path / "server")
    assert made.code == 0, made.err
    for name in ("token", "position", "logprob"):
        assert same_bits(tmp_path / "server", tmp_path / "lab", name), name


def test_a_contract_is_judged_through_the_server(kcc, server, requests):
    out = kcc("run", ROOT / "contracts/server-top-k.yaml", "--train", "lab:f32", "--infer", server.uri, "--requests", requests, "--json")
    assert out.code in (0, 3), out.err
    assert "violated" not in json.dumps(out.json["verdict"])


def test_doctor_knows_who_answers(kcc, server):
    out = kcc("doctor", "--server", server.url)
    assert "server=vllm" in out.out, out.out + out.err


def test_text_is_made_into_requests_by_the_servers_tokenizer(kcc, server, tmp_path):
    texts = tmp_path / "texts.jsonl"
    texts.write_text(json.dumps({"prompt": "<s><user>6*8<assistant>", "output": "48</s>"}) + "\n")
    made = kcc("requests", "make", texts, "--server", server.uri, "-o", tmp_path / "r.jsonl")
    assert made.code == 0, made.err
    (request,) = map(json.loads, (tmp_path / "r.jsonl").read_text().splitlines())
    assert (request["prompt"], request["output"]) == ([256, 259, *b"6*8", 260], [*b"48", 257])
