"""The RL functions of the C interface keep the words of version 1: programs compiled against them read these bytes.

tests/data/rl/version1 was written by the library before `kcc rl --json` had a version 2 (docs/rl.md "JSON"). A file that
must change is a broken promise, not a fixture to make again.
"""

import ctypes
import hashlib
import json
import pathlib

import numpy as np
import pytest

from kcc import _library as c
from kcc import rl

ROOT = pathlib.Path(__file__).resolve().parents[2]
KEPT = ROOT / "tests/data/rl/version1"
STEP = ROOT / "examples/rl/step.safetensors"
TEMPERED = ROOT / "examples/rl/tempered.npz"
LIMITS = {"token.tv": 0.01, "token.k3": {"atMost": 0.01}, "tv_rows": 0.05, "sequence.ess": {"atLeast": 0.5}}
CORRECTION = {
    "weight": {"mode": "clip", "level": "sequence", "low": 0.5, "high": 2, "batch_normalize": True},
    "reject": [{"statistic": "k3", "aggregate": "sequence_mean", "high": 0.01}],
    "veto": {"low": 1e-4},
}
IDLE = {"weight": {"mode": "truncate", "high": 0.9}, "veto": {"low": 1e-4}}


def step_with_old():
    """With everything that adds a key: slices, advantages, log-probs of the weights that sampled, −inf on one side."""
    dump = dict(rl.read_dump(STEP))
    dump["old"] = dump["rollout"] + 0.5 * (dump["train"] - dump["rollout"])
    return rl.Batch(**dump)


def one_sided():
    """One token: no spread, no tail, and a token that the trainer gives no chance."""
    return rl.Batch(np.array([[-1.0, -np.inf]]), np.array([[-1.0, -2.0]]))


def summary(batch):
    return rl.RlSummary().add(batch, threads=1)


def of_batch(name, batch, *arguments):
    return c.text(name, ctypes.byref(batch.call), *arguments)


def as_json(value):
    return json.dumps(value).encode()


TEXTS = {
    "figures": lambda: c.text("kcc_rl_summary_figures", summary(step_with_old()), 0.95),
    "figures_one_sided": lambda: c.text("kcc_rl_summary_figures", summary(one_sided()), 0.95),
    "judge": lambda: c.text("kcc_rl_summary_judge", summary(step_with_old()), as_json(LIMITS), 0.95),
    "judge_one_sided": lambda: c.text("kcc_rl_summary_judge", summary(one_sided()), b'{"tail_index": 1}', 0.95),
    "correct": lambda: of_batch("kcc_rl_correct", step_with_old(), as_json(CORRECTION), 1, None, None),
    "lint": lambda: of_batch("kcc_rl_lint", rl.Batch(**rl.read_dump(TEMPERED))),
    "lint_correction": lambda: of_batch("kcc_rl_lint_correction", step_with_old(), as_json(IDLE), 1),
    "replay": lambda: of_batch("kcc_rl_replay", step_with_old(), 1, b"json"),
    "dialect_metrics": lambda: c.text("kcc_rl_dialect_metrics", rl.Dialect("verl", step_with_old())),
}


@pytest.mark.parametrize("name", TEXTS)
def test_the_text_is_that_of_version_1(name):
    assert TEXTS[name]() == (KEPT / f"{name}.json").read_bytes()


def test_the_replay_page_is_that_of_version_1():
    page = of_batch("kcc_rl_replay", step_with_old(), 1, b"html")
    assert hashlib.sha256(page).hexdigest() == (KEPT / "replay_page.sha256").read_text().strip()
