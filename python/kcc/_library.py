"""libkcc through ctypes: the declarations of include/kcc.h, and errors as exceptions.

The library stands beside this file in an installed package. In a checkout it is the one that
`make build` left; KCC_LIBRARY names another.

Threads: ctypes lets other threads run during a call, and the library does not guard a handle that one
thread changes while another uses it. So `call` takes the locks of the handles that it is given.
"""

from __future__ import annotations

import ctypes
import itertools
import json
import math
import operator
import os
import pathlib
import threading
from collections.abc import Mapping
from ctypes import POINTER, Structure, byref, c_char_p, c_double, c_int, c_int32, c_int64, c_size_t, c_uint8, c_void_p
from typing import Any

from . import errors

ABI_VERSION = 6
NAME = "libkcc.so"


class Text(Structure):
    _fields_ = [("data", c_void_p), ("size", c_size_t)]


class Array(Structure):
    _fields_ = [("data", c_void_p), ("dtype", c_int), ("row_stride", c_int64)]


GREEDY = -1.0  # KCC_GREEDY, for Arrays.sampling_temperature


class Arrays(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("train_logits", Array),
        ("infer_logits", Array),
        ("train_logprobs", Array),
        ("infer_logprobs", Array),
        ("rows", c_int64),
        ("vocab_size", c_int64),
        ("temperature", c_double),
        ("requests_jsonl", c_char_p),
        ("requests_jsonl_size", c_size_t),
        ("requests", c_int64),
        ("first_rows", c_void_p),
        ("row_counts", c_void_p),
        ("positions", c_void_p),
        ("tokens", c_void_p),
        ("mask", c_void_p),
        ("advantages", c_void_p),
        ("train_fingerprint", c_char_p),
        ("infer_fingerprint", c_char_p),
        ("sampled_by", c_char_p),
        ("clauses_only", c_int),
        ("sampling_temperature", c_double),
        ("device", c_char_p),
        ("device_index", c_int),
        ("stream", c_void_p),
        ("train_top_ids", c_void_p),
        ("train_top_logprobs", c_void_p),
        ("train_top_k", c_int64),
        ("infer_top_ids", c_void_p),
        ("infer_top_logprobs", c_void_p),
        ("infer_top_k", c_int64),
    ]


class RlBatch(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("rows", c_int64),
        ("columns", c_int64),
        ("offsets", c_void_p),
        ("train", Array),
        ("rollout", Array),
        ("old_logprobs", Array),
        ("mask", Array),
        ("advantages", Array),
        ("advantage_per_row", c_int),
        ("slice_of_row", c_void_p),
        ("slice_names", POINTER(c_char_p)),
        ("slice_count", c_int32),
    ]


class Column(Structure):
    _fields_ = [("name", c_char_p), ("values", c_void_p), ("upper", c_void_p)]


class Observation(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("time_ms", c_int64),
        ("kernel", c_char_p),
        ("session", c_char_p),
        ("probe", c_int),
        ("audited", c_int),
        ("one_record", c_int),
        ("infer_request", c_char_p),
        ("train_request", c_char_p),
        ("asked_request", c_char_p),
        ("rows", c_int64),
        ("masked", c_int64),
        ("positions", c_void_p),
        ("tokens", c_void_p),
        ("gold", c_void_p),
        ("infer_argmax", c_void_p),
        ("train_argmax", c_void_p),
        ("advantages", c_void_p),
        ("columns", POINTER(Column)),
        ("column_count", c_int64),
    ]


