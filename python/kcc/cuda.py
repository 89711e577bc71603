"""Drift between two tensors of logits, row by row, measured on the GPU that holds them.

    from kcc import cuda
    drift = cuda.measure(train_logits, infer_logits, tokens=ids, top_k=True)
    drift["kl"].mean()          # a float64 tensor on the device; nothing was synchronised before

For a summary and a verdict of the same tensors use `kcc.measure`. Works on the current stream of the
tensors' device, through their data pointers. Needs libkcc_cuda.so (docs/gpu.md): KCC_CUDA_LIBRARY names
it, else it is beside the package or in the checkout's build folders.
"""

from __future__ import annotations

import ctypes
import os
import pathlib
from ctypes import POINTER, Structure, c_char_p, c_double, c_int, c_int64, c_size_t, c_uint, c_void_p

from . import _arrays as arrays
from . import _library as c
from . import errors
from ._library import Array

ABI_VERSION = 1  # KCC_CUDA_ABI_VERSION
NAME = "libkcc_cuda.so"
_TOP_K, _REVERSE_CHI2, _ON_DEMAND = 1, 2, 4
_library = None


class Rows(Structure):
    """kcc_cuda_rows of include/kcc.h."""

    _fields_ = [
        ("struct_size", c_size_t),
        ("train", Array),
        ("infer", Array),
        ("rows", c_int64),
        ("vocab_size", c_int64),
        ("temperature", c_double),
        ("wanted", c_uint),
        ("tokens", c_void_p),
        ("values", c_void_p),
        ("argmax", c_void_p),
        ("status", c_void_p),
        ("workspace", c_void_p),
        ("workspace_bytes", c_size_t),
        ("stream", c_void_p),
    ]


def _candidates():
    if "KCC_CUDA_LIBRARY" in os.environ:
        return [pathlib.Path(os.environ["KCC_CUDA_LIBRARY"])]
    here = pathlib.Path(__file__).resolve().parent
    build = here.parent.parent / "build"
    return [here / NAME, build / "cuda" / NAME, build / "gpu" / NAME]


def find() -> str:
    """Where the library is; raises DeviceError with the places where it was looked for."""
    tried = _candidates()
    for path in tried:
        if path.exists():
            return str(path)
    raise errors.DeviceError(
        f"no {NAME}; looked for {', '.join(map(str, tried))}. Build it (docs/gpu.md) or set KCC_CUDA_LIBRARY"
    )


def load(path=None):
    """The library, from `path` or from where `find` finds it."""
    global _library
    if _library is not None and path is None:
        return _library
    path = find() if path is None else os.fspath(path)
    try:
        library = ctypes.CDLL(path)
        version = library.kcc_cuda_abi_version()
    except (OSError, AttributeError) as error:
        raise errors.DeviceError(f"{path}: {error}") from error
    if version != ABI_VERSION:
        raise errors.DeviceError(f"{path} has version {version} of the interface, and this package needs {ABI_VERSION}")
    library.kcc_cuda_value_name.restype = c_char_p
    library.kcc_cuda_workspace_bytes.restype = c_size_t
    library.kcc_cuda_workspace_bytes.argtypes = [POINTER(Rows)]
    library.kcc_cuda_measure.restype = c_char_p
    library.kcc_cuda_measure.argtypes = [POINTER(Rows)]
    _library = library
    return library


def use() -> None:
    """Lets kcc.measure and kcc.Monitor find the library; where it is not, DeviceError says what was tried."""
    found = [str(path) for path in _candidates() if path.exists()]
    if "KCC_CUDA_LIBRARY" in os.environ:
        found = [os.environ["KCC_CUDA_LIBRARY"]]
    try:
        c.call("kcc_device_load", b"cuda", c.path_bytes(found[0]) if found else None)
    except errors.FileError as error:
        raise errors.DeviceError(str(error)) from error


class Drift(dict):
    """Values by quantity, float64 tensors over the rows; `argmax` [2, rows] and `status` [rows]."""

    argmax = None
    status = None

    def check(self):
        """Raises on rows that could not be measured. Synchronises."""
        bad = int((self.status > 1).sum())
        if bad:
            row = int((self.status > 1).nonzero()[0])
            raise errors.EvidenceError(
                f"{bad} rows hold NaN, +inf, no finite logit or a token outside the vocabulary, or were "
                f"measured wrongly (status 6: a divergence below 0, or against Pinsker's inequality); "
                f"the first is row {row}, status {int(self.status[row])}"
            )
        return self


