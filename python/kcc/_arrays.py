"""Views of the caller's arrays: NumPy, PyTorch, and whatever speaks DLPack. Nothing is copied,
except half-precision log-probs (widened) and arrays whose elements are not adjacent. Logits may lie on
a CUDA device, in PyTorch's tensors or in whatever has a `__cuda_array_interface__`, and stay there."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from . import errors
from ._library import Array

F32, F64, F16, BF16, F8_E4M3, F8_E5M2, U8, I32, I64 = range(9)
_NUMPY = {"float32": F32, "float64": F64, "float16": F16, "uint8": U8, "bool": U8, "int32": I32, "int64": I64}
_TORCH = {
    "torch.float32": F32,
    "torch.float64": F64,
    "torch.float16": F16,
    "torch.bfloat16": BF16,
    "torch.float8_e4m3fn": F8_E4M3,
    "torch.float8_e5m2": F8_E5M2,
    "torch.uint8": U8,
    "torch.bool": U8,
    "torch.int32": I32,
    "torch.int64": I64,
}
LOGPROBS = (F32, F64)
LOGITS = (F32, F16, BF16, F8_E4M3, F8_E5M2)
MASKS = (U8, I32, I64, F32, F64)
_SMALL = ("int8", "int16", "uint16", "uint32", "uint64")  # integers that masks come in now and then
_WORDS = {F32: "float32", F64: "float64", F16: "float16", BF16: "bfloat16", F8_E4M3: "float8_e4m3fn",
          F8_E5M2: "float8_e5m2", U8: "uint8 or bool", I32: "int32", I64: "int64"}


def words(allowed: tuple) -> str:
    return ", ".join(_WORDS[each] for each in allowed)


class Place(NamedTuple):
    """Where on a device an array lies, and the stream that work on it is ordered by."""

    index: int  # -1: the current device
    stream: int


class View:
    """Pointer, dtype, shape and strides (in elements) of an array that `owner` keeps alive. `place` is
    None in the host's memory."""

    def __init__(self, pointer: int, dtype: int, shape: tuple, strides: tuple, owner: Any, place: Place | None = None):
        self.pointer = pointer
        self.dtype = dtype
        self.shape = tuple(shape)
        self.strides = tuple(strides)
        self.owner = owner
        self.place = place

    def array(self, row_stride: int = 0) -> Array:
        return Array(self.pointer, self.dtype, row_stride)


NONE = Array(None, F32, 0)


def _is_torch(value: Any) -> bool:
    return type(value).__module__.split(".")[0] == "torch" and hasattr(value, "data_ptr")


def _readable(shape: tuple, strides: tuple) -> bool:
    """Elements of the last axis are adjacent, and no element stands for several (expand)."""
    if shape and shape[-1] > 1 and strides[-1] != 1:
        return False
    return not any(size > 1 and step <= 0 for size, step in zip(shape, strides))


_seen: dict[Any, int] = {}  # torch's dtypes by object: a step's few microseconds are spent on other things than names


def torch_dtype(value: Any) -> int | None:
    code = _seen.get(value.dtype)
    if code is None and (code := _TORCH.get(str(value.dtype))) is not None:
        _seen[value.dtype] = code
    return code


def is_cuda(value: Any) -> bool:
    return _is_torch(value) and value.is_cuda


def to_host(value: Any) -> Any:
    """A copy in the host's memory of a CUDA tensor, anything else as it is. For what is small: a few
    bytes a token. Waits for the tensor's stream."""
    return value.detach().cpu() if is_cuda(value) else value


