"""Mask constants on one side, through the program: what KL is, and that nothing stops the run."""

import json

import numpy as np
import pairs
import pytest

torch = pytest.importorskip("torch")

IDS = [2, 3, 5, 7, 11, 13, 17, 19]
CONTRACT = """
apiVersion: kcc/v1
kind: KernelContract
metadata: {name: masks, version: 1.0.0}
spec:
  assumptions: {tokensMax: 64}
  numerical:
    - {id: N-1, metric: mean_kl, atMost: 0.5, level: L1}
    - {id: N-2, metric: mean_reverse_kl, atMost: 0.5, level: L1}
    - {id: N-3, metric: mean_js, atMost: 0.5, level: L1}
    - {id: N-4, metric: mean_tv, atMost: 0.5, level: L1}
"""


def masked_pair(root, constant, dtype):
    """Traces of full logits, eight ids of train set to the constant; with the values as stored."""
    _, infer, columns, z, y = pairs.logits_pair(root, vocab=1003, noise=0.05, dtype=dtype)
    columns["token"] = columns["token"] % 900 + 100
    z[:, IDS] = pairs.to_bf16(np.float32([constant]))[0] if dtype == "bfloat16" else constant
    lines = [json.loads(line) for line in (infer / "requests.jsonl").read_text().splitlines()]
    info = {"vocabSize": 1003}
    train = pairs.write_trace(root / "a", info | {"kernelFingerprint": "train"}, lines, columns | {"logits": z})
    infer = pairs.write_trace(root / "b", info | {"kernelFingerprint": "infer"}, lines, columns | {"logits": y})
    if dtype == "bfloat16":
        z, y = pairs.from_bf16(z), pairs.from_bf16(y)
    return train, infer, z, y


@pytest.mark.parametrize("dtype, constant", [
    ("float32", -np.inf), ("float32", np.finfo(np.float32).min), ("float32", -1e30), ("float32", -1e9),
    ("bfloat16", -np.inf), ("bfloat16", -3.38e38), ("float16", -65504), ("float16", -np.inf)])
def test_eight_masked_ids_on_train_are_measured_right(kcc, tmp_path, dtype, constant):
    train, infer, z, y = masked_pair(tmp_path, constant, dtype)
    contract = tmp_path / "contract.yaml"
    contract.write_text(CONTRACT)
    done = kcc("measure", train, infer, "-c", contract, "-o", tmp_path / "s.kccs")
    assert done.code == 0, done.err
    report = json.loads(kcc("judge", contract, tmp_path / "s.kccs", "--json").out)["quantities"]
    z, y = torch.from_numpy(z.astype(np.float64)), torch.from_numpy(y.astype(np.float64))
    log_p, log_q = torch.log_softmax(z, -1), torch.log_softmax(y, -1)
    p, q = log_p.exp(), log_q.exp()
    middle = torch.log((p + q) / 2)
    want = {
        "kl": torch.where(p > 0, p * (log_p - log_q), 0.0).sum(-1),
        "reverse_kl": (q * (log_q - log_p)).sum(-1),
        "js": (torch.where(p > 0, p * (log_p - middle), 0.0) + q * (log_q - middle)).sum(-1) / 2,
        "tv": (p - q).abs().sum(-1) / 2,
    }
    for name, values in want.items():
        mean = report[name]["all"]["mean"]
        mean = float("inf") if mean == "inf" else mean
        assert mean == pytest.approx(float(values.mean()), rel=3e-6), name
