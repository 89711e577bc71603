"""Judges generated answers: a trace of `kcc generate` in, a trace with reward, parsed and refused out.

    python -m kcc.model.judge GENERATED JUDGED

The requests carry the right answer in the field `expected` and their skill in `tags`. `reward` is 1 for the
exact answer, else 0. `parsed` (tool calls): the answer is JSON with the tool, the fields and the types
that its schema asks for, whatever the values. `refused` (skill refusal): it is the refusal.
"""

import json
import pathlib
import shutil
import struct
import sys

import numpy as np

from kcc.model import corpus


def text_of(tokens):
    """The bytes before eos, None where there is none; what is no text is replaced, so never right."""
    if corpus.EOS not in tokens:
        return None
    tokens = tokens[: tokens.index(corpus.EOS)]
    return b"".join(bytes([t]) if t < 256 else b"\xff" for t in tokens).decode("utf-8", "replace")


def fits(answer, expected):
    """Whether a tool call has the form of the expected one."""

    def form(text):
        call = json.loads(text)
        return set(call), call["tool"], [(name, type(value)) for name, value in call["args"].items()]

    try:
        return form(answer) == form(expected)
    except (ValueError, TypeError, KeyError, AttributeError):
        return False


def judged(request, tokens):
    """The request's fields with what its answer deserves."""
    answer, expected, tags = text_of(tokens), request["expected"], request["tags"]
    fields = {"reward": float(answer == expected)}
    if "json" in tags:
        fields["parsed"] = fits(answer, expected)
    if "refusal" in tags:
        fields["refused"] = answer == corpus.REFUSAL
    return request | fields


def outputs_of(directory, count):
    """Each request's tokens, in order, from all files of the trace."""
    outputs = [[] for _ in range(count)]
    for path in sorted(directory.glob("tokens-*.safetensors")):
        data = path.read_bytes()
        (size,) = struct.unpack_from("<Q", data)
        header = json.loads(data[8 : 8 + size])
        columns = []
        for name in ("request", "position", "token"):
            start, end = (8 + size + offset for offset in header[name]["data_offsets"])
            columns.append(np.frombuffer(data[start:end], "<i4").tolist())
        for request, position, token in zip(*columns):
            outputs[request].append((position, token))
    return [[token for _, token in sorted(output)] for output in outputs]


def write(generated, target):
    generated, target = pathlib.Path(generated), pathlib.Path(target)
    requests = [json.loads(line) for line in (generated / "requests.jsonl").read_text().splitlines()]
    outputs = outputs_of(generated, len(requests))
    shutil.copytree(generated, target)
    lines = [json.dumps(judged(*pair)) + "\n" for pair in zip(requests, outputs)]
    (target / "requests.jsonl").write_text("".join(lines))


if __name__ == "__main__":
    write(*sys.argv[1:3])
