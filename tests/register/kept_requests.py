"""What the tests of stored requests and of kcc replay share: two requests, a run that keeps them, and what the register holds."""

import hashlib
import json
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
WHO = ["--actor", "ann", "--time", "2026-11-18T08:30:00Z"]
TRAIN, INFER = "lab:f32?threads=1", "lab:custom?kv=e4m3&threads=1"
CONTRACT = """
apiVersion: kcc/v1
kind: KernelContract
metadata: {name: c, version: 1.0.0}
spec:
  decision: {about: evaluation-set}
  assumptions: {tokensMax: 4096}
  numerical:
    - {id: N-1, metric: max_kl, atMost: 1e-9, level: L3}
    - {id: N-2, metric: mean_kl, atMost: 100, level: L3}
"""
POLICY = """
apiVersion: kcc/v1
kind: PromotionPolicy
metadata: {name: p, version: 1.0.0}
spec:
  offline: {}
  full: {}
  requests: {%s}
"""


@pytest.fixture
def asked(tmp_path):
    """Two requests of the lab's set, with a text that must not be stored unless it is asked for."""
    lines = (ROOT / "models/kcc-lab/eval.jsonl").read_text().splitlines()[:2]
    requests = [json.loads(line) | {"user": "somebody"} for line in lines]
    path = tmp_path / "r.jsonl"
    path.write_text("".join(json.dumps(request) + "\n" for request in requests))
    return path, requests


@pytest.fixture
def judge(kcc, uri, tmp_path, asked):
    contract = tmp_path / "c.yaml"
    contract.write_text(CONTRACT)

    def run(*more, train=TRAIN, infer=INFER, requests=None, who=WHO):
        return kcc("run", contract, "--train", train, "--infer", infer, "--requests", requests or asked[0], "--register", uri,
                   *who, *more)  # fmt: skip

    return run


def stored(kcc, uri, tmp_path):
    """The records of the register, by the request's id."""
    records = {}
    for entry in kcc("register", "list", "requests", "--register", uri, "--json").json["entries"]:
        path = tmp_path / "record.json"
        if kcc("register", "blob", entry["id"], "-o", path, "--register", uri).code == 0:
            record = json.loads(path.read_text())
            assert entry["id"] == "sha256:" + hashlib.sha256(path.read_bytes()).hexdigest()
            assert "somebody" not in json.dumps(entry) and record["request"] not in json.dumps(entry)
            records[record["request"]] = record
    return records
