#!/usr/bin/env python3
"""A random Llama of 1.4 million weights for tests of real servers: the same weights as a Hugging
Face folder and as GGUF, some sequences, and the log-probs that a float64 forward pass gives them.

    tiny_llama.py DIR    writes DIR/hf/, DIR/tiny.gguf and DIR/truth.txt

A line of truth.txt is: prompt tokens, all token ids, then the log-probs of those after the prompt.
"""

import json
import pathlib
import sys

import gguf
import numpy as np
from safetensors.numpy import save_file

VOCAB, WIDTH, INNER, LAYERS, HEADS, KV_HEADS, CONTEXT = 512, 256, 512, 2, 4, 2, 512
HEAD = WIDTH // HEADS
THETA, EPSILON = 10000.0, 1e-6


def weights():
    rng = np.random.default_rng(20261115)

    def matrix(rows, columns, scale):
        return (rng.standard_normal((rows, columns)) * scale).astype(np.float32)

    made = {"model.embed_tokens.weight": matrix(VOCAB, WIDTH, 0.5)}
    for i in range(LAYERS):
        p = f"model.layers.{i}."
        made[p + "self_attn.q_proj.weight"] = matrix(WIDTH, WIDTH, 0.06)
        made[p + "self_attn.k_proj.weight"] = matrix(KV_HEADS * HEAD, WIDTH, 0.06)
        made[p + "self_attn.v_proj.weight"] = matrix(KV_HEADS * HEAD, WIDTH, 0.06)
        made[p + "self_attn.o_proj.weight"] = matrix(WIDTH, WIDTH, 0.06)
        made[p + "mlp.gate_proj.weight"] = matrix(INNER, WIDTH, 0.06)
        made[p + "mlp.up_proj.weight"] = matrix(INNER, WIDTH, 0.06)
        made[p + "mlp.down_proj.weight"] = matrix(WIDTH, INNER, 0.06)
        made[p + "input_layernorm.weight"] = np.ones(WIDTH, np.float32)
        made[p + "post_attention_layernorm.weight"] = np.ones(WIDTH, np.float32)
    made["model.norm.weight"] = np.ones(WIDTH, np.float32)
    made["lm_head.weight"] = matrix(VOCAB, WIDTH, 0.12)
    return made


