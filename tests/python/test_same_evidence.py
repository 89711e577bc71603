"""The same evidence from files, from arrays and as lists: the same verdict, or a stated weaker one."""

import numpy as np
import pytest

import kcc
from kcc.trace import write_trace

REQUESTS, TOKENS, PROMPT, VOCAB = 6, 5, 3, 7
WEAKER = {"inconclusive"}

CONTRACT = """
apiVersion: kcc/v1
kind: KernelContract
metadata: {name: same, version: 1.0.0}
spec:
  assumptions: {temperature: TAU, tokensMax: 8}
  slices:
    - {name: safety, where: "'safety' in tags"}
    - {name: late, where: token.position >= 5}
    - {name: slow, where: latency_ms >= 120}
  numerical:
    - {id: N-1, metric: mean_kl, atMost: 0.05, slices: [all, safety, late, slow], level: L2}
    - {id: N-2, metric: p90_abs_log_ratio, atMost: 0.2, slices: [all, late, slow], level: L2}
    - {id: N-3, metric: mean_tv, atMost: 0.05, exceedance: 20%, window: request, slices: [all, safety], level: L2}
    - {id: N-4, metric: max_k3, atMost: 0.5, exceedance: 40%, window: 2 requests, level: L2}
    - {id: N-5, metric: mean_top5_overlap, atLeast: 0.9, slices: [all, slow], level: L2}
    - {id: N-6, metric: p95_latency_ms, atMost: 125, slices: [all, safety], level: L2}
"""


def make(noise, seed):
    rng = np.random.default_rng(seed)
    train = rng.normal(0, 2, (REQUESTS * TOKENS, VOCAB)).astype(np.float32)
    # The last requests are the bad ones.
    scale = noise * np.repeat(np.arange(REQUESTS) >= REQUESTS - 2, TOKENS)[:, None] + 1e-3
    infer = (train + scale * rng.normal(0, 1, train.shape)).astype(np.float32)
    requests = [
        {"id": f"r{i}", "prompt_tokens": PROMPT, "output_tokens": TOKENS, "ordinal": i, "latency_ms": 100 + 8 * i,
         "tags": ["safety"] if i % 2 else ["code"]}
        for i in range(REQUESTS)
    ]
    columns = {
        "request": np.repeat(np.arange(REQUESTS, dtype=np.int32), TOKENS),
        "position": np.tile(np.arange(PROMPT, PROMPT + TOKENS, dtype=np.int32), REQUESTS),
        "token": rng.integers(0, VOCAB, len(train)).astype(np.int32),
    }
    return train, infer, requests, columns


def logprobs(logits, tau):
    scaled = logits.astype(np.float64) / tau
    scaled -= scaled.max(1, keepdims=True)
    return scaled - np.log(np.exp(scaled).sum(1, keepdims=True))


def write_form(root, form, tau, train, infer, requests, columns, k=3):
    semantics = "raw" if form == "logits" or tau == 1 else "temperature-scaled"
    info = {"vocabSize": VOCAB, "evidence": form, "semantics": semantics, "temperature": tau}
    for side, logits in (("train", train), ("infer", infer)):
        tensors = dict(columns)
        values = logprobs(logits, tau)
        if form == "logits":
            tensors["logits"] = logits
        else:
            tensors["logprob"] = values[np.arange(len(values)), columns["token"]].astype(np.float32)
        if form == "top-k":
            order = np.argsort(-values, axis=1, kind="stable")[:, :k]
            tensors["top_ids"] = order.astype(np.int32)
            tensors["top_logprobs"] = np.take_along_axis(values, order, 1).astype(np.float32)
        write_trace(root / side, info | {"kernelFingerprint": side}, requests, tensors)
    return root / "train", root / "infer"


def top_k(logits, tau, columns, k=3):
    values = logprobs(logits, tau)
    order = np.argsort(-values, axis=1, kind="stable")[:, :k]
    listed = np.take_along_axis(values, order, 1).astype(np.float32)
    return kcc.TopK(order, listed, values[np.arange(len(values)), columns["token"]].astype(np.float32))


def verdicts(contract, summary):
    return {
        (clause["id"], at["slice"]): at["verdict"]
        for clause in kcc.judge(contract, summary).clauses
        for at in clause["slices"]
    }


