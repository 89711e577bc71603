"""The shipped model's architecture in plain PyTorch: a Llama with Hugging Face tensor names.

RMSNorm, rotary positions (rotate-half pairs i, i + d/2), grouped-query attention, SwiGLU, an untied
head; Touvron et al. 2023, arXiv:2302.13971, as transformers' LlamaForCausalLM computes it. It trains
the model and is the source of the exports; the adapters run the checkpoint through other engines.

Training passes explicit positions, so that a short row can stand for a long context.
"""

import dataclasses

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
        """Random weights, and the circuit that copying rests on already in place.

        A small model finds "look for what came after this pair of tokens before" (an induction head,
        Olsson et al. 2022) only after millions of tokens, and all five skills need it. So layer 0
        starts with heads that look one and two tokens back, layer 1 with a head that looks for the
        place where they saw the same pair, and the output with a way to say what stood there; the
        residual stream is split into the parts U that these write to and read from (structured
        initialisation, as Trockman and Kolter 2023 do for images). Training is free to change all of it.
        """
        config, draw = self.config, torch.randn
        width, depth = config.hidden_size, config.num_hidden_layers
        for name, weight in self.named_parameters():
            if weight.dim() == 2:
                inner = name.endswith(("o_proj.weight", "down_proj.weight"))
                nn.init.normal_(weight, std=weight.shape[1] ** -0.5 * (0.3 / depth**0.5 if inner else 1))
        parts = torch.linalg.qr(draw(width, width))[0].T.split([1, width // 2 - 33, 48, 48, width // 2 - 64])
        one, code, back1, back2, out = parts  # orthonormal rows
        size, half = config.head_dim, config.head_dim // 2
        codes = draw(config.vocab_size, len(code))
        with torch.no_grad():
            # Every token: its code, and a part that is the same for all of them.
            self.model.embed_tokens.weight.copy_(codes @ code + 6 * one)
            x = codes @ code + 6 * one
            rms = x.square().mean(-1).sqrt().mean()
            first, second = (self.model.layers[index].self_attn for index in (0, 1))

            # Layer 0, heads 0 and 1: one and two tokens back, by the phases of the fast frequencies.
            frequency = config.rope_theta ** (-torch.arange(half) / half)
            fast = frequency > 0.05
            constant = one / (6 / rms)  # reads 1 from any normalised token
            first.k_proj.weight[:size] = 0
            first.k_proj.weight[:half][fast] = 6.5 * constant
            for head, back in ((0, 1), (1, 2)):
                rows = first.q_proj.weight[head * size : (head + 1) * size]
                rows.zero_()
                rows[:half][fast] = 6.5 * torch.cos(back * frequency[fast])[:, None] * constant
                rows[half:][fast] = -6.5 * torch.sin(back * frequency[fast])[:, None] * constant
            take = draw(48, len(code)) / len(code) ** 0.5  # a token's code, shortened
            first.v_proj.weight[:48] = take @ code * rms
            first.v_proj.weight[48:size] = 0
            first.o_proj.weight[:, : 2 * size] = 0
            first.o_proj.weight[:, :48] = back1.T
            first.o_proj.weight[:, size : size + 48] = back2.T

            # Layer 1, head 0: keys are the two tokens before a place, queries the last two tokens.
            rms1 = (x.square().mean() + 2 * 48 / width).sqrt()
            slow = torch.arange(half - 15, half)
            match = 1.7 * torch.linalg.qr(draw(48, 30))[0].T * (48 / 30) ** 0.5 * rms1
            second.k_proj.weight[:size] = 0
            second.k_proj.weight[slow] = match[:15] @ back1
            second.k_proj.weight[half + slow] = match[15:] @ back2
            second.q_proj.weight[:size] = 0
            second.q_proj.weight[slow] = match[:15] @ take @ code
            second.q_proj.weight[half + slow] = match[15:] @ back1
            say = draw(size, len(code)) / len(code) ** 0.5
            second.v_proj.weight[:size] = say @ code * rms1
            place = torch.linalg.qr(draw(len(out), size))[0] if len(out) >= size else None
            second.o_proj.weight[:, :size] = out.T @ place
            self.lm_head.weight.copy_(0.02 * draw(config.vocab_size, width) + 0.1 * codes @ say.T @ place.T @ out)

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