def forward(w, tokens):
    """Log-probs [len(tokens), VOCAB] in float64."""
    w = {name: value.astype(np.float64) for name, value in w.items()}
    n = len(tokens)
    angles = np.arange(n)[:, None] / THETA ** (np.arange(HEAD // 2) * 2 / HEAD)
    cos, sin = np.cos(angles)[:, None, :], np.sin(angles)[:, None, :]

    def norm(x, scale):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + EPSILON) * scale

    def rotate(x):
        a, b = x[..., : HEAD // 2], x[..., HEAD // 2 :]
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)

    x = w["model.embed_tokens.weight"][tokens]
    mask = np.triu(np.full((n, n), -np.inf), 1)
    for i in range(LAYERS):
        p = f"model.layers.{i}."
        h = norm(x, w[p + "input_layernorm.weight"])
        q = rotate((h @ w[p + "self_attn.q_proj.weight"].T).reshape(n, HEADS, HEAD))
        k = rotate((h @ w[p + "self_attn.k_proj.weight"].T).reshape(n, KV_HEADS, HEAD))
        v = (h @ w[p + "self_attn.v_proj.weight"].T).reshape(n, KV_HEADS, HEAD)
        k, v = (np.repeat(part, HEADS // KV_HEADS, 1) for part in (k, v))
        scores = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(HEAD) + mask
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        scores /= scores.sum(-1, keepdims=True)
        x = x + np.einsum("hqk,khd->qhd", scores, v).reshape(n, WIDTH) @ w[p + "self_attn.o_proj.weight"].T
        h = norm(x, w[p + "post_attention_layernorm.weight"])
        gate = h @ w[p + "mlp.gate_proj.weight"].T
        x = x + (gate / (1 + np.exp(-gate)) * (h @ w[p + "mlp.up_proj.weight"].T)) @ w[p + "mlp.down_proj.weight"].T
    logits = norm(x, w["model.norm.weight"]) @ w["lm_head.weight"].T
    logits -= logits.max(-1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


def write_hugging_face(w, folder):
    folder.mkdir(parents=True)
    save_file(w, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": VOCAB, "hidden_size": WIDTH,
        "intermediate_size": INNER, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS, "head_dim": HEAD, "max_position_embeddings": CONTEXT,
        "rms_norm_eps": EPSILON, "rope_theta": THETA, "hidden_act": "silu", "tie_word_embeddings": False,
        "bos_token_id": 1, "eos_token_id": 2, "torch_dtype": "float32"}))


def write_gguf(w, path):
    out = gguf.GGUFWriter(path, "llama")
    out.add_name("tiny")
    out.add_context_length(CONTEXT)
    out.add_embedding_length(WIDTH)
    out.add_block_count(LAYERS)
    out.add_feed_forward_length(INNER)
    out.add_head_count(HEADS)
    out.add_head_count_kv(KV_HEADS)
    out.add_layer_norm_rms_eps(EPSILON)
    out.add_rope_dimension_count(HEAD)
    out.add_rope_freq_base(THETA)
    out.add_vocab_size(VOCAB)
    out.add_file_type(0)
    # Bytes from 0x80 on are fragments of characters; 259 and above are words.
    words = [b"<unk>", b"<s>", b"</s>"] + [b"<0x%02X>" % i for i in range(256)]
    words += [b"t%d" % i for i in range(len(words), VOCAB)]
    out.add_tokenizer_model("llama")
    out.add_token_list(words)
    out.add_token_scores([0.0] * VOCAB)
    out.add_token_types([2, 3, 3] + [6] * 256 + [1] * (VOCAB - 259))
    out.add_bos_token_id(1)
    out.add_eos_token_id(2)
    out.add_add_bos_token(False)

    def paired(x, heads):  # ggml rotates neighbours, Hugging Face halves
        return np.ascontiguousarray(x.reshape(heads, 2, HEAD // 2, WIDTH).swapaxes(1, 2).reshape(x.shape))

    out.add_tensor("token_embd.weight", w["model.embed_tokens.weight"])
    out.add_tensor("output_norm.weight", w["model.norm.weight"])
    out.add_tensor("output.weight", w["lm_head.weight"])
    for i in range(LAYERS):
        p, b = f"model.layers.{i}.", f"blk.{i}."
        out.add_tensor(b + "attn_norm.weight", w[p + "input_layernorm.weight"])
        out.add_tensor(b + "ffn_norm.weight", w[p + "post_attention_layernorm.weight"])
        out.add_tensor(b + "attn_q.weight", paired(w[p + "self_attn.q_proj.weight"], HEADS))
        out.add_tensor(b + "attn_k.weight", paired(w[p + "self_attn.k_proj.weight"], KV_HEADS))
        out.add_tensor(b + "attn_v.weight", w[p + "self_attn.v_proj.weight"])
        out.add_tensor(b + "attn_output.weight", w[p + "self_attn.o_proj.weight"])
        for name in ("gate", "up", "down"):
            out.add_tensor(b + f"ffn_{name}.weight", w[p + f"mlp.{name}_proj.weight"])
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


def main():
    folder = pathlib.Path(sys.argv[1])
    w = weights()
    write_hugging_face(w, folder / "hf")
    write_gguf(w, folder / "tiny.gguf")
    rng = np.random.default_rng(7)
    lines = []
    for request in range(80):
        prompt = int(rng.integers(1, 12))
        tokens = rng.integers(259, VOCAB, prompt + int(rng.integers(1, 24))).tolist()
        if request % 4 == 0:
            tokens[-1] = 2  # ends a generation
        logprobs = forward(w, tokens)
        wanted = [repr(float(logprobs[t - 1, tokens[t]])) for t in range(prompt, len(tokens))]
        lines.append(" ".join([str(prompt), str(len(tokens)), *map(str, tokens), *wanted]))
    (folder / "truth.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
