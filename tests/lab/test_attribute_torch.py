"""Attribution of a real engine: the PyTorch adapter on the shipped model, corner by corner.

Its `hello` says which option belongs to which source; kcc runs the corners as command lines.
"""

import json
import math
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = ROOT / "models" / "kcc-lab"
SOURCES = ("operator", "precision", "batch", "route")


def attribute(kcc_path, torch_lm, train, infer, requests, file=MODEL / "eval.jsonl"):
    done = subprocess.run(
        [kcc_path, "attribute", "--train", torch_lm(MODEL, train), "--infer", torch_lm(MODEL, infer), "--requests",
         str(file), "--max-requests", str(requests), "--quantity", "kl,logit_span,logit_linf", "--json"],
        capture_output=True, text=True, cwd=ROOT, timeout=300, check=False,
    )
    assert done.returncode == 0, done.stderr
    attributed = json.loads(done.stdout)
    for cell in attributed["cells"]:
        shares = [cell[name]["share"] for name in SOURCES]
        assert ((shares[0] + shares[1]) + shares[2]) + shares[3] == cell["total"]
        assert cell["corners"][0] == 0, "the same settings twice give the same bits"
    return attributed


def cell_of(attributed, quantity):
    return next(c for c in attributed["cells"] if c["slice"] == "all" and c["quantity"] == quantity)


def test_another_dtype_is_precision_alone(kcc_path, torch_lm):
    attributed = attribute(kcc_path, torch_lm, "", "--dtype bf16", 6)
    assert "dtype=f32" in attributed["train"] and "dtype=bf16" in attributed["infer"]
    for cell in attributed["cells"]:
        assert cell["total"] > 0
        assert cell["precision"]["share"] == cell["total"]
    assert cell_of(attributed, "logit_span")["total"] > 1e-3


@pytest.mark.slow
def test_four_sources_at_once_are_told_apart(kcc_path, torch_lm, tmp_path):
    # The batch's own part is a few bits in a few requests, and 0 in most choices of a dozen: the last of each twelfth have
    # some.
    lines = (MODEL / "eval.jsonl").read_text().splitlines()
    some = [lines[math.ceil(part * len(lines) / 12) - 1] for part in range(1, 13)]
    (tmp_path / "some.jsonl").write_text("\n".join(some) + "\n")
    attributed = attribute(kcc_path, torch_lm, "--route math", "--dtype bf16 --attention eager --batch 8 --route flash", 0,
                           tmp_path / "some.jsonl")  # fmt: skip
    span = cell_of(attributed, "logit_span")
    assert span["precision"]["share"] > 0.8 * span["total"]
    # Each source alone moves something: the corners of one source, in the order of the sources.
    for i, name in enumerate(SOURCES):
        assert span["corners"][1 << i] == span[name]["alone"] > 0, name


@pytest.mark.slow
@pytest.mark.parametrize(
    "train, infer, source",
    [("--attention sdpa", "--attention eager", "operator"), ("--batch 1", "--batch 8", "batch"),
     ("--route math", "--route flash", "route")],
)
def test_one_option_belongs_to_its_source(kcc_path, torch_lm, train, infer, source):
    span = cell_of(attribute(kcc_path, torch_lm, train, infer, 12), "logit_span")
    assert 0 < span["total"] < 1e-3
    assert span[source]["share"] == span["total"]
