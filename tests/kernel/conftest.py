"""A tiny random Llama in the Hugging Face layout."""

import pytest


@pytest.fixture(scope="session")
def tiny_llama(tmp_path_factory):
    import torch
    import transformers

    directory = tmp_path_factory.mktemp("tiny-llama")
    torch.manual_seed(7)
    config = transformers.LlamaConfig(
        vocab_size=320, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=256, initializer_range=0.2,
    )
    transformers.LlamaForCausalLM(config).save_pretrained(directory)
    return directory
