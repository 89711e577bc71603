"""Bad input over the whole public interface: what kcc raises is a kcc.Error, always.

Arguments that a function does not have, or lacks, stay Python's own TypeError: those are calls that
were written wrongly, not input.
"""

import collections
import inspect
import os
import pathlib

import numpy as np
import pytest
import torch

import kcc

CONTRACT = kcc.Contract("""
apiVersion: kcc/v1
kind: KernelContract
metadata: {name: test, version: 1.0.0}
spec:
  numerical:
    - {id: N-1, metric: mean_abs_log_ratio, atMost: 0.02, level: L3}
""")
POLICY = kcc.MonitorPolicy("""
apiVersion: kcc/v1
kind: MonitorPolicy
metadata: {name: test, version: 1.0.0}
spec:
  falseAlarms: 1 per 10^6 requests
  panic: serve-safest
  kernels: [{name: fast, role: infer}, {name: safe, role: fallback}]
""")
ROLLOUT = np.full((4, 8), -1.0)
TRAIN = ROLLOUT + 0.01 * np.arange(-8, 0)
TRUNCATE = {"weight": {"mode": "truncate", "high": 2.0}}
SUMMARY = kcc.measure(TRAIN, ROLLOUT, CONTRACT)
BATCH = kcc.rl.Batch(TRAIN, ROLLOUT)


class Odd:
    """Nothing that any argument is, and of no use where something is asked of it."""

    shape = None
    dtype = "odd"

    def __repr__(self):
        return "Odd()"


class Liar:
    def __dlpack_device__(self):
        raise RuntimeError("no device")


RAGGED = [[1.0, 2.0], [3.0]]
# What no argument takes; each argument below is given all of it, and what else belongs to it.
NOTHINGS = [Odd(), object, {1: {2}}, [Odd()], 1j, b"\xff\xfe", "\ud800", "a\0b", RAGGED, lambda: 0]
ARRAYS = [*NOTHINGS, None, "text", 5, [], {}, set(), [[None]], [["a"]], [[10**400]], [[1.0, Odd()]], Liar(),
          np.array([object()]), np.array([["a"]]), np.zeros((4, 8), complex), np.zeros((4, 8), "M8[s]"), np.zeros((2, 2, 2, 2)),
          np.zeros(()), np.zeros((4, 0)), np.full((4, 8), np.nan), torch.zeros((4, 8), dtype=torch.complex64),
          torch.zeros((4, 8)).to_sparse(), torch.zeros((4, 8), dtype=torch.bfloat16, device="meta")]  # fmt: skip
OPTIONAL_ARRAYS = [each for each in ARRAYS if each is not None]
TEXTS = [*NOTHINGS, 5, 2.5, [], {}]
NUMBERS = [*NOTHINGS, "text", [], {}, [1, 2], np.zeros(3), 10**400]
COUNTS = [*NOTHINGS, "text", [], {}, 2.5, -7, np.zeros(3)]
HANDLES = [*NOTHINGS, 5, "text", [], {}, 2.5]




