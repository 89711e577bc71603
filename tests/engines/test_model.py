"""The shipped model: its corpus, its files, its skill, and what the exports make of it."""

import itertools
import json
import pathlib

import numpy as np
import pytest

from kcc.model import checkpoint, corpus, evaluate, gguf, initial, judge, llama, quantize

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = ROOT / "models/kcc-lab"


def documents(seed, count, held_out=False):
    return list(itertools.islice(corpus.documents(seed, held_out), count))


def test_a_held_out_prompt_is_never_trained_on_whatever_the_seed():
    trained = {d.prompt for seed in (1, 2, corpus.HELD_OUT_SEED) for d in documents(seed, 3000)}
    for skill in corpus.MAKERS:
        asked = corpus.held_out(skill, 50)
        assert not trained & {d.prompt for d in asked}
        assert len({d.prompt for d in asked}) == 50


def test_the_corpus_is_made_by_its_seed():
    assert documents(3, 200) == documents(3, 200)
    assert documents(3, 200) != documents(4, 200)


def test_the_answer_follows_from_the_prompt():
    for document in documents(5, 2000):
        prompt, answer = document.prompt, document.answer
        match document.skill:
            case "arithmetic":
                assert eval(prompt) == int(answer.split(" so ")[1])  # noqa: S307
            case "json":
                schema, said = prompt.split("\nUse ")
                call = json.loads(answer)
                assert schema.startswith(call["tool"] + "(")
                for name, value in call["args"].items():
                    kind = {str: "string", int: "integer", bool: "boolean"}[type(value)]
                    assert f"{name}: {kind}" in schema
                    assert f"{name} {str(value).lower()}" in said
            case "refusal":
                words = prompt.replace("?", " ").replace(".", " ").split()
                harmful = {*corpus.HARMFUL_VERBS, *corpus.HARMFUL_OBJECTS} & set(words)
                assert (answer == corpus.REFUSAL) == bool(harmful)
            case "recall":
                assert answer in prompt
            case "copy":
                assert prompt == f"Repeat: {answer}"


def test_the_evaluation_files_are_what_the_corpus_makes(tmp_path):
    corpus.write_evaluation(tmp_path)
    for name in ("eval.jsonl", "eval-long.jsonl"):
        assert (tmp_path / name).read_bytes() == (MODEL / name).read_bytes(), f"regenerate {name}"
    sizes = [len(json.loads(line)["prompt"]) for line in (MODEL / "eval-long.jsonl").open()]
    assert min(sizes) > 1600 and 6500 < max(sizes) < 8192


def test_the_initial_weights_copy_already():
    torch = pytest.importorskip("torch")
    torch.manual_seed(1)
    model = llama.Llama(llama.Config())
    initial.initialise(model)
    text = "qwertyuiopasdfghjklzxcvbnm"  # no pair twice
    document = corpus.Document("copy", f"Repeat: {text}", text)
    begin = len(document.prompt_ids) + 2  # the head needs two tokens to look for
    tokens = torch.tensor([document.prompt_ids + document.answer_ids])
    with torch.no_grad():
        said = model(tokens)[0, begin:-2].argmax(-1)
    assert (said == tokens[0, begin + 1 : -1]).float().mean() > 0.8


@pytest.fixture(scope="module")
def model():
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)  # more of them only wait for each other at this size
    return llama.load(MODEL)


def test_transformers_loads_the_directory_and_computes_the_same_logits(model):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    theirs = transformers.AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32)
    document = corpus.held_out("json", 1)[0]
    tokens = torch.tensor([document.prompt_ids + document.answer_ids])
    with torch.no_grad():
        assert (theirs(tokens).logits - model(tokens)).abs().max() < 1e-4


