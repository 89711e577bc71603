"""Metrics of one's own that Python computes: what reaches the core, and what is refused."""

import numpy as np
import pytest

import kcc
import kcc.metrics

CONTRACT = """
apiVersion: kcc/v1
kind: KernelContract
metadata: {name: own, version: 1.0.0}
spec:
  metrics:
    - DEFINITION
  numerical:
    - {id: N-1, metric: max_gap, atMost: 0.5, level: L2}
    - {id: N-2, metric: mean_abs_log_ratio, atMost: 9, level: L1}
"""
TRAIN = np.array([[-1.0, -2.0], [-1.0, -1.0], [-3.0, -1.0]])
INFER = np.array([[-1.25, -2.0], [-1.0, -1.5], [-3.0, -1.0]])


@pytest.fixture
def gap():
    @kcc.register_metric("gap", unit="nat", direction="lower", min=0)
    def gap(request, train, infer, mask):
        seen.append((request["id"], train.tolist(), infer.tolist(), None if mask is None else mask.tolist()))
        count = slice(None) if mask is None else mask
        return np.abs(train - infer)[count].max()

    seen = []
    gap.seen = seen
    yield gap
    kcc.metrics.unregister_metric("gap")


def contract(definition=None):
    return kcc.Contract(CONTRACT.replace("DEFINITION", definition or kcc.metrics.definition("gap")))


def verdict(report, clause=0):
    return report.clauses[clause]["slices"][0]["verdict"]


def test_values_reach_the_core(gap):
    own = contract()
    assert own.metrics[0]["version"].startswith("sha256:")
    report = kcc.judge(own, kcc.measure(TRAIN, INFER, own, requests=["a", "b", "c"]))
    assert verdict(report) == "satisfied"
    assert report.clauses[0]["slices"][0]["value"] == 0.5
    assert [row[0] for row in gap.seen] == ["a", "b", "c"]
    assert gap.seen[1][1:] == ([-1.0, -1.0], [-1.0, -1.5], None)
    assert report.data["labels"]["gap"]["unit"] == "nat"


def test_packed_rows_masks_and_logits_are_cut_by_request(gap):
    own = contract()
    mask = np.array([1, 1, 1, 0, 1, 1])
    summary = kcc.measure(TRAIN.reshape(-1), INFER.reshape(-1), own, lengths=[2, 3, 1], mask=mask, requests=["a", "b", "c"])
    assert kcc.judge(own, summary).clauses[0]["slices"][0]["value"] == 0.25
    assert gap.seen[1][1:] == ([-1.0, -1.0, -3.0], [-1.0, -1.5, -3.0], [True, False, True])
    gap.seen.clear()
    logits = np.zeros((2, 1, 4), dtype=np.float32)
    kcc.measure(logits, logits + 1, own, requests=["a", "b"])
    assert gap.seen[0][1] == [[0.0] * 4]


def test_none_and_nan_are_missing():
    for missing in (None, float("nan"), float("inf")):
        kcc.register_metric("gap", unit="nat", direction="lower", min=0, version="1")(
            lambda request, train, infer, mask, missing=missing: missing if request["id"] == "b" else 0.0
        )
        own = contract()
        assert verdict(kcc.judge(own, kcc.measure(TRAIN, INFER, own, requests=["a", "b", "c"]))) == "inconclusive"
    kcc.metrics.unregister_metric("gap")


def test_a_value_outside_the_range_is_an_error():
    kcc.register_metric("gap", unit="nat", direction="lower", min=0, version="1")(lambda *_: -1.0)
    own = contract()
    assert verdict(kcc.judge(own, kcc.measure(TRAIN, INFER, own))) == "error"
    kcc.metrics.unregister_metric("gap")


def test_another_definition_is_refused(gap):
    wrong = [kcc.metrics.definition("gap").replace("min: 0.0", "min: -1"), "{name: gap, from: gap, direction: lower}"]
    for definition in wrong:
        with pytest.raises(kcc.InvalidInput, match="otherwise than the registered function"):
            kcc.measure(TRAIN, INFER, contract(definition))


def test_the_source_is_the_version():
    def make(factor):
        def gap(request, train, infer, mask):
            return factor

        return gap

    first, second = kcc.metrics.source_version(make), kcc.metrics.source_version(make(1))
    assert first != second and second == kcc.metrics.source_version(make(2))  # its text, not what it closes over
    kcc.register_metric("gap", direction="lower")(make(1))
    with pytest.raises(kcc.InvalidInput, match="another version"):
        kcc.register_metric("gap", direction="lower", version="2")(make(1))
    kcc.metrics.unregister_metric("gap")


def test_a_field_of_the_same_name_and_a_failing_function_are_errors(gap):
    with pytest.raises(kcc.InvalidInput, match="which a registered metric computes"):
        kcc.measure(TRAIN, INFER, contract(), requests=[{"id": str(row), "gap": 0} for row in range(3)])
    kcc.metrics.unregister_metric("gap")
    kcc.register_metric("gap", unit="nat", direction="lower", min=0, version="1")(lambda *_: 1 / 0)
    with pytest.raises(kcc.EvidenceError, match="ZeroDivisionError"):
        kcc.measure(TRAIN, INFER, contract(), requests=["a", "b", "c"])


def test_the_monitor_computes_it_too(gap):
    step = kcc.Monitor(contract(), group=False).step(TRAIN, INFER)
    assert step.metrics["kcc/clause/N-1/all/value"] == 0.5


@pytest.mark.parametrize(
    "arguments",
    [{"direction": "down"}, {"direction": "lower", "unit": "sec"}, {"direction": "lower", "of": "token"},
     {"direction": "lower", "min": float("nan")}, {"direction": "lower", "max": "1"}],
)  # fmt: skip
def test_bad_registrations_are_refused(arguments):
    with pytest.raises(kcc.Error):
        kcc.register_metric("bad", **arguments)