_HANDLE = POINTER(c_void_p)
_TEXT = POINTER(Text)
_BATCH = POINTER(RlBatch)
# name -> argument types; all of these return a status.
_FUNCTIONS = {
    "kcc_contract_parse": [c_char_p, c_size_t, c_char_p, _HANDLE],
    "kcc_contract_read": [c_char_p, _HANDLE],
    "kcc_contract_json": [c_void_p, _TEXT],
    "kcc_contract_check": [c_char_p, c_size_t, c_char_p, _TEXT],
    "kcc_measure_traces": [c_char_p, c_char_p, c_void_p, c_int, _HANDLE],
    "kcc_measure_arrays": [POINTER(Arrays), c_void_p, c_int, _HANDLE],
    "kcc_measure_begin": [POINTER(Arrays), c_void_p, c_int, _HANDLE],
    "kcc_measure_finish": [c_void_p, _HANDLE],
    "kcc_measure_traces_on": [c_char_p, c_char_p, c_char_p, c_void_p, c_int, _HANDLE],
    "kcc_device_load": [c_char_p, c_char_p],
    "kcc_summary_backends": [c_void_p, _TEXT],
    "kcc_summary_merge": [c_void_p, c_void_p],
    "kcc_summary_encode": [c_void_p, _TEXT],
    "kcc_summary_decode": [c_char_p, c_size_t, _HANDLE],
    "kcc_summary_read": [c_char_p, _HANDLE],
    "kcc_summary_write": [c_void_p, c_char_p],
    "kcc_judge": [c_void_p, c_void_p, c_char_p, c_char_p, c_char_p, _TEXT],
    "kcc_rl_summary_new": [_HANDLE],
    "kcc_rl_summary_add": [c_void_p, _BATCH, c_int],
    "kcc_rl_summary_merge": [c_void_p, c_void_p],
    "kcc_rl_summary_encode": [c_void_p, _TEXT],
    "kcc_rl_summary_decode": [c_char_p, c_size_t, _HANDLE],
    "kcc_rl_summary_figures": [c_void_p, c_double, _TEXT],
    "kcc_rl_summary_judge": [c_void_p, c_char_p, c_double, _TEXT],
    "kcc_rl_correct": [_BATCH, c_char_p, c_int, c_void_p, c_void_p, _TEXT],
    "kcc_rl_step": [c_void_p, _BATCH, c_char_p, c_int, c_void_p, c_void_p, _TEXT],
    "kcc_rl_lint": [_BATCH, _TEXT],
    "kcc_rl_lint_correction": [_BATCH, c_char_p, c_int, _TEXT],
    "kcc_rl_replay": [_BATCH, c_int, c_char_p, _TEXT],
    "kcc_rl_dialect_run": [c_char_p, c_char_p, _BATCH, c_char_p, _HANDLE],
    "kcc_rl_dialect_metrics": [c_void_p, _TEXT],
    "kcc_rl_dump_read": [POINTER(c_char_p), c_size_t, c_char_p, _HANDLE],
    "kcc_rl_dump_batch": [c_void_p, _BATCH],
    "kcc_bound": [c_char_p, _TEXT],
    "kcc_measure_finish_tokens": [c_void_p, _HANDLE, _HANDLE],
    "kcc_tokens_observation": [c_void_p, c_int64, POINTER(Observation)],
    "kcc_monitor_new": [c_void_p, c_char_p, c_size_t, c_char_p, c_char_p, _HANDLE],
    "kcc_monitor_restore": [c_void_p, c_char_p, c_size_t, c_char_p, c_char_p, c_char_p, c_size_t, _HANDLE],
    "kcc_monitor_save": [c_void_p, _TEXT],
    "kcc_monitor_observe": [c_void_p, c_char_p, c_size_t, _TEXT],
    "kcc_monitor_observe_tokens": [c_void_p, POINTER(Observation), _TEXT],
    "kcc_monitor_should_audit": [c_void_p, c_char_p, c_char_p, c_char_p, c_int64, POINTER(c_int)],
    "kcc_monitor_status": [c_void_p, _TEXT],
    "kcc_rl_dialect_array": [c_void_p, c_char_p, _HANDLE, _HANDLE, POINTER(c_int64)],
}
_EXCEPTIONS = {
    2: errors.InvalidInput,
    4: errors.FileError,
    5: errors.EvidenceError,
    6: errors.InternalError,
}