# function, its good arguments, and by argument what is bad for it.
TABLE = {
    "Contract": (kcc.Contract, {"yaml": "x: 1"}, {"yaml": [*TEXTS, None, "x: 1"]}),
    "Contract.name": (kcc.Contract, {"yaml": "x: 1"}, {"name": TEXTS}),
    "Contract.read": (kcc.Contract.read, {"path": "x"}, {"path": [*NOTHINGS, None, 5, 2.5, [], "/no/such", "/", ""]}),
    "check": (kcc.check, {"yaml": "x: 1"}, {"yaml": [*TEXTS, None], "name": TEXTS}),
    "bound": (kcc.bound, {"linf": 0.1}, {"linf": [*NUMBERS, None, -1, float("nan")], "tokens": [*NUMBERS, -1], "advantages": TEXTS, "nonsense": [1]}),
    "register_metric": (kcc.register_metric, {"name": "cost", "direction": "lower"},
                        {"name": [*TEXTS, None, "Cost", "", "a b"], "direction": [*TEXTS, None, "down"], "unit": [*TEXTS, None, "sec"],
                         "of": [*TEXTS, None, "token"], "min": [*NUMBERS, float("nan")], "max": [*NUMBERS, True, float("inf")],
                         "version": [*TEXTS, "two words", "x" * 200]}),
    "register_metric()": (kcc.register_metric("cost", direction="lower", version="1"), {"function": None}, {"function": [*HANDLES, None]}),
    "Summary": (kcc.Summary, {"raw": None}, {"raw": [*HANDLES, None]}),
    "Summary.read": (kcc.Summary.read, {"path": "x"}, {"path": [*NOTHINGS, None, 5, [], "/no/such"]}),
    "Summary.from_bytes": (kcc.Summary.from_bytes, {"data": b""}, {"data": [*NOTHINGS, None, "text", 5, [], b"", b"kccs"]}),
    "Summary.write": (SUMMARY.write, {"path": "x"}, {"path": [*NOTHINGS, None, 5, [], "/no/such/file", ""]}),
    "Summary.merge": (SUMMARY.merge, {"other": None}, {"other": [*HANDLES, None, SUMMARY, kcc.rl.RlSummary(), CONTRACT]}),
    "Report": (kcc.Report, {"contract": CONTRACT, "summary": SUMMARY, "stage": "offline", "about": None},
               {"contract": [*HANDLES, None, SUMMARY], "summary": [*HANDLES, None, CONTRACT], "stage": [*TEXTS, "late"], "about": [*TEXTS, "us"]}),
    "judge": (kcc.judge, {"contract": CONTRACT, "summary": SUMMARY},
              {"contract": [*HANDLES, None, SUMMARY], "summary": [*HANDLES, None, CONTRACT], "stage": [*TEXTS, "late"], "about": [*TEXTS, "us"]}),
    "Report.render": (kcc.judge(CONTRACT, SUMMARY).render, {"format": "json"}, {"format": [*TEXTS, None, "pdf"]}),
    "measure_traces": (kcc.measure_traces, {"train": "examples/traces/train", "infer": "examples/traces/infer"},
                       {"train": [*NOTHINGS, None, 5, "/no"], "infer": [*NOTHINGS, None, 5, "/no"], "contract": HANDLES, "threads": [*COUNTS, None],
                        "device": [*TEXTS, "tpu"]}),
    "Measurement": (kcc.Measurement, {"raw": None, "keep": []}, {"raw": [*HANDLES, None]}),
    "begin_measure": (kcc.begin_measure, {"train": TRAIN, "infer": ROLLOUT},
                      {"train": [Odd(), 5, None, RAGGED], "infer": [Odd(), 5, None, RAGGED], "contract": [*HANDLES, SUMMARY], "tokens": [Odd()], "threads": [*COUNTS, None]}),
    "measure": (kcc.measure, {"train": TRAIN, "infer": ROLLOUT},
                {"train": ARRAYS, "infer": ARRAYS, "contract": [*HANDLES, SUMMARY], "logits": NOTHINGS, "tokens": OPTIONAL_ARRAYS,
                 "mask": OPTIONAL_ARRAYS, "advantages": [each for each in OPTIONAL_ARRAYS if not isinstance(each, np.ndarray) or each.dtype.kind != "f"],
                 "lengths": OPTIONAL_ARRAYS, "requests": [*NOTHINGS, 5, [1] * 4, [{}] * 4, [{"id": 5}] * 4, [None] * 4, ["a"] * 4, "abcd", [{"id": "a", "x": Odd()}] * 4],
                 "temperature": [*NUMBERS, None, 0, -1, float("nan")], "sampling_temperature": [*NUMBERS, -1, float("nan")],
                 "sampled_by": [*TEXTS, "me"], "train_fingerprint": TEXTS, "infer_fingerprint": TEXTS, "clauses_only": NOTHINGS, "threads": [*COUNTS, None]}),
    "Monitor": (kcc.Monitor, {"contract": CONTRACT},
                {"contract": [*NOTHINGS, 5, 2.5, [], None, "/no/such", SUMMARY], "prefix": [Odd(), 5, None, b"x"], "threads": [*COUNTS, None],
                 "stage": [*TEXTS, "late"], "about": [*TEXTS, "us"], "limits": [5, "x", [], RAGGED, {"token.k3": Odd()}, {"no.such": 1.0}, {"token.k3": float("nan")}],
                 "correction": [5, "x", [], RAGGED, {"weight": Odd()}, {"nonsense": 1}]}),
    "Monitor with empty limits": (kcc.Monitor, {"limits": {"token.k3": 1}}, {"limits": [{}, None, 5, [], {"token.k3": "x"}]}),
    "Monitor.step": (kcc.Monitor(CONTRACT, group=False).step, {"train": TRAIN, "rollout": ROLLOUT},
                     {"train": ARRAYS, "rollout": ARRAYS, "mask": OPTIONAL_ARRAYS, "advantages": OPTIONAL_ARRAYS, "old": OPTIONAL_ARRAYS,
                      "tags": [*NOTHINGS, 5, [], ["math"] * 4, [5] * 4, [[5]] * 4, [["a"]] * 3, "abcd"], "slices": [*NOTHINGS, 5, [], "abcd", [5] * 4, [""] * 4, ["a"] * 3],
                      "ids": [*NOTHINGS, 5, [], [5] * 4, ["a"] * 4, ["a"] * 3, "abc"],
                      "logits": [*NOTHINGS, 5, "ab", (1, 2), (Odd(), Odd()), (None, None), (TRAIN, ROLLOUT)], "tokens": [*NOTHINGS, 5, TRAIN]}),
    "Monitor with a policy": (kcc.Monitor, {"contract": CONTRACT, "policy": POLICY},
                              {"policy": [*NOTHINGS, 5, 2.5, [], "/no/such", kcc.MonitorPolicy("x: 1")], "kernel": [*TEXTS, "slow", np.zeros(3)]}),
    "Monitor.step with a policy": (kcc.Monitor(CONTRACT, policy=POLICY, group=False).step, {"train": TRAIN, "rollout": ROLLOUT},
                                   {"sessions": [*NOTHINGS, 5, [], "abcd", [2.5] * 4, [""] * 4, ["a\0b"] * 4, ["\ud800"] * 4, ["a"] * 3, np.zeros(4)],
                                    "time_ms": [*COUNTS[:-2], 10**400], "kernel": [*TEXTS, "slow", np.zeros(3)]}),
    "Monitor.restore": (kcc.Monitor(CONTRACT, policy=POLICY).restore, {"state": {}},
                        {"state": [*NOTHINGS, None, 5, [], {}, kcc.Monitor(CONTRACT).state(), {"steps": "x", "total": b"", "online": b""},
                                   {**kcc.Monitor(CONTRACT, policy=POLICY).state(), "online": b"x"}]}),
    "MonitorPolicy": (kcc.MonitorPolicy, {"yaml": "x: 1"}, {"yaml": [each for each in [*TEXTS, None] if each != "a\0b"], "name": TEXTS}),
    "MonitorPolicy.read": (kcc.MonitorPolicy.read, {"path": "x"}, {"path": [*NOTHINGS, None, 5, 2.5, [], "/no/such", "/", ""]}),
    "OnlineMonitor": (kcc.OnlineMonitor, {"contract": CONTRACT, "policy": POLICY},
                      {"contract": [*HANDLES, None, SUMMARY], "policy": [*HANDLES, None, kcc.MonitorPolicy("x: 1")], "stage": [*TEXTS, "late"]}),
    "OnlineMonitor.restore": (kcc.OnlineMonitor.restore, {"contract": CONTRACT, "policy": POLICY, "data": b""},
                              {"data": [*NOTHINGS, None, "text", 5, [], b"", kcc.OnlineMonitor(CONTRACT, POLICY).save()[:-1]]}),
    "OnlineMonitor.observe": (kcc.OnlineMonitor(CONTRACT, POLICY).observe, {"observation": {}},
                              {"observation": [*NOTHINGS, None, "text", 5, [], {}, "{}", {"request": "a"}, {"request": "a", "kernel": "slow", "time_ms": 0}]}),
    "OnlineMonitor.should_audit": (kcc.OnlineMonitor(CONTRACT, POLICY).should_audit, {"request": "a", "kernel": "fast"},
                                   {"request": [*TEXTS, None], "kernel": [*TEXTS, None, "slow"], "session": TEXTS, "time_ms": [*NOTHINGS, None, 2.5, "x", 2**63]}),
    "rl.Batch": (kcc.rl.Batch, {"train": TRAIN, "rollout": ROLLOUT},
                 {"train": [each for each in ARRAYS if not (isinstance(each, np.ndarray) and each.dtype == float and np.isnan(each).any())],
                  "offsets": OPTIONAL_ARRAYS, "slices": [*NOTHINGS, 5, "abcd", [None] * 4, ["\ud800"] * 4]}),
    "rl.diagnose": (kcc.rl.diagnose, {"train": TRAIN, "rollout": ROLLOUT},
                    {"train": ARRAYS, "rollout": ARRAYS, "mask": OPTIONAL_ARRAYS, "old": OPTIONAL_ARRAYS, "advantages": OPTIONAL_ARRAYS,
                     "confidence": [*NUMBERS, None, 0, 2, -1, float("nan")], "threads": [*COUNTS, None]}),
    "rl.correct": (kcc.rl.correct, {"train": TRAIN, "rollout": ROLLOUT, "correction": TRUNCATE},
                   {"correction": [*NOTHINGS, None, 5, [], "x", "{", {"weight": 5}], "out": [*NOTHINGS, 5, (1, 2), (Odd(), Odd()), (None, [1]), (RAGGED, None)], "threads": [*COUNTS, None]}),
    "rl.correct_batch": (kcc.rl.correct_batch, {"batch": BATCH, "correction": TRUNCATE}, {"batch": [*HANDLES, None, TRAIN], "correction": [Odd(), None, 5]}),
    "rl.step": (kcc.rl.step, {"train": TRAIN, "rollout": ROLLOUT, "correction": TRUNCATE}, {"summary": [*HANDLES, SUMMARY], "correction": [Odd(), None]}),
    "rl.step_batch": (kcc.rl.step_batch, {"batch": BATCH, "correction": TRUNCATE}, {"batch": [*HANDLES, None], "summary": [*HANDLES, SUMMARY], "threads": [*COUNTS, None]}),
    "rl.lint": (kcc.rl.lint, {"train": TRAIN, "rollout": ROLLOUT}, {"train": ARRAYS, "correction": [*NOTHINGS, 5, [], "x"], "threads": []}),
    "rl.replay": (kcc.rl.replay, {"train": TRAIN, "rollout": ROLLOUT}, {"format": [*TEXTS, None, "pdf", np.zeros(3)], "threads": [*COUNTS, None]}),
    "rl.read_dump": (lambda path, **more: kcc.rl.read_dump(path, **more), {"path": "examples/rl/step.safetensors"},
                     {"path": [*NOTHINGS, None, 5, [], "/no/such", "/", ""], "slice_by": [*TEXTS, "tags"]}),
    "rl.dialect": (kcc.rl.dialect, {"name": "verl", "train": TRAIN, "rollout": ROLLOUT},
                   {"name": [*TEXTS, None, "varl"], "options": [*NOTHINGS, 5, [], "x", {"a": Odd()}, {"nonsense": 1}], "function": [*TEXTS, "no"]}),
    "rl.Dialect": (kcc.rl.Dialect, {"name": "verl", "batch": BATCH}, {"batch": [*HANDLES, None, TRAIN]}),
    "rl.Dialect.array": (kcc.rl.Dialect("verl", BATCH).array, {"name": "mask"}, {"name": [*TEXTS, None, "no"]}),
    "rl.RlSummary": (kcc.rl.RlSummary, {}, {"raw": HANDLES}),
    "rl.RlSummary.from_bytes": (kcc.rl.RlSummary.from_bytes, {"data": b""}, {"data": [*NOTHINGS, None, "text", 5, [], b"", b"kccrl2\n"]}),
    "rl.RlSummary.merge": (kcc.rl.RlSummary().merge, {"other": None}, {"other": [*HANDLES, None, SUMMARY]}),
    "rl.RlSummary.add": (kcc.rl.RlSummary().add, {"batch": BATCH}, {"batch": [*HANDLES, None, TRAIN], "threads": [*COUNTS, None]}),
    "rl.RlSummary.figures": (kcc.rl.RlSummary().add(BATCH).figures, {}, {"confidence": [*NUMBERS, None, 0, 2]}),
    "rl.RlSummary.judge": (kcc.rl.RlSummary().add(BATCH).judge, {"limits": {"token.k3": 1}},
                           {"limits": [*NOTHINGS, None, 5, "x", [], {"token.k3": "x"}, {"no": 1}], "confidence": [*NUMBERS, None, 7]}),
}  # fmt: skip



