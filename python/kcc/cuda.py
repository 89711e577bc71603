"""Drift between two tensors of logits, measured on the GPU that holds them.

    from kcc import cuda
    drift = cuda.measure(train_logits, infer_logits, tokens=ids, top_k=True)
    drift["kl"].mean()          # a float64 tensor on the device; nothing was synchronised before

Works on the current stream of the tensors' device, through their data pointers. Without the library
(`bench/gpu/build.sh`), a CUDA device or CUDA tensors it computes the main quantities with PyTorch on
the CPU, in float64, and says so once.
"""

import ctypes
import pathlib
import warnings

from . import errors

_DTYPES = {"float32": 1, "float16": 2, "bfloat16": 3, "float8_e4m3fn": 4, "float8_e5m2": 5}
_TOP_K, _REVERSE_CHI2, _ON_DEMAND = 1, 2, 4
_library = None


def load(path=None):
    """The library, from `path` or from the checkout's build folders; None where there is none."""
    global _library
    if _library is not None and path is None:
        return _library
    root = pathlib.Path(__file__).resolve().parents[2]
    places = [path] if path else [root / "build" / d / "libkcc_cuda.so" for d in ("gpu", "cuda")]
    for place in places:
        if pathlib.Path(place).exists():
            library = ctypes.CDLL(str(place))
            library.kcc_cuda_value_name.restype = ctypes.c_char_p
            library.kcc_cuda_workspace_bytes.restype = ctypes.c_size_t
            library.kcc_cuda_measure.restype = ctypes.c_char_p
            _library = library
            return library
    return None


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

    if train.dim() != 2 or train.shape[0] != infer.shape[0]:
        raise errors.ShapeError(f"logits must be two [rows, vocab] tensors, not {tuple(train.shape)} and "
                                f"{tuple(infer.shape)}")
    vocab = min(train.shape[1], infer.shape[1]) if vocab is None else vocab
    library = load()
    if not (train.is_cuda and infer.is_cuda) or library is None:
        why = "the logits are not on a CUDA device" if library is not None else "libkcc_cuda.so is not built"
        warnings.warn(f"kcc.cuda: {why}; measuring with PyTorch on the CPU in float64", stacklevel=2)
        return _measure_cpu(train, infer, tokens, temperature, vocab)
    for side in (train, infer):
        if side.stride(1) != 1:
            raise errors.InvalidInput("the entries of a row must be contiguous")
    rows = train.shape[0]
    wanted = _TOP_K * top_k | _REVERSE_CHI2 * reverse_chi2 | _ON_DEMAND * on_demand
    dtypes = [_DTYPES.get(str(side.dtype).removeprefix("torch.")) for side in (train, infer)]
    if None in dtypes:
        raise errors.DTypeError(f"logits hold {train.dtype} and {infer.dtype}; they can hold {', '.join(_DTYPES)}")
    new = dict(device=train.device)
    with torch.cuda.device(train.device):
        stream = torch.cuda.current_stream()
        values = torch.empty((library.kcc_cuda_values(), rows), dtype=torch.float64, **new)
        argmax = torch.empty((2, rows), dtype=torch.int32, **new)
        status = torch.empty(rows, dtype=torch.int32, **new)
        ints, wide = ctypes.c_int, ctypes.c_int64
        room = library.kcc_cuda_workspace_bytes(
            ints(dtypes[0]), ints(dtypes[1]), wide(rows), wide(vocab), ctypes.c_uint(wanted))
        workspace = torch.empty(max(room, 1), dtype=torch.uint8, **new)
        if tokens is not None:
            tokens = tokens.to(device=train.device, dtype=torch.int32).contiguous()
        pointer = lambda tensor: ctypes.c_void_p(0 if tensor is None else tensor.data_ptr())
        problem = library.kcc_cuda_measure(
            pointer(train), pointer(infer), ints(dtypes[0]), ints(dtypes[1]),
            wide(train.stride(0)), wide(infer.stride(0)), wide(rows), wide(vocab),
            ctypes.c_double(temperature), ctypes.c_uint(wanted), pointer(tokens), pointer(values),
            pointer(argmax), pointer(status), pointer(workspace), ctypes.c_size_t(room),
            ctypes.c_void_p(stream.cuda_stream))
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


def _measure_cpu(train, infer, tokens, temperature, vocab):
    import torch

    a = train[:, :vocab].detach().cpu().double()
    b = infer[:, :vocab].detach().cpu().double()
    log_p = torch.log_softmax(a / temperature, -1)
    log_q = torch.log_softmax(b / temperature, -1)
    p, q = log_p.exp(), log_q.exp()
    # What no double can hold weighs nothing; -inf on both sides leaves an entry out, on one side it
    # is a probability of 0.
    share = lambda weight, of: torch.where(weight > 0, weight * of, 0.0)
    moved = lambda p, q, log_p, log_q: torch.where(
        q > 0, (p - q) ** 2 / q, torch.where(p > 0, (2 * log_p - log_q).exp(), 0.0))
    left = ~(a.isneginf() & b.isneginf())
    d = b - a
    one_sided = (d.isinf() & left).any(-1)
    spread = torch.where(left, d, -torch.inf).amax(-1) - torch.where(left, d, torch.inf).amin(-1)
    mean = torch.where(left, d, 0.0).sum(-1, keepdim=True) / left.sum(-1, keepdim=True)
    norm = lambda of: torch.where(one_sided, torch.inf, torch.where(left, of, 0.0).norm(dim=-1))
    drift = Drift(
        kl=share(p, log_p - log_q).sum(-1).clamp(min=0),
        reverse_kl=share(q, log_q - log_p).sum(-1).clamp(min=0),
        tv=0.5 * (p - q).abs().sum(-1),
        chi2=moved(p, q, log_p, log_q).sum(-1),
        entropy=-share(q, log_q).sum(-1),
        train_entropy=-share(p, log_p).sum(-1),
        logit_span=spread / temperature,
        logit_linf=0.5 * spread,
        logit_l2=norm(d - mean),
        raw_logit_l2=norm(d),
    )
    drift.argmax = torch.stack([b.argmax(-1), a.argmax(-1)]).int()
    drift.status = torch.zeros(a.shape[0], dtype=torch.int32)
    if tokens is not None:
        at = tokens.cpu().long().unsqueeze(1)
        drift["train_logprob"] = log_p.gather(1, at).squeeze(1)
        drift["logprob"] = log_q.gather(1, at).squeeze(1)
        drift["log_ratio"] = drift["train_logprob"] - drift["logprob"]
    return drift
