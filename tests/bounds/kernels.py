"""Pairs of traces that a real kernel pair could have left: one hidden state, two arithmetics."""

import numpy as np

from kcc.trace import from_bf16, to_bf16, write_trace


def narrowed(values, bits):
    """Rounded to `bits` of mantissa: 8 is bf16, 4 is E4M3 (without its range)."""
    mantissa, exponent = np.frexp(values)
    return np.ldexp(np.round(mantissa * 2**bits) / 2**bits, exponent)


def write_pair(root, requests, kernel, seed=1, tokens=12, vocab=97, width=24, evidence="logits", sampled_by="infer"):
    """Traces of `requests` (a range of numbers) under float32 and under `kernel`: a function of a matrix.

    The same request has the same hidden states in every call, whatever the range.
    """
    rng = np.random.default_rng(seed)
    head = rng.normal(0, 1, (vocab, width)) / np.sqrt(width)
    lines, train, infer, columns = [], [], [], {"request": [], "position": [], "token": []}
    for row, number in enumerate(requests):
        own = np.random.default_rng([seed, number])
        # Requests differ in how large their activations are, as prompts do.
        hidden = own.normal(0, 1, (tokens, width)) * own.lognormal(1.2, 0.3)
        exact = hidden @ head.T
        other = kernel(hidden) @ kernel(head).T
        train.append(exact)
        infer.append(other)
        gumbel = own.gumbel(size=exact.shape)
        columns["request"] += [row] * tokens
        columns["position"] += range(5, 5 + tokens)
        columns["token"] += list(np.argmax(other + gumbel, axis=1))
        lines.append({"id": f"r{number:05d}", "prompt_tokens": 5, "output_tokens": tokens})
    columns = {name: np.array(values, np.int32) for name, values in columns.items()}
    paths = []
    for side, logits in (("train", np.concatenate(train)), ("infer", np.concatenate(infer))):
        tensors = columns | tensors_of(logits, columns["token"], evidence)
        info = {"vocabSize": vocab, "evidence": evidence, "sampledBy": sampled_by, "kernelFingerprint": side}
        write_trace(root / side, info, lines, tensors)
        paths.append(root / side)
    return f"{paths[0]}:{paths[1]}"


def tensors_of(logits, tokens, evidence):
    if evidence == "logits":
        return {"logits": logits.astype(np.float32)}
    logprobs = logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)
    own = np.take_along_axis(logprobs, tokens[:, None].astype(np.int64), 1)[:, 0].astype(np.float32)
    if evidence == "sampled-token":
        return {"logprob": own}
    ids = np.argsort(-logprobs, axis=1, kind="stable")[:, :20].astype(np.int32)
    top = np.take_along_axis(logprobs, ids.astype(np.int64), 1).astype(np.float32)
    return {"top_ids": ids, "top_logprobs": top, "logprob": own}


def bf16(values):
    return from_bf16(to_bf16(np.asarray(values, np.float32))).astype(np.float64)


def fp8(values):
    return narrowed(values, 4)
