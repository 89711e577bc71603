"""kcc monitor explain and simulate through the program."""

import json
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONTRACT = ROOT / "examples/monitor/contract.yaml"
POLICY = ROOT / "examples/monitor/policy.yaml"
FP8 = ROOT / "contracts/fp8-serving.yaml"
SERVING = ROOT / "policies/monitor-serving.yaml"


def test_explain_says_signal_order_delay_and_cost(kcc):
    outcome = kcc("monitor", "explain", CONTRACT, "--policy", POLICY)
    assert (outcome.code, outcome.err) == (0, "")
    for words in ("N-1 on arithmetic", "1 detector on max_kl", "requests go to bf16", "2 times the limit (0.1)", "can become satisfied",
                  "Time and silence release nothing"):  # fmt: skip
        assert words in " ".join(outcome.out.split()), words
    data = kcc("monitor", "explain", CONTRACT, "--policy", POLICY, "--json").json
    assert data["detectors"] == 2 and data["alarmLevel"] == 200_000
    for clause in data["clauses"]:
        twice, thrice = clause["shifts"]
        assert thrice["observations"] < twice["observations"] and twice["unseen"] == 0


def test_explain_names_what_can_never_be_decided(kcc):
    data = kcc("monitor", "explain", FP8, "--policy", SERVING, "--json").json
    never = [clause for clause in data["clauses"] if not clause["certifies"]]
    assert never and all(clause["why"] or clause["signal"] == "existence" for clause in never)
    assert "never becomes satisfied here" in kcc("monitor", "explain", FP8, "--policy", SERVING).out


def test_simulate_writes_figures_and_a_page(kcc, tmp_path):
    flags = ["--policy", POLICY, "--clause", "N-1", "--runs", "100", "--observations", "4000"]
    outcome = kcc("monitor", "simulate", CONTRACT, *flags, "-o", tmp_path / "a")
    assert (outcome.code, outcome.err) == (0, "")
    assert "3 times the limit" in outcome.out
    figures = (tmp_path / "a/operating.json").read_text()
    data = json.loads(figures)
    delays = [shift["observations"] for shift in data["shifts"]]
    assert delays == sorted(delays, reverse=True) and data["shifts"][-1]["unseen"] == 0
    assert data["inControl"]["falseAlarms"] <= 100 * data["inControl"]["bound"] + 4
    page = (tmp_path / "a/operating.html").read_text()
    assert "Operating curves of N-1" in page and "<script src" not in page
    again = kcc("monitor", "simulate", CONTRACT, *flags, "-o", tmp_path / "b", "--json")
    assert again.out == figures and (tmp_path / "b/operating.html").read_text() == page
    other = kcc("monitor", "simulate", CONTRACT, *flags, "--seed", "2", "-o", tmp_path / "c", "--json")
    assert other.out != figures


@pytest.mark.parametrize(
    ("contract", "clause", "message"),
    [(CONTRACT, "N-2", "did you mean 'N-1'?"), (CONTRACT, "speed", "there are N-1")],
)
def test_simulate_names_what_it_cannot_draw(kcc, tmp_path, contract, clause, message):
    outcome = kcc("monitor", "simulate", contract, "--policy", POLICY, "--clause", clause, "-o", tmp_path)
    assert outcome.code == 2 and message in outcome.err