@pytest.mark.parametrize("tau", [1, 0.7])
@pytest.mark.parametrize(("noise", "seed"), [(0.02, 1), (0.5, 2), (3.0, 3)])
def test_every_form_gives_the_same_verdict_or_a_weaker_one(tmp_path, tau, noise, seed):
    contract = kcc.Contract(CONTRACT.replace("TAU", str(tau)))
    train, infer, requests, columns = make(noise, seed)
    tokens = columns["token"]
    shape = (REQUESTS, TOKENS)

    files = write_form(tmp_path / "logits", "logits", tau, train, infer, requests, columns)
    expected = verdicts(contract, kcc.measure_traces(*files, contract))
    assert {"satisfied", "violated"} <= set(expected.values()) or noise == 0.02

    # Arrays count positions from 0; what a slice of positions selects is then another thing.
    of_arrays = lambda found: {key: value for key, value in found.items() if key[1] != "late"}
    given = dict(tokens=tokens, requests=requests, temperature=tau, sampled_by="dataset")
    arrays = kcc.measure(train.reshape(*shape, VOCAB), infer.reshape(*shape, VOCAB), contract, **given)
    packed = kcc.measure(train, infer, contract, logits=True, lengths=[TOKENS] * REQUESTS, **given)
    for summary in (arrays, packed):
        assert of_arrays(verdicts(contract, summary)) == of_arrays(expected)

    for form in ("top-k", "sampled-token"):
        lists = write_form(tmp_path / form, form, tau, train, infer, requests, columns)
        found = verdicts(contract, kcc.measure_traces(*lists, contract))
        for key, verdict in found.items():
            assert verdict in {expected[key]} | WEAKER, (form, key)

    # Logits on one side, lists on the other: never weaker than lists on both.
    lists = verdicts(contract, kcc.measure_traces(*(tmp_path / "top-k" / side for side in ("train", "infer")), contract))
    for full, listed in (("train", "infer"), ("infer", "train")):
        sides = {full: tmp_path / "logits" / full, listed: tmp_path / "top-k" / listed}
        mixed = verdicts(contract, kcc.measure_traces(sides["train"], sides["infer"], contract))
        for key, verdict in mixed.items():
            assert verdict in {expected[key]} | WEAKER, (full, key)
            assert lists[key] in {verdict} | WEAKER, (full, key)
        values = {"train": train, "infer": infer}
        values[listed] = top_k(values[listed], tau, columns)
        arrays = kcc.measure(values["train"], values["infer"], contract, lengths=[TOKENS] * REQUESTS, **given)
        assert of_arrays(verdicts(contract, arrays)) == of_arrays(mixed), full
    both = [top_k(side, tau, columns) for side in (train, infer)]
    arrays = kcc.measure(*both, contract, lengths=[TOKENS] * REQUESTS, vocab_size=VOCAB, **given)
    assert of_arrays(verdicts(contract, arrays)) == of_arrays(lists)

    at = np.arange(len(tokens))
    sampled = [logprobs(side, tau)[at, tokens].astype(np.float32).reshape(shape) for side in (train, infer)]
    given["tokens"] = tokens.reshape(shape)
    assert of_arrays(verdicts(contract, kcc.measure(*sampled, contract, **given))) == of_arrays(found)


def test_arrays_that_lack_rows_the_request_claims_are_not_satisfied():
    train, infer, requests, columns = make(0, 4)
    contract = kcc.Contract(CONTRACT.replace("TAU", "1"))
    keep = columns["request"] != REQUESTS - 1
    keep[-1] = True  # one row is left of the last request
    lengths = [TOKENS] * (REQUESTS - 1) + [1]
    summary = kcc.measure(train[keep], infer[keep], contract, logits=True, lengths=lengths, tokens=columns["token"][keep],
                          requests=requests, sampled_by="dataset")
    found = verdicts(contract, summary)
    assert found["N-1", "all"] == "inconclusive"
    del requests[-1]["output_tokens"]
    summary = kcc.measure(train[keep], infer[keep], contract, logits=True, lengths=lengths, tokens=columns["token"][keep],
                          requests=requests, sampled_by="dataset")
    assert verdicts(contract, summary)["N-1", "all"] == "satisfied"


def lists_of(rows, width=2, vocab=5):
    ids = np.tile(np.arange(width, dtype=np.int64), (rows, 1))
    return kcc.TopK(ids, np.full((rows, width), np.log(1 / vocab), np.float32))


def test_lists_are_taken_in_every_form_that_arrays_come_in():
    logits = np.zeros((2, 3, 5), np.float32)
    listed = lists_of(6)
    flat = kcc.measure(logits.reshape(6, 5), listed, lengths=[3, 3])
    batch = kcc.measure(logits, kcc.TopK(listed.ids.reshape(2, 3, 2), listed.logprobs.reshape(2, 3, 2)))
    assert flat.to_bytes() == batch.to_bytes()
    plain = kcc.TopK(listed.ids.tolist(), listed.logprobs.tolist())
    assert kcc.measure(logits.reshape(6, 5), plain, lengths=[3, 3]).to_bytes() == flat.to_bytes()
    short = kcc.TopK(np.where(listed.ids == 1, -1, listed.ids), listed.logprobs)
    assert kcc.measure(logits.reshape(6, 5), short, lengths=[3, 3]).tokens == 6


@pytest.mark.parametrize(("train", "infer", "options", "message"), [
    (lists_of(4), lists_of(4), {}, "pass vocab_size"),
    (np.zeros((4, 5), np.float32), lists_of(3), {}, r"infer has rows \(3,\), train has \(4,\)"),
    (np.zeros((4, 5), np.float32), lists_of(4), {"vocab_size": 6}, "vocab_size is 6, the logits have 5"),
    (np.zeros((4, 5), np.float32), lists_of(4), {"logits": False}, "lists face logits or other lists"),
    (np.zeros(4, np.float32), lists_of(4), {}, "train has 1 dimensions"),
    (np.zeros((4, 5), np.float32), kcc.TopK([[0, 1]] * 4, [[-1.0]] * 4), {}, "infer.logprobs has shape"),
    (np.zeros((4, 5), np.float32), kcc.TopK([[0, 7]] * 4, [[-1.0, -2.0]] * 4), {}, "outside the vocabulary of 5"),
    (np.zeros((4, 5), np.float32), kcc.TopK([[0, 1]] * 4, [[-2.0, -1.0]] * 4), {}, "not in descending order"),
    (np.zeros((4, 5), np.float32), kcc.TopK([[-1, -1]] * 4, [[0.0, 0.0]] * 4), {}, "list is empty"),
])  # fmt: skip
def test_lists_that_cannot_be_read_say_why(train, infer, options, message):
    with pytest.raises(kcc.Error, match=message):
        kcc.measure(train, infer, **options)
