"""Writes traces from NumPy arrays, by the format's page (docs/trace.md): what a trainer or an engine
needs to hand its logits to kcc. Nothing but NumPy is used.

    write_trace("traces/infer", {"kernelFingerprint": "vllm-0.18", "vocabSize": V}, requests,
                {"request": …, "position": …, "token": …, "logits": …})
"""

import json
import pathlib

import numpy as np

from kcc import temporary

DTYPES = {"float32": "F32", "float16": "F16", "int32": "I32", "uint16": "BF16", "uint8": "U8", "bool": "BOOL"}


def to_bf16(values):
    """Round-to-nearest-even to bfloat16 patterns, held in uint16."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def from_bf16(patterns):
    return (patterns.astype(np.uint32) << 16).view(np.float32)


def write_safetensors(path, tensors):
    """uint16 arrays are taken as BF16 patterns (to_bf16); the others are what they are."""
    header, offset = {}, 0
    for name, array in tensors.items():
        header[name] = {
            "dtype": DTYPES[array.dtype.name],
            "shape": list(array.shape),
            "data_offsets": [offset, offset + array.nbytes],
        }
        offset += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-(len(text) + 8) % 64)
    with open(path, "wb") as out:
        out.write(len(text).to_bytes(8, "little") + text)
        for array in tensors.values():
            out.write(np.ascontiguousarray(array).tobytes())


def write_trace(directory, info, requests, tensors):
    """Makes the directory, whole or not at all; `info` adds to trace.json's defaults below and must hold vocabSize.

    Format 1 has one temperature, that of sampling; `samplingTemperature` (0: greedy),
    `samplingAltered` (top-k, top-p, penalties) and `declares` are of format 2.
    """
    defaults = {
        "format": 2 if {"samplingTemperature", "samplingAltered", "declares"} & info.keys() else 1,
        "kernelFingerprint": "unnamed",
        "modelDigest": "",
        "evidence": "logits",
        "semantics": "raw",
        "path": "prefill",
        "temperature": 1.0,
        "mode": "scored",
        "sampledBy": "dataset",
    }
    with temporary.new_directory(directory) as folder:
        (folder / "trace.json").write_text(json.dumps(defaults | info))
        with open(folder / "requests.jsonl", "w") as out:
            for request in requests:
                out.write(json.dumps(request) + "\n")
        write_safetensors(folder / "tokens-00000.safetensors", tensors)
    return pathlib.Path(directory)