def _candidates():
    if "KCC_LIBRARY" in os.environ:
        yield pathlib.Path(os.environ["KCC_LIBRARY"])
        return
    here = pathlib.Path(__file__).resolve().parent
    yield here / NAME
    yield here.parent.parent / "build" / "release" / "kcc" / "api" / NAME


def _load() -> ctypes.CDLL:
    tried = []
    for path in _candidates():
        if path.exists():
            library = ctypes.CDLL(str(path))
            break
        tried.append(str(path))
    else:
        raise ImportError(f"no {NAME}; looked for {', '.join(tried)}. Run `make build` or `pip install .`")
    library.kcc_abi_version.restype = c_int
    if library.kcc_abi_version() < ABI_VERSION:
        raise ImportError(
            f"{path} speaks version {library.kcc_abi_version()} of the C interface, this package needs {ABI_VERSION}"
        )
    library.kcc_error.restype = c_char_p
    library.kcc_version.restype = c_char_p
    library.kcc_text_free.argtypes = [_TEXT]
    library.kcc_text_free.restype = None
    for name, arguments in _FUNCTIONS.items():
        function = getattr(library, name)
        function.argtypes = arguments
        function.restype = c_int
    for name in ("kcc_summary_tokens", "kcc_summary_requests"):
        getattr(library, name).argtypes = [c_void_p]
        getattr(library, name).restype = c_int64
    for kind in ("contract", "measurement", "summary", "rl_summary", "rl_dialect", "rl_dump", "monitor", "tokens"):
        free = getattr(library, f"kcc_{kind}_free")
        free.argtypes = [c_void_p]
        free.restype = None
    return library


library = _load()


def call(name: str, *arguments) -> None:
    """Calls a function that returns a status; raises what went wrong. Handles are given as Owned."""
    locks = _locks(arguments)
    if not locks:
        _call(name, arguments)
    elif len(locks) == 1:
        with locks[0]:
            _call(name, arguments)
    else:
        with locks[0], locks[1]:
            _call(name, arguments)


def _locks(arguments: tuple) -> list:
    """Of the handles that calls can change, each once. In one order for all threads, so that two who
    need the same two never wait for each other; no function takes three."""
    shared = {each._serial: each._lock for each in arguments if isinstance(each, Owned) and each._lock is not None}
    return [shared[serial] for serial in sorted(shared)]


def _call(name: str, arguments: tuple) -> None:
    try:
        status = getattr(library, name)(*arguments)
    except ctypes.ArgumentError as error:
        raise errors.DTypeError(f"{name}: {error}") from error
    if status != 0:
        message = library.kcc_error().decode("utf-8", "replace")
        raise _EXCEPTIONS.get(status, errors.InternalError)(message)


def count(name: str, owned: Owned) -> int:
    """Calls a function that gives a number and cannot fail."""
    with owned._lock:
        return getattr(library, name)(owned)


def text(name: str, *arguments) -> bytes:
    """Calls a function whose last argument is a text it gives."""
    out = Text()
    call(name, *arguments, byref(out))
    try:
        return ctypes.string_at(out.data, out.size)
    finally:
        library.kcc_text_free(byref(out))


def handle(name: str, *arguments) -> c_void_p:
    """Calls a function whose last argument is a handle it makes."""
    out = c_void_p()
    call(name, *arguments, byref(out))
    return out


def utf8(value: str, name: str) -> bytes:
    """A text whose size is handed over with it."""
    if not isinstance(value, str):
        raise errors.DTypeError(f"{name} is a {type(value).__name__}; pass a text")
    try:
        return value.encode()
    except UnicodeEncodeError as error:
        raise errors.InvalidInput(f"{name}: {error}") from error


def encode(value: str | None, name: str = "text") -> bytes | None:
    """A text that ends with its zero byte."""
    if value is None:
        return None
    encoded = utf8(value, name)
    if b"\0" in encoded:
        raise errors.InvalidInput(f"{name} holds a zero byte, at which a text would end")
    return encoded