@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    """A path of bytes is a path: what is written there stays out of the repository."""
    monkeypatch.chdir(tmp_path)


def outcomes(name):
    """(argument, value, what was raised or None) for every row of the table."""
    function, arguments, bad = TABLE[name]
    for argument, values in bad.items():
        for value in values:
            try:
                result = function(**{**arguments, argument: value})
                if isinstance(result, kcc.Monitor):  # limits and corrections are read by the first step
                    result._group = False
                    result.step(TRAIN, ROLLOUT)
                yield argument, value, None
            except Exception as error:
                yield argument, value, error


@pytest.mark.parametrize("name", TABLE)
def test_what_is_raised_is_an_error_of_kcc(name):
    wrong, counts = [], collections.Counter()
    for argument, value, error in outcomes(name):
        counts["raised" if error is not None else "taken"] += 1
        if error is not None and not isinstance(error, kcc.Error):
            wrong.append(f"{argument}={value!r:.60}: {type(error).__name__}: {error}")
        elif error is not None and not str(error):
            wrong.append(f"{argument}={value!r:.60}: no message")
        elif isinstance(error, kcc.InternalError):
            wrong.append(f"{argument}={value!r:.60}: {error}")
    assert not wrong, "\n".join(wrong)
    assert counts["raised"] >= counts["taken"], counts  # the table is of bad input


