"""The weights that training starts from: random, with the circuit that copying rests on in place.

A small model finds "look for what came after this pair of tokens before" (an induction head, Olsson et
al. 2022, arXiv:2209.11895) only after millions of tokens, and all five skills need it: started from
random weights alone, copying was at chance after 3.2 million. So layer 0 starts with heads that look one and two
tokens back, layer 1 with a head that looks for the place where they saw the same pair, and the output
with a way to say what stood there. The residual stream is split into the parts that these write and
read. Structured initialisation is known from Trockman and Kolter 2023 (arXiv:2305.09828); training is free
to change all of it.
"""

import torch
from torch import nn


def initialise(model):
    """Draws from torch's generator."""
    config, draw = model.config, torch.randn
    width, depth = config.hidden_size, config.num_hidden_layers
    for name, weight in model.named_parameters():
        if weight.dim() == 2:
            inner = name.endswith(("o_proj.weight", "down_proj.weight"))
            nn.init.normal_(weight, std=weight.shape[1] ** -0.5 * (0.3 / depth**0.5 if inner else 1))
    size, half = config.head_dim, config.head_dim // 2
    parts = torch.linalg.qr(draw(width, width))[0].T.split([1, width - 97 - size, 48, 48, size])
    one, code, back1, back2, out = parts  # orthonormal rows, 256 in all
    codes = draw(config.vocab_size, len(code))
    with torch.no_grad():
        # Every token: its code, and a part that is the same for all of them.
        x = codes @ code + 6 * one
        model.model.embed_tokens.weight.copy_(x)
        rms = x.square().mean(-1).sqrt().mean()
        first, second = (model.model.layers[index].self_attn for index in (0, 1))

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
        out = torch.linalg.qr(draw(size, size))[0].T @ out
        second.o_proj.weight[:, :size] = out.T
        noise = 0.02 * draw(config.vocab_size, width)
        model.lm_head.weight.copy_(noise + 0.1 * codes @ say.T @ out)
