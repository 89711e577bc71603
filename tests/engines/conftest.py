"""The shipped checkpoint in every format the engines read."""

import engine_drift
import pytest


@pytest.fixture(scope="session")
def exports(made_once):
    """f32.gguf, the quantised ones and model.onnx."""
    return made_once("exports", engine_drift.export)
