"""Reads and writes the tensors of a checkpoint in the Hugging Face layout, with NumPy only."""

import json
import pathlib
import struct

import numpy as np

from kcc import trace


def read_config(directory):
    return json.loads((pathlib.Path(directory) / "config.json").read_text())


def read_tensors(directory):
    """BF16 and F32 tensors of model.safetensors as float32 arrays, by name."""
    path = pathlib.Path(directory) / "model.safetensors"
    data = path.read_bytes()
    (size,) = struct.unpack_from("<Q", data)
    tensors = {}
    for name, entry in json.loads(data[8 : 8 + size]).items():
        if name == "__metadata__":
            continue
        start, end = (8 + size + offset for offset in entry["data_offsets"])
        if entry["dtype"] == "BF16":
            flat = trace.from_bf16(np.frombuffer(data[start:end], "<u2"))
        elif entry["dtype"] == "F32":
            flat = np.frombuffer(data[start:end], "<f4")
        else:
            raise ValueError(f"{path}: tensor {name} is {entry['dtype']}; BF16 and F32 can be read")
        tensors[name] = flat.reshape(entry["shape"])
    return tensors


def write(directory, config, tensors):
    """float32 arrays are rounded to BF16, to nearest even."""
    directory = pathlib.Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.json").write_text(json.dumps(dict(sorted(config.items())), indent=2) + "\n")
    patterns = {name: trace.to_bf16(tensors[name]) for name in sorted(tensors)}
    trace.write_safetensors(directory / "model.safetensors", patterns)
