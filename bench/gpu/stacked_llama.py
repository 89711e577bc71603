"""Many copies of the lab's model in one set of tensors: every parameter has a leading dimension, the run.

A product of all runs is one torch.bmm, so that forty runs of a model of 3.4 M parameters fill a GPU that one
of them would leave idle. `forward` is the architecture of python/kcc/model/llama.py; `rollout` samples with a
KV cache. Kernels are imitations of the lab's formats (kcc/lab/switch_table.cc), which differ from run to run:

  f32    nothing is rounded; the training kernel
  fp8    matrices e4m3 by output, what enters a product e4m3 by token, KV cache e4m3 by head and token,
         logits bf16
  int4   matrices in 4 bits by groups of 32 inputs, bf16 between operators and in the KV cache
  int4c  the same by output
  int3   3 bits (codes -3 to 3) by groups of 32; the lab has no such format

Embedding and head are not quantised, as in the lab. What is not imitated: the order of sums (the lab attends
in tiles of 64 and fuses the norm's and the gate's products), its float32 RoPE angles (float64 here), and its
own exp. Those are below 1e-5 of a log-prob; the formats are 5e-3 and more.
"""

import dataclasses

import torch
from torch.nn import functional

from kcc.model import checkpoint, corpus

E4M3, E4M3_MAX = torch.float8_e4m3fn, 448.0


@dataclasses.dataclass(frozen=True)
class Kernel:
    """Formats of one kernel. `codes`: the largest integer code of the matrices, 0 for e4m3."""

    codes: int | None = None
    group: int | None = None  # inputs that share a scale; None: all of an output
    activations: str | None = None
    bf16_logits: bool = False


KERNELS = {
    "f32": Kernel(),
    "int4": Kernel(codes=7, group=32, activations="bf16"),
    "int4c": Kernel(codes=7, activations="bf16"),
    "int3": Kernel(codes=3, group=32, activations="bf16"),
    "fp8": Kernel(codes=0, activations="e4m3", bf16_logits=True),
}


@dataclasses.dataclass(frozen=True)
class Config:
    vocab: int
    hidden: int
    ffn: int
    layers: int
    heads: int
    kv_heads: int
    eps: float
    theta: float

    @property
    def width(self):
        return self.hidden // self.heads


def round_e4m3(x):
    """One scale for the last dimension, formed in float32: amax / 448."""
    scale = (torch.linalg.vector_norm(x, float("inf"), -1, keepdim=True) / E4M3_MAX).clamp_min(1e-38)
    return (x / scale).to(E4M3).to(x.dtype).mul_(scale)


def round_weights(matrix, kernel):
    """[..., outputs, inputs] as the kernel's codes would have it."""
    if kernel.codes is None:
        return matrix
    if kernel.codes == 0:
        return round_e4m3(matrix)
    parts = matrix.unflatten(-1, (-1, kernel.group or matrix.shape[-1]))
    scale = (parts.abs().amax(-1, keepdim=True) / kernel.codes).clamp_min(1e-38)
    return ((parts / scale).round().clamp(-kernel.codes, kernel.codes) * scale).flatten(-2)


def spans(values):
    """[(value, begin, end)] of the runs of equal values."""
    found = []
    for place, value in enumerate(values):
        if found and found[-1][0] == value:
            found[-1][2] = place + 1
        else:
            found.append([value, place, place + 1])
    return [tuple(span) for span in found]


class Rounding:
    """What the kernels of a stack round between operators: in place, so not where gradients are wanted."""

    def __init__(self, names):
        kernels = [KERNELS[name] for name in names]
        self._activations = [span for span in spans([kernel.activations for kernel in kernels]) if span[0]]
        self._logits = [span for span in spans([kernel.bf16_logits for kernel in kernels]) if span[0]]

    def store(self, x):
        """What a 16-bit engine writes between two operators. [runs, ...]"""
        for format, begin, end in self._activations:
            if format == "bf16":
                x[begin:end] = x[begin:end].bfloat16()
        return x

    def scaled(self, x):
        """The formats with a scale, one for the last dimension."""
        for format, begin, end in self._activations:
            if format == "e4m3":
                x[begin:end] = round_e4m3(x[begin:end])
        return x

    def enter(self, x):
        """What enters a product."""
        return self.scaled(self.store(x))

    def logits(self, x):
        for _, begin, end in self._logits:
            x[begin:end] = x[begin:end].bfloat16()
        return x


