"""Quantises a GGUF file with llama.cpp's own quantiser, out of the library that the adapter runs.

    python -m kcc.model.quantize model.gguf model-q4_k_m.gguf Q4_K_M

The library comes with adapters/llamacpp (npm package @node-llama-cpp/linux-x64, release v0.5.0): it has
no program, so llama_model_quantize is called. The struct below is that release's, and its version
is in the library's name: another release is not found rather than called wrongly.
"""

import ctypes
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
LIBRARY = "adapters/llamacpp/node_modules/@node-llama-cpp/linux-x64/bins/linux-x64/libllama.v0.5.0.so"

FILE_TYPES = {
    "F32": 0, "F16": 1, "Q4_0": 2, "Q8_0": 7, "Q2_K": 10, "Q3_K_S": 11, "Q3_K_M": 12, "Q4_K_S": 14,
    "Q4_K_M": 15, "Q5_K_M": 17, "Q6_K": 18, "IQ4_NL": 25, "IQ4_XS": 30, "BF16": 32, "TQ2_0": 37,
}  # fmt: skip


class Parameters(ctypes.Structure):
    _fields_ = (
        [(name, ctypes.c_int32) for name in ("threads", "file_type", "output_type", "embedding_type")]
        + [
            (name, ctypes.c_bool)
            for name in ("requantize", "quantize_output", "only_copy", "pure", "keep_split", "dry_run")
        ]
        + [(name, ctypes.c_void_p) for name in ("imatrix", "kv_overrides", "tensor_overrides", "prune")]
        + [("buffer_max", ctypes.c_size_t)]
    )


def quantize(source, target, file_type, library=None):
    """Raises ValueError for an unknown type, RuntimeError where the engine refuses."""
    if file_type not in FILE_TYPES:
        raise ValueError(f"no file type {file_type!r}; there are {', '.join(FILE_TYPES)}")
    llama = ctypes.CDLL(str(library or ROOT / LIBRARY))
    silent = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)(lambda *_: None)
    llama.llama_log_set(silent, None)
    llama.llama_model_quantize_default_params.restype = Parameters
    parameters = llama.llama_model_quantize_default_params()
    parameters.threads = 1
    parameters.file_type = FILE_TYPES[file_type]
    llama.llama_model_quantize.restype = ctypes.c_uint32
    done = llama.llama_model_quantize(
        str(source).encode(), str(target).encode(), ctypes.byref(parameters)
    )
    if done != 0:
        raise RuntimeError(f"llama_model_quantize of {source} to {file_type} returned {done}")


if __name__ == "__main__":
    quantize(*sys.argv[1:4])