def measure(train, infer, tokens=None, temperature=1.0, vocab=None, top_k=False, reverse_chi2=False,
            on_demand=False):
    """Every full-logit quantity of each row pair of two [rows, vocab] tensors.

    `vocab`: entries at or beyond it are padding. `tokens`: int32, -1 for none.
    """
    import torch

    for name, side in (("train", train), ("infer", infer)):
        if not getattr(side, "is_cuda", False):
            where = getattr(side, "device", type(side).__name__)
            raise errors.DeviceError(f"{name} is on {where}; kcc.cuda measures CUDA tensors, kcc.measure any")
    if train.dim() != 2 or infer.dim() != 2 or train.shape[0] != infer.shape[0]:
        raise errors.ShapeError(f"logits must be two [rows, vocab] tensors, not {tuple(train.shape)} and "
                                f"{tuple(infer.shape)}")
    smaller = min(train.shape[1], infer.shape[1])
    vocab = smaller if vocab is None else vocab
    if vocab > smaller:
        raise errors.ShapeError(f"a vocabulary of {vocab} in rows of {smaller} entries")
    for side in (train, infer):
        if side.stride(1) != 1:
            raise errors.InvalidInput("the entries of a row must be contiguous")
        if side.shape[0] > 1 and side.stride(0) < vocab:
            raise errors.ShapeError("rows overlap; pass a contiguous copy")
    if train.device != infer.device:
        raise errors.DeviceError(f"train is on {train.device} and infer on {infer.device}")
    if tokens is not None and tokens.numel() != train.shape[0]:
        raise errors.ShapeError(f"{tokens.numel()} tokens for {train.shape[0]} rows")
    dtypes = [arrays.torch_dtype(side) for side in (train, infer)]
    if not all(dtype in arrays.LOGITS for dtype in dtypes):
        raise errors.DTypeError(f"logits hold {train.dtype} and {infer.dtype}; they can hold {arrays.words(arrays.LOGITS)}")
    library = load()
    rows = train.shape[0]
    call = Rows(
        struct_size=ctypes.sizeof(Rows),
        train=Array(train.data_ptr(), dtypes[0], train.stride(0) if rows > 1 else train.shape[1]),
        infer=Array(infer.data_ptr(), dtypes[1], infer.stride(0) if rows > 1 else infer.shape[1]),
        rows=rows,
        vocab_size=vocab,
        temperature=temperature,
        wanted=_TOP_K * top_k | _REVERSE_CHI2 * reverse_chi2 | _ON_DEMAND * on_demand,
    )
    new = dict(device=train.device)
    with torch.cuda.device(train.device):
        stream = torch.cuda.current_stream()
        values = torch.empty((library.kcc_cuda_values(), rows), dtype=torch.float64, **new)
        argmax = torch.empty((2, rows), dtype=torch.int32, **new)
        status = torch.empty(rows, dtype=torch.int32, **new)
        room = library.kcc_cuda_workspace_bytes(ctypes.byref(call))
        workspace = torch.empty(max(room, 1), dtype=torch.uint8, **new)
        if tokens is not None:
            tokens = tokens.to(device=train.device, dtype=torch.int32).contiguous()
            call.tokens = tokens.data_ptr()
        call.values, call.argmax, call.status = values.data_ptr(), argmax.data_ptr(), status.data_ptr()
        call.workspace, call.workspace_bytes = workspace.data_ptr(), room
        call.stream = stream.cuda_stream
        problem = library.kcc_cuda_measure(ctypes.byref(call))
        # The caching allocator may hand the memory on only after this stream is through with it.
        for tensor in (train, infer, workspace):
            tensor.record_stream(stream)
    if problem is not None:
        raise errors.InternalError(f"kcc.cuda: {problem.decode()}")
    names = [library.kcc_cuda_value_name(i).decode() for i in range(values.shape[0])]
    drift = Drift(zip(names, values))
    drift.argmax, drift.status = argmax, status
    return drift


def measure_hidden(train_hidden, train_head, infer, infer_head=None, block=512, **options):
    """The drift where one side's logits were never written: `train_hidden` [rows, h] times
    `train_head` [vocab, h] transposed, against `infer` logits, or hidden states with `infer_head`.

    Logits exist for `block` rows at a time, in two buffers that every block reuses: never the whole
    [rows, vocab]. As fast as the matrix products, plus reading each block once.
    """
    import torch

    rows, vocab = train_hidden.shape[0], train_head.shape[0]
    made = [torch.empty((min(block, rows), vocab), dtype=train_hidden.dtype,
                        device=train_hidden.device) for _ in range(1 if infer_head is None else 2)]
    tokens = options.pop("tokens", None)
    parts = []
    for begin in range(0, rows, block):
        end = min(begin + block, rows)
        left = torch.matmul(train_hidden[begin:end], train_head.T, out=made[0][: end - begin])
        right = (infer[begin:end] if infer_head is None else
                 torch.matmul(infer[begin:end], infer_head.T, out=made[1][: end - begin]))
        part_tokens = None if tokens is None else tokens[begin:end]
        parts.append(measure(left, right, tokens=part_tokens, **options))
    drift = Drift((name, torch.cat([part[name] for part in parts])) for name in parts[0])
    drift.argmax = torch.cat([part.argmax for part in parts], dim=1)
    drift.status = torch.cat([part.status for part in parts])
    return drift
