"""The shipped checkpoint in every format the engines read."""

import pathlib

import engine_drift
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def exports(made_of):
    """f32.gguf, the quantised ones and model.onnx, whose export takes 13 s."""
    files = [*engine_drift.MODEL.glob("*.json"), *engine_drift.MODEL.glob("*.safetensors"), *ROOT.glob("python/kcc/model/*.py"),
             ROOT / "python/requirements-dev.txt", ROOT / "tools/engine_drift.py"]  # fmt: skip
    return made_of("exports", files, engine_drift.export)
