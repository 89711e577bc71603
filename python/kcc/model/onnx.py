"""Writes a checkpoint in the Hugging Face layout as ONNX, by PyTorch's exporter.

    python -m kcc.model.onnx models/kcc-lab model.onnx

One input, `tokens` [rows, length] of int64, and one output, `logits` [rows, length, vocabulary] of
float32; rows and length are free. Positions start at 0 and there is no cache: a kernel that
generates runs the whole row again for each token, which is fine for a model of this size.
"""

import sys

import torch

from kcc.model import llama


class Scorer(torch.nn.Module):
    """Tokens to logits and nothing else, so that the graph has one input."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, tokens):
        return self.model(tokens)


def write(directory, path):
    rows, length = torch.export.Dim("rows"), torch.export.Dim("length")
    torch.onnx.export(
        Scorer(llama.load(directory)).eval(),
        (torch.zeros((2, 16), dtype=torch.int64),),
        path,
        input_names=["tokens"],
        output_names=["logits"],
        dynamic_shapes={"tokens": {0: rows, 1: length}},
        external_data=False,
        dynamo=True,
        verbose=False,
    )


if __name__ == "__main__":
    write(*sys.argv[1:3])