def path_bytes(path: str | bytes | os.PathLike, name: str = "path") -> bytes:
    try:
        encoded = os.fsencode(path)
    except TypeError as error:
        raise errors.DTypeError(f"{name} is a {type(path).__name__}; pass a text or a pathlib.Path") from error
    except UnicodeEncodeError as error:
        raise errors.InvalidInput(f"{name}: {error}") from error
    if b"\0" in encoded:
        raise errors.InvalidInput(f"{path!r}: a path holds no zero byte")
    return encoded


def data_bytes(data: bytes | bytearray | memoryview, name: str = "data") -> bytes:
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise errors.DTypeError(f"{name} is a {type(data).__name__}; pass bytes")
    return bytes(data)


def instance(value: Any, kind: type, name: str) -> Any:
    if not isinstance(value, kind):
        raise errors.DTypeError(f"{name} is a {type(value).__name__}; pass a kcc.{_public(kind)}")
    return value


def _public(kind: type) -> str:
    return f"rl.{kind.__name__}" if kind.__module__ == "kcc.rl" else kind.__name__


def row_list(value: Any, name: str, what: str) -> list:
    """A list, tuple, array … with `what` for every row, as a list."""
    if not isinstance(value, (str, bytes, Mapping)) and hasattr(value, "__len__"):
        try:
            return list(value)
        except Exception:  # whatever the object raises
            pass
    raise errors.DTypeError(f"{name} is a {type(value).__name__}; pass a list with {what} for every row")


def thread_count(threads: Any) -> int:
    try:
        return max(-1, min(operator.index(threads), 1024))
    except TypeError as error:
        raise errors.DTypeError(f"threads is a {type(threads).__name__}; pass an integer, 0 for all cores") from error


def integer(value: Any, name: str) -> int:
    """One that the library's 64 bits hold."""
    try:
        found = operator.index(value)
    except TypeError as error:
        raise errors.DTypeError(f"{name} is {value!r:.60}; pass an integer") from error
    if not -(2**63) <= found < 2**63:
        raise errors.InvalidInput(f"{name} is {value!r:.60}; it must fit 64 bits")
    return found


def real(value: Any, name: str) -> float:
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        raise errors.DTypeError(f"{name} is {value!r:.60}; pass a number") from error
    except OverflowError:
        return math.inf


def flag(value: Any, name: str) -> bool:
    if not (isinstance(value, (bool, int)) or getattr(value, "dtype", None) == "bool") or getattr(value, "shape", ()) != ():
        raise errors.DTypeError(f"{name} is a {type(value).__name__}; pass True or False")
    return bool(value)


_ENCODER = json.JSONEncoder(allow_nan=False)


def json_bytes(value: Any, name: str) -> bytes:
    try:
        return encode(_ENCODER.encode(value), name)
    except (TypeError, ValueError, RecursionError) as error:
        if isinstance(error, errors.Error):
            raise
        raise errors.InvalidInput(f"{name}: {error}") from error


_serials = itertools.count()


class Owned:
    """A handle that is freed with its object. `kind` names the free function.

    Where the library has functions that change such a handle, `changes` says so, and the object has a
    lock. It may be taken again by the thread that holds it: a destructor that Python happens to run
    between two lines may use the handle, too.
    """

    kind = ""
    changes = False
    _lock: Any = None

    def __init__(self, raw: c_void_p):
        if not isinstance(raw, c_void_p):
            raise errors.DTypeError(f"a {type(self).__name__} is made by its functions, not of a {type(raw).__name__}")
        self._raw = raw
        self._serial = next(_serials)
        if self.changes:
            self._lock = threading.RLock()

    def __reduce__(self):
        """A second object with the same handle would free it twice."""
        raise errors.DTypeError(f"a kcc.{type(self).__name__} cannot be copied or pickled")

    @property
    def _as_parameter_(self) -> c_void_p:  # how ctypes hands the object on
        return self._raw

    def __del__(self):
        raw, self._raw = getattr(self, "_raw", None), None
        if raw is not None and library is not None:  # None: the interpreter is ending
            getattr(library, f"kcc_{self.kind}_free")(raw)