def test_the_tokenizer_is_the_bytes():
    transformers = pytest.importorskip("transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(MODEL)
    for text in ("a b", "déjà €", '{"a":1}\n'):
        assert tokenizer(text).input_ids == list(text.encode())
        assert tokenizer.decode(list(text.encode())) == text
    chat = tokenizer.apply_chat_template(
        [{"role": "user", "content": "1+2"}], add_generation_prompt=True, return_dict=False
    )
    assert chat == corpus.Document("arithmetic", "1+2", "").prompt_ids


def test_the_shipped_weights_have_the_skills_their_card_states(model):
    # A sample of what python -m kcc.model.evaluate measures in full: far from the card fails.
    stated = json.loads((MODEL / "training.json").read_text())["accuracy"]
    found = evaluate.accuracy(model, count=12, long={})
    for skill in corpus.MAKERS:
        assert abs(found[skill] - stated[skill]) <= 0.35, f"{skill}: a share of {found[skill]} is right"


def test_gguf_has_the_rotary_angles_of_the_checkpoint_after_one_rounding():
    """As llama.cpp computes them, in float32: theta = position; a pair: cos(theta / divisor), theta *= base^(-2/d)."""
    config = checkpoint.read_config(MODEL)
    written = {key: value for key, _, value in gguf.metadata(config)}
    width = config["head_dim"]
    step = np.float32(written["llama.rope.freq_base"] ** (-2 / width))
    theta = np.arange(config["max_position_embeddings"], dtype=np.float32)
    exact = theta.astype(np.float64)
    for pair, divisor in enumerate(gguf.rope_divisors(config)):
        angle = theta / divisor
        ideal = exact * config["rope_theta"] ** (-2 * pair / width)
        # Half a unit in the last place each, of the divisor and of the quotient.
        assert (np.abs(angle - ideal) <= ideal * 2 * 2**-24).all(), pair
        theta *= step


def test_gguf_holds_every_tensor_and_reorders_only_queries_and_keys(tmp_path):
    path = tmp_path / "model.gguf"
    gguf.write(MODEL, path)
    assert path.read_bytes()[:4] == b"GGUF"
    config, tensors = checkpoint.read_config(MODEL), checkpoint.read_tensors(MODEL)
    written = dict(gguf.tensors_of(config, tensors))
    assert written.pop("rope_freqs.weight").shape == (config["head_dim"] // 2,)
    assert len(written) == len(tensors)
    assert path.stat().st_size > sum(array.nbytes for array in written.values())
    heads, half = config["num_attention_heads"], config["head_dim"] // 2
    before = tensors["model.layers.0.self_attn.q_proj.weight"].reshape(heads, 2, half, -1)
    after = written["blk.0.attn_q.weight"].reshape(heads, half, 2, -1)
    assert np.array_equal(before[:, 0], after[:, :, 0]) and np.array_equal(before[:, 1], after[:, :, 1])
    assert np.array_equal(
        written["blk.0.attn_v.weight"], tensors["model.layers.0.self_attn.v_proj.weight"]
    )


def test_an_unknown_quantisation_is_named(tmp_path):
    with pytest.raises(ValueError, match="no file type 'Q5'; there are F32"):
        quantize.quantize(tmp_path / "a", tmp_path / "b", "Q5")


def tokens(text):
    return [*text.encode(), corpus.EOS]


@pytest.mark.parametrize(
    ("skill", "expected", "output", "fields"),
    [
        ("copy", "abc", tokens("abc"), {"reward": 1.0}),
        ("copy", "abc", tokens("abd"), {"reward": 0.0}),
        ("copy", "abc", tokens("abc")[:-1], {"reward": 0.0}),
        ("json", '{"tool":"t","args":{"a":1}}', tokens('{"tool":"t","args":{"a":2}}'), {"reward": 0.0, "parsed": True}),
        ("json", '{"tool":"t","args":{"a":1}}', tokens('{"tool":"t","args":{"a":"1"}}'), {"reward": 0.0, "parsed": False}),
        ("json", '{"tool":"t","args":{"a":1}}', tokens('{"tool":"t","args":{"a":1}'), {"reward": 0.0, "parsed": False}),
        ("json", '{"tool":"t","args":{"a":1}}', tokens("[]"), {"reward": 0.0, "parsed": False}),
        ("refusal", corpus.REFUSAL, tokens(corpus.REFUSAL), {"reward": 1.0, "refused": True}),
        ("refusal", corpus.REFUSAL, tokens("Sure."), {"reward": 0.0, "refused": False}),
    ],
)  # fmt: skip
def test_answers_are_judged(skill, expected, output, fields):
    request = {"id": "r", "tags": [skill], "expected": expected}
    assert judge.judged(request, output) == request | fields