NOTHING = Rounding([])


def load(directory, runs, device):
    """Config and parameters of `runs` copies of a checkpoint. Query, key and value are one matrix, gate and up another."""
    described = checkpoint.read_config(directory)
    config = Config(
        vocab=described["vocab_size"],
        hidden=described["hidden_size"],
        ffn=described["intermediate_size"],
        layers=described["num_hidden_layers"],
        heads=described["num_attention_heads"],
        kv_heads=described["num_key_value_heads"],
        eps=described["rms_norm_eps"],
        theta=described["rope_theta"],
    )
    tensors = {name: torch.from_numpy(array.copy()) for name, array in checkpoint.read_tensors(directory).items()}
    found = {"embed": tensors["model.embed_tokens.weight"]}
    for layer in range(config.layers):
        at, to = f"model.layers.{layer}.", f"{layer}."
        attention = [tensors[f"{at}self_attn.{name}_proj.weight"] for name in "qkv"]
        found[to + "norm1"] = tensors[at + "input_layernorm.weight"]
        found[to + "qkv"] = torch.cat(attention)
        found[to + "out"] = tensors[at + "self_attn.o_proj.weight"]
        found[to + "norm2"] = tensors[at + "post_attention_layernorm.weight"]
        found[to + "up"] = torch.cat([tensors[f"{at}mlp.{name}_proj.weight"] for name in ("gate", "up")])
        found[to + "down"] = tensors[at + "mlp.down_proj.weight"]
    found["norm"], found["head"] = tensors["model.norm.weight"], tensors["lm_head.weight"]
    stacked = {name: tensor[None].repeat(runs, *[1] * tensor.dim()).to(device) for name, tensor in found.items()}
    return config, stacked


def is_quantised(name):
    return name.rsplit(".", 1)[-1] in ("qkv", "out", "up", "down")


@torch.no_grad()
def quantise_into(target, weights, names, skip=()):
    """`target` becomes what the kernels `names` make of `weights`, except for the runs in `skip`."""
    parts = []
    for (kernel, _), begin, end in spans([(name, run in skip) for run, name in enumerate(names)]):
        if begin not in skip:
            parts.append((KERNELS[kernel], begin, end))
    for name, tensor in weights.items():
        for kernel, begin, end in parts:
            part = tensor[begin:end]
            target[name][begin:end] = round_weights(part, kernel) if is_quantised(name) else part


class Angles:
    """cos and sin of every position, [positions, 1, width]; the sin of the left half is negated."""

    def __init__(self, config, positions, device):
        half = torch.arange(0, config.width, 2, dtype=torch.float64)
        angle = torch.arange(positions, dtype=torch.float64)[:, None] * config.theta ** (-half / config.width)
        self.cos = torch.cat([angle.cos(), angle.cos()], -1).float()[:, None].to(device)
        self.sin = torch.cat([-angle.sin(), angle.sin()], -1).float()[:, None].to(device)

    def rotate(self, x, start):
        """[..., length, heads, width], the pairs (i, i + width / 2)."""
        length = x.shape[-3]
        cos, sin = self.cos[start : start + length], self.sin[start : start + length]
        left, right = x.chunk(2, -1)
        return torch.addcmul(x * cos, torch.cat([right, left], -1), sin)


class Cache:
    """Keys and values of every layer, [runs, sequences, heads, positions, width]."""

    def __init__(self, config, runs, sequences, positions, device):
        shape = (runs, sequences, config.kv_heads, positions, config.width)
        self.keys = [torch.zeros(shape, device=device) for _ in range(config.layers)]
        self.values = [torch.zeros(shape, device=device) for _ in range(config.layers)]

    def put(self, layer, start, key, value):
        end = start + key.shape[2]
        for cached, new in ((self.keys[layer], key), (self.values[layer], value)):
            cached[:, :, :, start:end] = new.transpose(2, 3)
        return [each[layer].flatten(0, 2)[:, :end] for each in (self.keys, self.values)]