def test_nothing_of_what_no_argument_takes_is_taken():
    """Odd values are refused everywhere, not ignored."""
    taken = [(name, argument) for name in TABLE for argument, value, error in outcomes(name) if error is None and isinstance(value, Odd)]
    assert not taken


def test_the_table_covers_the_public_interface():
    exceptions = {name for name in kcc.__all__ if inspect.isclass(getattr(kcc, name)) and issubclass(getattr(kcc, name), Exception)}
    callables = {name for name in kcc.__all__ if callable(getattr(kcc, name))} - exceptions - {"Step", "TopK"}  # data alone
    callables |= {f"rl.{name}" for name, each in vars(kcc.rl).items()
                  if callable(each) and not name.startswith("_") and each.__module__ == "kcc.rl"} - {"rl.Corrected", "rl.Dump"}  # fmt: skip
    assert callables <= set(TABLE), callables - set(TABLE)


def test_a_tag_list_is_no_text():
    with pytest.raises(kcc.DTypeError, match="tags.*row 0.*str"):
        kcc.Monitor(CONTRACT, group=False).step(TRAIN, ROLLOUT, tags=["math"] * 4)


def test_paths_of_every_kind_are_taken(tmp_path):
    for path in (tmp_path / "a.kccs", str(tmp_path / "b.kccs"), os.fsencode(tmp_path / "c.kccs")):
        SUMMARY.write(path)
        assert kcc.Summary.read(path).to_bytes() == SUMMARY.to_bytes()
    assert isinstance(tmp_path, pathlib.Path)
