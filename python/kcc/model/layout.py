"""The files beside the weights that make a directory load with transformers: generation defaults
and a tokenizer whose ids are the bytes themselves, in the tokenizers library's format.

    python -m kcc.model.layout DIRECTORY
"""

import json
import pathlib
import sys

from kcc.model import corpus

CHAT_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}"
    "{% if message['role'] == 'user' %}<user>{{ message['content'] }}"
    "{% else %}<assistant>{{ message['content'] }}{{ eos_token }}{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"
)


def tokenizer():
    """Byte-pair encoding without a pair: every byte falls back to its own token <0xNN>."""
    special = [
        {
            "id": index, "content": text, "single_word": False, "lstrip": False, "rstrip": False,
            "normalized": False, "special": True,
        }
        for index, text in sorted(corpus.SPECIAL.items())
    ]
    vocabulary = {f"<0x{byte:02X}>": byte for byte in range(256)}
    vocabulary |= {text: index for index, text in sorted(corpus.SPECIAL.items())}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": special,
        "normalizer": None,
        "pre_tokenizer": None,
        "post_processor": None,
        "decoder": {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"}]},
        "model": {
            "type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
            "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": True,
            "ignore_merges": False, "vocab": vocabulary, "merges": [],
        },
    }  # fmt: skip


def write(directory):
    files = {
        "generation_config.json": {
            "bos_token_id": corpus.BOS,
            "eos_token_id": corpus.EOS,
            "pad_token_id": corpus.PAD,
            "do_sample": False,
            "max_new_tokens": 128,
        },
        "tokenizer.json": tokenizer(),
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "bos_token": "<s>",
            "eos_token": "</s>",
            "pad_token": "<pad>",
            "chat_template": CHAT_TEMPLATE,
            "clean_up_tokenization_spaces": False,
            "model_max_length": 8192,
        },
    }
    for name, content in files.items():
        (pathlib.Path(directory) / name).write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    write(sys.argv[1])