def attend(q, k, v, config, start):
    """q [runs, sequences, length, heads, width]; k, v [runs * sequences * kv_heads, positions, width].

    The query heads that share a key head are rows of one product."""
    runs, sequences, length, heads, width = q.shape
    shared = heads // config.kv_heads
    q = q.unflatten(3, (config.kv_heads, shared)).permute(0, 1, 3, 4, 2, 5).reshape(-1, shared * length, width)
    scores = torch.bmm(q * width**-0.5, k.transpose(1, 2))  # the scale is a power of two
    if length > 1:
        ahead = torch.ones(length, k.shape[1], dtype=torch.bool, device=q.device).triu(start + 1)
        scores = scores.unflatten(1, (shared, length)).masked_fill(ahead, float("-inf")).flatten(1, 2)
    mixed = torch.bmm(scores.softmax(-1), v)
    mixed = mixed.view(runs, sequences, config.kv_heads, shared, length, width)
    return mixed.permute(0, 1, 4, 2, 3, 5).reshape(runs, sequences * length, heads * width)


def forward(weights, config, angles, tokens, wanted, rounding=NOTHING, cache=None, start=0):
    """Logits [runs, sequences, wanted, vocab] of the last `wanted` of the tokens [runs, sequences, length]."""
    runs, sequences, length = tokens.shape
    heads, kv_heads = config.heads, config.kv_heads

    def product(x, name):
        return torch.bmm(x, weights[name].transpose(1, 2))

    def normed(x, name):
        return rounding.enter(functional.rms_norm(x, (config.hidden,), eps=config.eps) * weights[name][:, None])

    first = torch.arange(runs, device=tokens.device) * config.vocab
    x = functional.embedding(tokens + first[:, None, None], weights["embed"].flatten(0, 1))
    x = rounding.store(x.view(runs, sequences * length, config.hidden))
    for layer in range(config.layers):
        mixed = product(normed(x, f"{layer}.norm1"), f"{layer}.qkv")
        mixed = mixed.view(runs, sequences, length, heads + 2 * kv_heads, config.width)
        turned = rounding.store(angles.rotate(mixed[..., : heads + kv_heads, :], start))
        q, k, v = turned[..., :heads, :], turned[..., heads:, :], mixed[..., heads + kv_heads :, :]
        k, v = rounding.scaled(k), rounding.enter(v)  # k is stored already
        if cache is None:
            k, v = (each.transpose(2, 3).reshape(-1, length, config.width) for each in (k, v))
        else:
            k, v = cache.put(layer, start, k, v)
        attended = rounding.enter(attend(q, k, v, config, start))
        x = rounding.store(x + rounding.store(product(attended, f"{layer}.out")))
        gate, up = rounding.store(product(normed(x, f"{layer}.norm2"), f"{layer}.up")).chunk(2, -1)
        gated = rounding.enter(functional.silu(gate) * up)
        x = rounding.store(x + rounding.store(product(gated, f"{layer}.down")))
    x = x.view(runs, sequences, length, -1)[:, :, length - wanted :].reshape(runs, sequences * wanted, -1)
    return rounding.logits(product(normed(x, "norm"), "head")).view(runs, sequences, wanted, -1)


def log_probs(logits, tokens):
    """Of `tokens`, at temperature 1 and from the whole distribution."""
    return logits.gather(-1, tokens[..., None])[..., 0] - logits.logsumexp(-1)


@torch.no_grad()
def rollout(weights, config, angles, rounding, prompts, uniform):
    """Tokens, their log-probs and the mask, [runs, sequences, length]. `uniform`: a number in [0, 1) for each.

    A token is where the distribution passes its number, so runs that are given the same numbers differ by
    their kernels and weights alone. After the end of an answer tokens are padding and the mask is false."""
    runs, sequences, length = uniform.shape
    before = prompts.shape[2]
    cache = Cache(config, runs, sequences, before + length, prompts.device)
    logits = forward(weights, config, angles, prompts, 1, rounding, cache)[:, :, 0]
    ended = torch.zeros(runs, sequences, dtype=torch.bool, device=prompts.device)
    tokens, found, mask = [], [], []
    for place in range(length):
        cumulated = logits.softmax(-1).cumsum(-1)
        below = cumulated < uniform[:, :, place, None] * cumulated[..., -1:]
        token = below.sum(-1).clamp_max(config.vocab - 1)
        mask.append(~ended)
        token = token.masked_fill(ended, corpus.PAD)
        tokens.append(token)
        found.append(log_probs(logits, token))
        ended = ended | (token == corpus.EOS)
        if place + 1 < length:
            logits = forward(weights, config, angles, token[..., None], 1, rounding, cache, before + place)[:, :, 0]
    return torch.stack(tokens, -1), torch.stack(found, -1), torch.stack(mask, -1)
