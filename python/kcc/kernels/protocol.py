"""The exec protocol (docs/exec-protocol.md) for kernels in Python: a class with three methods is a
kernel, `serve` does the rest. Only NumPy is used, and only where tensors are written.

    class Mine:
        def hello(self): return {"fingerprint": …, "vocabSize": …, "evidence": "logits", "semantics": "raw"}
        def score(self, requests, file):         # append each request's rows, in order
            for request in requests: file.append(logits_of(request.tokens)[request.scored])
        def generate(self, requests, sampling):  # optional
            return [{"id": r.id, "tokens": …} for r in requests]

    serve(Mine())
"""

import dataclasses
import json
import os
import sys
import time

import numpy as np

PROTOCOL = 1
DTYPES = {"F32": np.dtype("<f4"), "F16": np.dtype("<f2"), "BF16": np.dtype("<u2")}


@dataclasses.dataclass
class Request:
    id: str
    tokens: list
    prompt_tokens: int = 0
    seed: int = 0  # of generate; below 2^53
    fields: dict = dataclasses.field(default_factory=dict)  # of generate: what the requests file says

    @property
    def scored(self):
        """The rows of a forward pass's logits that predict the scored tokens: position p is
        predicted at index p - 1."""
        return slice(self.prompt_tokens - 1, len(self.tokens) - 1)


class TokensFile:
    """A safetensors file of token evidence, written front to back: the small columns follow from the
    requests, logits are appended as they come and go to the file without a copy in between."""

    def __init__(self, path, requests, width, dtype="F32"):
        self.dtype, self.width = DTYPES[dtype], width
        self.audits, self.wants_points = [], False
        counts = [len(r.tokens) - r.prompt_tokens for r in requests]
        self.rows = sum(counts)
        columns = {
            "request": np.repeat(np.arange(len(requests), dtype="<i4"), counts),
            "position": np.concatenate([np.arange(r.prompt_tokens, len(r.tokens), dtype="<i4") for r in requests]),
            "token": np.concatenate([np.asarray(r.tokens[r.prompt_tokens :], dtype="<i4") for r in requests]),
        }
        header, offset = {}, 0
        for name, column in columns.items():
            header[name] = {"dtype": "I32", "shape": [self.rows], "data_offsets": [offset, offset + column.nbytes]}
            offset += column.nbytes
        size = self.rows * width * self.dtype.itemsize
        header["logits"] = {"dtype": dtype, "shape": [self.rows, width], "data_offsets": [offset, offset + size]}
        text = json.dumps(header).encode()
        text += b" " * (-(len(text) + 8 + offset) % 64)  # logits start at a cache line
        self.out = open(path, "wb", buffering=0)
        self.out.write(len(text).to_bytes(8, "little") + text)
        for column in columns.values():
            self.out.write(column.data)

    def audit(self, signature, points=()):
        """For a replay, once for each request and in their order: what stands for the request's intermediate
        tensors, and (name, digests) of audit points, with a digest for each position or one for all. Points are
        sent only where kcc asks for them (`wants_points`)."""
        row = {"replaySignature": signature}
        if self.wants_points and points:
            row["auditPoints"] = [{"point": name, "digests": list(digests)} for name, digests in points]
        self.audits.append(row)

    def append(self, logits):
        """An array [rows, width] of the dtype; BF16 as its bit patterns in uint16."""
        if logits.ndim != 2 or logits.shape[1] != self.width or logits.dtype != self.dtype:
            raise ValueError(f"logits are {logits.dtype}{list(logits.shape)}, not {self.dtype}[rows, {self.width}]")
        self.rows -= logits.shape[0]
        view = memoryview(np.ascontiguousarray(logits)).cast("B")
        while view:  # one write moves at most 2 GiB
            view = view[self.out.write(view) :]

    def close(self):
        self.out.close()
        if self.rows != 0:
            raise ValueError(f"{self.rows} rows of logits are missing")


def parse(request):
    return Request(request["id"], request["tokens"], request.get("promptTokens", len(request["tokens"])),
                   request.get("seed", 0), request.get("fields", {}))


def answer(kernel, hello, message):
    """The answer to one message; `hello` is the kernel's own."""
    if message["type"] == "hello":
        return {"type": "hello", "protocol": PROTOCOL, "generates": hasattr(kernel, "generate")} | hello
    if message["type"] == "bye":
        return {"type": "bye"}
    requests = [parse(request) for request in message["requests"]]
    reply = {"batch": message["batch"], "fingerprint": hello["fingerprint"]}
    started = time.perf_counter()
    if message["type"] == "generate":
        return reply | {"type": "generated", "requests": kernel.generate(requests, message["sampling"])}
    file = TokensFile(message["file"], requests, getattr(kernel, "width", hello["vocabSize"]), getattr(kernel, "dtype", "F32"))
    file.wants_points = message.get("audit", False)
    spent = kernel.score(requests, file)  # seconds in the engine itself, if the kernel counts them
    file.close()
    spent = time.perf_counter() - started if spent is None else spent
    reply |= {"type": "scored", "requests": [r.id for r in requests], "engineMs": 1000 * spent}
    return reply | {"audits": file.audits} if file.audits else reply


def serve(kernel):
    """Answers until kcc says bye or goes away. What libraries print goes to standard error."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    hello = None
    for line in sys.stdin:
        message = json.loads(line)
        try:
            hello = hello or kernel.hello()
            reply = answer(kernel, hello, message)
        except Exception as error:  # kcc says it, with the traceback that stands on standard error
            import traceback

            traceback.print_exc()
            sys.stderr.flush()
            reply = {"type": "error", "message": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(reply) + "\n")
        answers.flush()
        if message["type"] == "bye":
            return
