"""A green that shows nothing: one trace on both sides, a kernel against itself, sides exchanged."""

import json
import shutil

import numpy as np

import pairs

CONTRACT = "contracts/server-top-k.yaml"


def run(kcc, train, infer, *flags):
    done = kcc("run", CONTRACT, "--train", f"trace:{train}", "--infer", f"trace:{infer}", "--json", *flags)
    report = json.loads(done.out)
    return done.code, report["verdict"], report.get("warnings", [])


def test_one_trace_on_both_sides_is_satisfied_and_says_that_it_is_one(kcc, tmp_path):
    train, infer, *_ = pairs.logits_pair(tmp_path, noise=1e-4)
    shutil.copytree(train, tmp_path / "copy")
    for other in (train, tmp_path / "copy"):
        code, verdict, warnings = run(kcc, train, other)
        assert (code, verdict) == (0, "satisfied")
        assert len(warnings) == 1 and "are the same trace" in warnings[0]
    assert run(kcc, train, infer) == (0, "satisfied", [])


def test_the_warning_stands_in_every_form_of_the_report(kcc, tmp_path):
    train, *_ = pairs.logits_pair(tmp_path, requests=3)
    out = tmp_path / "out"
    done = kcc("run", CONTRACT, "--train", f"trace:{train}", "--infer", f"trace:{train}", "--report", out)
    assert "warning: train and infer are the same trace" in done.out
    for name in ("report.json", "report.md", "report.html"):
        assert "train and infer are the same trace" in (out / name).read_text(), name


def test_a_kernel_against_itself_is_named(kcc, tmp_path):
    train, infer, *_ = pairs.logits_pair(tmp_path, noise=1e-4)
    info = json.loads((infer / "trace.json").read_text())
    (infer / "trace.json").write_text(json.dumps(info | {"kernelFingerprint": "train"}))
    _, verdict, warnings = run(kcc, train, infer)
    assert verdict == "satisfied" and ["the same fingerprint 'train'" in text for text in warnings] == [True]


def test_arrays_given_twice_are_named():
    import kcc

    logits = np.random.default_rng(1).normal(0, 2, (2, 4, 9)).astype(np.float32)
    contract = kcc.Contract.read("contracts/minimal.yaml")
    tokens = np.zeros(8, np.int32)
    warnings = kcc.judge(contract, kcc.measure(logits, logits, contract, tokens=tokens)).data["warnings"]
    assert any("the same numbers to the last bit on all 8 tokens" in text for text in warnings)
    named = kcc.measure(logits, logits, contract, tokens=tokens, train_fingerprint="a", infer_fingerprint="b")
    assert not any("to the last bit" in text for text in kcc.judge(contract, named).data.get("warnings", []))
