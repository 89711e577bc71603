"""Writes a checkpoint in the Hugging Face layout as GGUF, the file format of llama.cpp, with NumPy only.

    python -m kcc.model.gguf models/kcc-lab model.gguf

Little-endian: magic, version 3, counts, key-value pairs, tensor descriptions (dimensions innermost
first), then the tensors, each aligned to 32 bytes. Weights are written as F32, which holds BF16
exactly; other types are made from this file by the engine's own quantiser (quantize.py), so that what
is tested is what a user of the engine gets.

llama.cpp rotates the pairs (2i, 2i + 1) of a head where Hugging Face rotates (i, i + d/2): rows of
the query and key projections are reordered, which changes the basis of a head and no logit.

llama.cpp makes the angle of pair i by i float32 multiplications of the position with base^(-2/d), each
of which rounds anew at every position; at one token of our evaluation set that alone moves a logit by
1.0e-4. So the base is written as 1, which leaves the position as it is, and the frequencies as the
divisors of `rope_freqs`: one division, one rounding, as few as PyTorch's.
"""

import struct
import sys

import numpy as np

from kcc.model import checkpoint, corpus

U32, I32, F32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
UNKNOWN, CONTROL, UNUSED, BYTE = 2, 3, 5, 6  # of tokens
ALIGNMENT = 32
UNK = 261  # llama.cpp wants one; the first unused id


def pairs_adjacent(weight, heads):
    """Rows (half, i) of each head to (i, half)."""
    rows, width = weight.shape
    return weight.reshape(heads, 2, rows // heads // 2, width).swapaxes(1, 2).reshape(rows, width)


def rope_divisors(config):
    """What a position is divided by to give the angle of each pair of a head."""
    width = config["head_dim"]
    return (config["rope_theta"] ** (np.arange(0, width, 2) / width)).astype(np.float32)


def tensors_of(config, tensors):
    """GGUF name -> array, in the order of the network."""
    yield "token_embd.weight", tensors["model.embed_tokens.weight"]
    yield "rope_freqs.weight", rope_divisors(config)
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    for layer in range(config["num_hidden_layers"]):
        source, target = f"model.layers.{layer}.", f"blk.{layer}."
        attention = source + "self_attn."
        yield target + "attn_norm.weight", tensors[source + "input_layernorm.weight"]
        yield target + "attn_q.weight", pairs_adjacent(tensors[attention + "q_proj.weight"], heads)
        yield target + "attn_k.weight", pairs_adjacent(tensors[attention + "k_proj.weight"], kv_heads)
        yield target + "attn_v.weight", tensors[attention + "v_proj.weight"]
        yield target + "attn_output.weight", tensors[attention + "o_proj.weight"]
        yield target + "ffn_norm.weight", tensors[source + "post_attention_layernorm.weight"]
        for part in ("gate", "up", "down"):
            yield target + f"ffn_{part}.weight", tensors[source + f"mlp.{part}_proj.weight"]
    yield "output_norm.weight", tensors["model.norm.weight"]
    yield "output.weight", tensors["lm_head.weight"]


def vocabulary(size):
    """(text, type) of every id: bytes, then the special ones, then what is never produced."""
    entries = [(f"<0x{byte:02X}>", BYTE) for byte in range(256)]
    entries += [(f"<unused{index}>", UNUSED) for index in range(256, size)]
    for index, text in corpus.SPECIAL.items():
        entries[index] = (text, CONTROL)
    entries[UNK] = ("<unk>", UNKNOWN)
    return entries


def metadata(config):
    """(key, type, value); a list's type is its elements'."""
    tokens = vocabulary(config["vocab_size"])
    return [
        ("general.architecture", STRING, "llama"),
        ("general.name", STRING, "kcc-lab"),
        ("general.alignment", U32, ALIGNMENT),
        ("general.file_type", U32, 0),
        ("llama.vocab_size", U32, config["vocab_size"]),
        ("llama.context_length", U32, config["max_position_embeddings"]),
        ("llama.embedding_length", U32, config["hidden_size"]),
        ("llama.block_count", U32, config["num_hidden_layers"]),
        ("llama.feed_forward_length", U32, config["intermediate_size"]),
        ("llama.attention.head_count", U32, config["num_attention_heads"]),
        ("llama.attention.head_count_kv", U32, config["num_key_value_heads"]),
        ("llama.attention.layer_norm_rms_epsilon", F32, config["rms_norm_eps"]),
        ("llama.rope.dimension_count", U32, config["head_dim"]),
        ("llama.rope.freq_base", F32, 1.0),
        ("tokenizer.ggml.model", STRING, "llama"),
        ("tokenizer.ggml.tokens", STRING, [text for text, _ in tokens]),
        ("tokenizer.ggml.scores", F32, [0.0] * len(tokens)),
        ("tokenizer.ggml.token_type", I32, [kind for _, kind in tokens]),
        ("tokenizer.ggml.add_space_prefix", BOOL, False),
        ("tokenizer.ggml.add_bos_token", BOOL, False),
        ("tokenizer.ggml.bos_token_id", U32, corpus.BOS),
        ("tokenizer.ggml.eos_token_id", U32, corpus.EOS),
        ("tokenizer.ggml.padding_token_id", U32, corpus.PAD),
        ("tokenizer.ggml.unknown_token_id", U32, UNK),
    ]


def string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def scalar(kind, value):
    return string(value) if kind == STRING else struct.pack({U32: "<I", I32: "<i", F32: "<f", BOOL: "<?"}[kind], value)


def pair(key, kind, value):
    if isinstance(value, list):
        items = b"".join(scalar(kind, item) for item in value)
        return string(key) + struct.pack("<IIQ", ARRAY, kind, len(value)) + items
    return string(key) + struct.pack("<I", kind) + scalar(kind, value)


def padding(size):
    return b"\0" * (-size % ALIGNMENT)


def write(directory, path):
    config = checkpoint.read_config(directory)
    tensors = list(tensors_of(config, checkpoint.read_tensors(directory)))
    pairs = metadata(config)
    head = [b"GGUF", struct.pack("<IQQ", 3, len(tensors), len(pairs))]
    head += [pair(*entry) for entry in pairs]
    offset = 0
    for name, array in tensors:
        dimensions = array.shape[::-1]
        head.append(string(name) + struct.pack(f"<I{len(dimensions)}Q", len(dimensions), *dimensions))
        head.append(struct.pack("<IQ", 0, offset))
        offset += array.nbytes + len(padding(array.nbytes))
    head = b"".join(head)
    with open(path, "wb") as out:
        out.write(head + padding(len(head)))
        for _, array in tensors:
            out.write(np.ascontiguousarray(array, "<f4").tobytes() + padding(array.nbytes))


if __name__ == "__main__":
    write(*sys.argv[1:3])
