"""Llama forward passes in a chosen format and attention backend, for bench/gpu/e1_e2.py.

Weights are random (normal, 0.02) and valued in BF16, so that BF16 and float32 compute with the same numbers and
differ by arithmetic alone. The head is scaled to logits of a given spread: how often the top token changes is a
property of that spread, not of a kernel. Formats:

  f32   float32 throughout, no TF32: the reference
  bf16, fp16   matrices, activations, KV cache and logits in it; norms in float32; sums by cuBLAS
  fp8   the seven matrices e4m3 with a scale for each output, what enters them e4m3 with one for each token
        (torch._scaled_mm, on a CPU the same values in float32), the rest bf16, embedding and head too

Attention is torch's scaled_dot_product_attention with one backend allowed. Key heads are repeated for the query heads
that share them: not every backend can group.
"""

import dataclasses

import torch
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

BACKENDS = {
    "math": SDPBackend.MATH,
    "flash": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
}
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16, "fp8": torch.bfloat16}
E4M3, E4M3_MAX = torch.float8_e4m3fn, 448.0


@dataclasses.dataclass(frozen=True)
class Shape:
    name: str
    hidden: int
    ffn: int
    layers: int
    heads: int
    kv_heads: int
    vocab: int
    theta: float = 500000.0
    eps: float = 1e-5

    @property
    def width(self):
        return self.hidden // self.heads

    @property
    def matrices(self):
        """Name -> (outputs, inputs) of a layer's."""
        queries, keys = self.heads * self.width, self.kv_heads * self.width
        return {
            "q": (queries, self.hidden), "k": (keys, self.hidden), "v": (keys, self.hidden), "out": (self.hidden, queries),
            "gate": (self.ffn, self.hidden), "up": (self.ffn, self.hidden), "down": (self.hidden, self.ffn),
        }  # fmt: skip

    @property
    def parameters(self):
        layer = sum(outputs * inputs for outputs, inputs in self.matrices.values()) + 2 * self.hidden
        return 2 * self.vocab * self.hidden + self.layers * layer + self.hidden


SHAPES = {
    shape.name: shape
    for shape in (
        Shape("1.5B", 2048, 8192, 16, 32, 8, 128256),  # Llama 3.2 1B with a head of its own
        Shape("8B", 4096, 14336, 32, 32, 8, 128256),  # Llama 3 8B
        Shape("tiny", 64, 128, 2, 4, 2, 512),
        Shape("kcc-lab", 256, 768, 4, 4, 2, 512),
    )
}


def random_weights(shape, device, seed=1, logit_sigma=4.5):
    """BF16 tensors by name."""
    generator = torch.Generator(device).manual_seed(seed)

    def normal(outputs, inputs, sigma=0.02):
        made = torch.empty(outputs, inputs, device=device, dtype=torch.bfloat16)
        for part in made.split(16384):  # float32 exists for a part at a time
            part.copy_(torch.randn(part.shape, generator=generator, device=device) * sigma)
        return made

    weights = {"embed": normal(shape.vocab, shape.hidden), "norm": torch.ones(shape.hidden, device=device, dtype=torch.bfloat16)}
    weights["head"] = normal(shape.vocab, shape.hidden, logit_sigma * shape.hidden**-0.5)
    for layer in range(shape.layers):
        for name, size in shape.matrices.items():
            weights[f"{layer}.{name}"] = normal(*size)
        for name in ("norm1", "norm2"):
            weights[f"{layer}.{name}"] = torch.ones(shape.hidden, device=device, dtype=torch.bfloat16)
    return weights


HF_NAMES = {
    "self_attn.q_proj": "q", "self_attn.k_proj": "k", "self_attn.v_proj": "v", "self_attn.o_proj": "out",
    "mlp.gate_proj": "gate", "mlp.up_proj": "up", "mlp.down_proj": "down",
    "input_layernorm": "norm1", "post_attention_layernorm": "norm2",
}  # fmt: skip


def checkpoint_weights(directory, device):
    """The same of a checkpoint in Hugging Face's names."""
    from kcc.model import checkpoint

    weights = {}
    for name, array in checkpoint.read_tensors(directory).items():
        parts = name.removesuffix(".weight").split(".")
        if parts[:2] == ["model", "layers"]:
            name = f"{parts[2]}.{HF_NAMES['.'.join(parts[3:])]}"
        else:
            name = {"model.embed_tokens.weight": "embed", "model.norm.weight": "norm", "lm_head.weight": "head"}[name]
        weights[name] = torch.from_numpy(array.copy()).to(device, torch.bfloat16)
    return weights