def _from_torch(value: Any, name: str, on_device: bool = False) -> View:
    if not value.is_cpu and not (on_device and value.is_cuda):
        raise errors.DeviceError(f"{name} is on {value.device}; pass {name}.cpu()")
    if value.is_nested:
        raise errors.ShapeError(f"{name} is a nested tensor; pass its values and offsets")
    if str(value.layout) != "torch.strided":
        raise errors.DTypeError(f"{name} is a tensor of layout {value.layout}; pass {name}.to_dense()")
    dtype = torch_dtype(value)
    if dtype is None:
        raise errors.DTypeError(f"{name}: dtype {value.dtype} is not supported")
    if value.requires_grad:
        value = value.detach()
    if value.is_neg():
        value = value.resolve_neg()
    shape, strides = value.shape, value.stride()
    if not _readable(shape, strides):
        value = value.contiguous()
        strides = value.stride()
    place = None
    if value.is_cuda:
        import torch

        place = Place(value.device.index, torch.cuda.current_stream(value.device).cuda_stream)
    return View(value.data_ptr(), dtype, shape, strides, value, place)


def _from_cuda_interface(value: Any, name: str) -> View:
    """CuPy, Numba and others (numba.readthedocs.io, CUDA Array Interface, version 3)."""
    try:
        said = dict(value.__cuda_array_interface__)
        pointer, shape, form = int(said["data"][0]), tuple(map(int, said["shape"])), np.dtype(said["typestr"])
        steps = said.get("strides")
        stream = said.get("stream")
    except Exception as error:  # whatever the object raises, or leaves out
        raise errors.DTypeError(f"{name} is a {type(value).__name__} that does not say what it holds: {error}") from error
    dtype = _NUMPY.get(form.name) if form.isnative else None
    if dtype is None:
        raise errors.DTypeError(f"{name}: dtype {form} is not supported")
    adjacent = [form.itemsize * int(np.prod(shape[axis + 1 :], dtype=np.int64)) for axis in range(len(shape))]
    steps = adjacent if steps is None else [int(step) for step in steps]
    strides = [step // form.itemsize for step in steps]
    if any(step % form.itemsize for step in steps) or not _readable(shape, strides):
        raise errors.ShapeError(f"{name}: the entries of a row must be adjacent")
    return View(pointer, dtype, shape, strides, value, Place(-1, 0 if stream is None else int(stream)))


def _from_numpy(value: np.ndarray, name: str) -> View:
    if not value.dtype.isnative:
        value = value.astype(value.dtype.newbyteorder("="))
    dtype = _NUMPY.get(value.dtype.name)
    if dtype is None:
        raise errors.DTypeError(f"{name}: dtype {value.dtype} is not supported")
    size = value.itemsize
    if any(step % size for step in value.strides) or not _readable(value.shape, [step // size for step in value.strides]):
        value = np.ascontiguousarray(value)
    return View(value.ctypes.data, dtype, value.shape, [step // size for step in value.strides], value)


def from_lists(value: Any, name: str) -> Any:
    """Lists of numbers as an array; anything else as it is."""
    if not isinstance(value, (list, tuple)):
        return value
    try:
        return np.asarray(value)
    except ValueError as error:
        raise errors.ShapeError(f"{name}: rows of unequal length; pad them or pass offsets") from error
    except Exception as error:  # whatever an element raises
        raise errors.DTypeError(f"{name} is a list that NumPy does not read: {error}") from error


def dimensions(value: Any, name: str) -> int:
    try:
        return len(value.shape)
    except (AttributeError, TypeError) as error:
        raise errors.DTypeError(f"{name} is a {type(value).__name__}; pass a NumPy array or a PyTorch tensor") from error


def view(value: Any, name: str, allowed: tuple = tuple(_WORDS), ndim: tuple = (1, 2), on_device: bool = False) -> View:
    """The array as the library reads it; `name` stands in errors. `on_device`: it may lie on a CUDA device."""
    if isinstance(value, View):
        result = value
    elif allowed is MASKS and str(getattr(value, "dtype", "")).removeprefix("torch.") in _SMALL:
        result = view(value != 0, name, allowed, ndim)
    elif _is_torch(value):
        result = _from_torch(value, name, on_device)
    elif isinstance(value, np.ndarray):
        result = _from_numpy(value, name)
    elif on_device and hasattr(value, "__cuda_array_interface__"):
        result = _from_cuda_interface(value, name)
    elif hasattr(value, "__dlpack_device__"):
        try:
            device = int(value.__dlpack_device__()[0])
        except Exception as error:  # whatever the exporter raises
            raise errors.DTypeError(f"{name} is a {type(value).__name__} that does not say where it is: {error}") from error
        if device != 1:  # kDLCPU
            raise errors.DeviceError(f"{name} is on a device of DLPack type {device}; move it to the CPU")
        try:
            array = np.from_dlpack(value)
        except Exception as error:  # whatever the exporter raises
            raise errors.DTypeError(f"{name} is a {type(value).__name__} that DLPack does not read: {error}") from error
        result = _from_numpy(array, name)
    elif isinstance(value, (list, tuple)):
        array = from_lists(value, name)
        integers = array.dtype.kind in "iu" and allowed is LOGPROBS  # [1, 0] are numbers like [1.0, 0.0]
        result = _from_numpy(array.astype(np.float64) if integers else array, name)
    else:
        raise errors.DTypeError(f"{name} is a {type(value).__name__}; pass a NumPy array or a PyTorch tensor")
    if result.dtype in (F16, BF16) and F32 in allowed and result.dtype not in allowed:
        result = _widen(result)
    if result.dtype not in allowed:
        raise errors.DTypeError(f"{name} holds {_WORDS[result.dtype]}; it must hold {words(allowed)}")
    if len(result.shape) not in ndim:
        wanted = " or ".join(str(each) for each in ndim)
        raise errors.ShapeError(f"{name} has {len(result.shape)} dimensions; it must have {wanted}")
    return result


def _widen(half: View) -> View:
    owner = half.owner
    if _is_torch(owner):
        return _from_torch(owner.float(), "array")
    return _from_numpy(owner.astype(np.float32), "array")


def same_shape(first: View, first_name: str, second: View, second_name: str) -> None:
    if first.shape != second.shape:
        raise errors.ShapeError(f"{second_name} has shape {second.shape}, {first_name} has {first.shape}")


def column(value: Any, name: str, dtype: type, size: int | None = None) -> np.ndarray:
    """A small helper array, converted where needed; of any size without one."""
    value = to_host(value)
    if _is_torch(value):
        if value.device.type != "cpu":
            raise errors.DeviceError(f"{name} is on {value.device}; pass {name}.cpu()")
        try:
            value = value.detach().numpy()
        except Exception as error:  # sparse, or of a type that NumPy lacks
            raise errors.DTypeError(f"{name}: a tensor that NumPy does not read: {error}") from error
    try:
        array = np.asarray(from_lists(value, name))
    except errors.Error:
        raise
    except Exception as error:  # whatever the object raises
        raise errors.DTypeError(f"{name} is a {type(value).__name__} that NumPy does not read: {error}") from error
    if array.size == 0:
        array = array.astype(dtype)  # [] is of float64
    if array.dtype.kind not in "biuf":
        raise errors.DTypeError(f"{name}: dtype {array.dtype} is not a number")
    if array.dtype.kind == "f" and np.dtype(dtype).kind != "f":
        raise errors.DTypeError(f"{name}: dtype {array.dtype} must be of integers")
    array = np.ascontiguousarray(array.reshape(-1))
    if size is not None and array.size != size:
        raise errors.ShapeError(f"{name} has {array.size} elements; {size} are needed")
    if array.dtype.kind in "iu" and np.dtype(dtype).kind in "iu" and array.size:
        info = np.iinfo(dtype)
        if int(array.min()) < info.min or int(array.max()) > info.max:
            raise errors.InvalidInput(f"{name}: a number does not fit {np.dtype(dtype).name}")
    return np.ascontiguousarray(array, dtype=dtype)
