"""The shipped model's architecture in plain PyTorch: a Llama with Hugging Face tensor names.

RMSNorm, rotary positions (rotate-half pairs i, i + d/2), grouped-query attention, SwiGLU, an untied
head; Touvron et al. 2023, arXiv:2302.13971, as transformers' LlamaForCausalLM computes it. It trains
the model and is the source of the exports; the adapters run the checkpoint through other engines.

Training passes explicit positions, so that a short row can stand for a long context.
"""

import dataclasses
import math

import torch
from torch import nn
from torch.nn import functional

from kcc.model import checkpoint, corpus


@dataclasses.dataclass(frozen=True)
class Config:
    vocab_size: int = 512
    hidden_size: int = 256
    intermediate_size: int = 768
    num_hidden_layers: int = 4
    num_attention_heads: int = 4
    num_key_value_heads: int = 2
    rms_norm_eps: float = 1e-5
    rope_theta: float = 500000.0
    max_position_embeddings: int = 16384

    @property
    def head_dim(self):
        return self.hidden_size // self.num_attention_heads


class RMSNorm(nn.Module):
    def __init__(self, size, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps) * self.weight


def rotary(positions, config, dtype):
    """cos and sin of every position, [..., 1, length, head_dim]."""
    half = torch.arange(0, config.head_dim, 2, dtype=torch.float64)
    frequency = config.rope_theta ** (-half / config.head_dim)
    angle = positions[..., None, :, None].to(torch.float64) * frequency.to(positions.device)
    angle = torch.cat([angle, angle], -1)
    return angle.cos().to(dtype), angle.sin().to(dtype)


def rotate(x, cos, sin):
    left, right = x.chunk(2, -1)
    return x * cos + torch.cat([-right, left], -1) * sin


class Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.heads, self.kv_heads = config.num_attention_heads, config.num_key_value_heads
        size, width = config.hidden_size, config.head_dim
        self.q_proj = nn.Linear(size, self.heads * width, bias=False)
        self.k_proj = nn.Linear(size, self.kv_heads * width, bias=False)
        self.v_proj = nn.Linear(size, self.kv_heads * width, bias=False)
        self.o_proj = nn.Linear(self.heads * width, size, bias=False)

    def forward(self, x, cos, sin, cache=None):
        rows, length, _ = x.shape
        q, k, v = (
            project(x).view(rows, length, heads, -1).transpose(1, 2)
            for project, heads in (
                (self.q_proj, self.heads),
                (self.k_proj, self.kv_heads),
                (self.v_proj, self.kv_heads),
            )
        )
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        # After the first call with a cache, rows go on one token at a time and see all before it.
        first = not cache
        if cache is not None:
            if not first:
                k, v = torch.cat([cache["k"], k], 2), torch.cat([cache["v"], v], 2)
            cache["k"], cache["v"] = k, v
        groups = self.heads // self.kv_heads
        k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=first)
        return self.o_proj(y.transpose(1, 2).reshape(rows, length, -1))


class Mlp(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, x):
        return self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.self_attn = Attention(config)
        self.mlp = Mlp(config)
        self.input_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.post_attention_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)

    def forward(self, x, cos, sin, cache=None):
        x = x + self.self_attn(self.input_layernorm(x), cos, sin, cache)
        return x + self.mlp(self.post_attention_layernorm(x))


class Llama(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.model = nn.Module()
        self.model.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.model.layers = nn.ModuleList(Layer(config) for _ in range(config.num_hidden_layers))
        self.model.norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.initialise()

    def initialise(self):
        residual = 0.02 / math.sqrt(2 * self.config.num_hidden_layers)
        for name, weight in self.named_parameters():
            if weight.dim() == 2:
                inner = name.endswith(("o_proj.weight", "down_proj.weight"))
                nn.init.normal_(weight, std=residual if inner else 0.02)

    def forward(self, tokens, positions=None, caches=None):
        if positions is None:
            positions = torch.arange(tokens.shape[1], device=tokens.device)[None]
        cos, sin = rotary(positions, self.config, self.lm_head.weight.dtype)
        x = self.model.embed_tokens(tokens)
        for index, layer in enumerate(self.model.layers):
            x = layer(x, cos, sin, None if caches is None else caches[index])
        return self.lm_head(self.model.norm(x))


def save(model, directory):
    """config.json and BF16 model.safetensors."""
    config = model.config
    described = {
        "architectures": ["LlamaForCausalLM"],
        "attention_bias": False,
        "attention_dropout": 0.0,
        "bos_token_id": corpus.BOS,
        "dtype": "bfloat16",
        "eos_token_id": corpus.EOS,
        "head_dim": config.head_dim,
        "hidden_act": "silu",
        "initializer_range": 0.02,
        "mlp_bias": False,
        "model_type": "llama",
        "pad_token_id": corpus.PAD,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
        "use_cache": True,
    } | dataclasses.asdict(config)
    tensors = {name: tensor.detach().cpu().numpy() for name, tensor in model.state_dict().items()}
    checkpoint.write(directory, described, tensors)


def load(directory, dtype=torch.float32):
    described = checkpoint.read_config(directory)
    model = Llama(Config(**{field.name: described[field.name] for field in dataclasses.fields(Config)}))
    tensors = checkpoint.read_tensors(directory)
    model.load_state_dict({name: torch.from_numpy(array.copy()) for name, array in tensors.items()})
    return model.to(dtype).eval()