def to_e4m3(x):
    """Codes and scales of the rows."""
    scale = (x.float().abs().amax(-1, keepdim=True) / E4M3_MAX).clamp_min(1e-12)
    return (x.float() / scale).to(E4M3), scale


class Product:
    """x times a matrix [outputs, inputs], in the matrix's format."""

    def __init__(self, matrix, format, fast):
        self._fp8, self._fast = format == "fp8", fast
        if self._fp8:
            self._codes, self._scale = to_e4m3(matrix)
            self._scale = self._scale.T.contiguous()
        else:
            self._matrix = matrix.to(DTYPES[format])

    def __call__(self, x):
        if not self._fp8:
            return functional.linear(x, self._matrix)
        codes, scale = to_e4m3(x.flatten(0, -2))
        if x.is_cuda:
            y = torch._scaled_mm(
                codes, self._codes.T, scale_a=scale, scale_b=self._scale, out_dtype=torch.bfloat16, use_fast_accum=self._fast
            )
        else:
            y = ((codes.float() @ self._codes.float().T) * scale * self._scale).bfloat16()
        return y.view(*x.shape[:-1], -1)


class Model:
    """A shape's forward pass in one format. `fast`: fp8 products accumulate in the units' own precision only."""

    def __init__(self, shape, weights, format, fast=True):
        self.shape, self.format, self.dtype = shape, format, DTYPES[format]
        self._embed = weights["embed"]
        self._norms = {name: tensor.float() for name, tensor in weights.items() if "norm" in name}
        self._products = {
            name: Product(tensor, format if name != "head" or format != "fp8" else "bf16", fast)
            for name, tensor in weights.items()
            if name != "embed" and "norm" not in name
        }
        device = self._embed.device
        half = torch.arange(0, shape.width, 2, dtype=torch.float64, device=device)
        self._frequency = shape.theta ** (-half / shape.width)

    def cache(self, requests, positions):
        """Keys and values, [2, requests, heads, positions, width] of each layer."""
        shape, device = self.shape, self._embed.device
        size = (2, requests, shape.kv_heads, positions, shape.width)
        return [torch.zeros(size, dtype=self.dtype, device=device) for _ in range(shape.layers)]

    def _normed(self, x, name):
        wide = functional.rms_norm(x.float(), (self.shape.hidden,), eps=self.shape.eps)
        return (wide * self._norms[name]).to(self.dtype)

    def _rotate(self, x, start):
        """[requests, heads, length, width]"""
        positions = torch.arange(start, start + x.shape[2], device=x.device, dtype=torch.float64)
        angle = positions[:, None] * self._frequency
        cos, sin = angle.cos().float(), angle.sin().float()
        left, right = x.float().chunk(2, -1)
        return torch.cat([left * cos - right * sin, right * cos + left * sin], -1).to(self.dtype)

    @torch.no_grad()
    def hidden(self, tokens, attention, cache=None, start=0):
        """Normed states before the head of tokens [requests, length] at positions from `start`."""
        shape = self.shape
        requests, length = tokens.shape
        x = self._embed[tokens].to(self.dtype)
        shared = shape.heads // shape.kv_heads
        with sdpa_kernel(BACKENDS[attention]):
            for layer in range(shape.layers):
                normed = self._normed(x, f"{layer}.norm1")
                q, k, v = (
                    self._products[f"{layer}.{name}"](normed).view(requests, length, -1, shape.width).transpose(1, 2)
                    for name in "qkv"
                )
                q, k = self._rotate(q, start), self._rotate(k, start)
                if cache is not None:
                    cache[layer][0][:, :, start : start + length] = k
                    cache[layer][1][:, :, start : start + length] = v
                    k, v = (side[:, :, : start + length] for side in cache[layer])
                k, v = (side.repeat_interleave(shared, 1) for side in (k, v))
                mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=length > 1)
                x = x + self._products[f"{layer}.out"](mixed.transpose(1, 2).reshape(requests, length, -1))
                normed = self._normed(x, f"{layer}.norm2")
                gated = functional.silu(self._products[f"{layer}.gate"](normed)) * self._products[f"{layer}.up"](normed)
                x = x + self._products[f"{layer}.down"](gated)
        return self._normed(x, "norm")

    @torch.no_grad()
    def logits(self, tokens, attention, cache=None, start=0):
        """In the model's format, as an engine would hand them to its sampler."""
        return self._products["head"](self.hidden(tokens, attention, cache, start))
