"""A register in a file belongs to one gateway at a time, and what that finds stands there."""

import json

import gateway_processes
import pytest

CONTRACT = json.loads(json.dumps(gateway_processes.CONTRACT))
CONTRACT["spec"]["numerical"][0] |= {"exceedance": "30%", "atMost": 2}


def say(gateway):
    body = {"model": "kcc-lab", "messages": [{"role": "user", "content": "ask-1 words-2"}]}
    return gateway.ask("POST", "/v1/chat/completions", body)


def test_a_guarded_kernel_is_an_incident_and_a_second_gateway_waits_for_the_end_of_the_first(kcc, pool, tmp_path, until):
    register, uri = f"sqlite:{tmp_path / 'kcc.db'}", str(tmp_path / "kcc.db")
    kernels = {name: pool.scripted(tmp_path, name) for name in ("a", "b", "audit")}
    places = {"a": ("infer", kernels["a"].url), "b": ("guard", kernels["b"].url), "audit": ("audit", kernels["audit"].url)}
    first = pool.gateway(tmp_path / "first", places, contract=CONTRACT, register=register)
    first.until_scored(lambda: say(first))
    with pytest.raises(RuntimeError, match="another gateway has this SQLite register"):
        pool.gateway(tmp_path / "second", places, contract=CONTRACT, register=register)
    kernels["a"].behave(shift=-4)
    until(lambda: say(first).headers["x-kcc-kernel"] == "b", 60)
    listed = until(lambda: [line for line in kcc("register", "list", "incidents", "--register", uri).out.splitlines() if "a-" in line], 20)
    assert len(listed) == 1
    assert kcc("register", "verify", "--register", uri).code == 0
    first.kill()
    second = until(lambda: started(pool, tmp_path, places, register), 20)
    assert say(second).status == 200


def started(pool, folder, places, register):
    """None while the database has not seen that the first is gone."""
    try:
        return pool.gateway(folder / "second", places, contract=CONTRACT, register=register)
    except RuntimeError:
        return None


def test_a_register_that_knows_no_pair_says_that_it_rules_nobody_out(kcc, pool, tmp_path):
    kernels = {name: pool.scripted(tmp_path, name) for name in ("a", "audit")}
    places = {"a": ("infer", kernels["a"].url), "audit": ("audit", kernels["audit"].url)}
    without = pool.gateway(tmp_path / "without", places, contract=CONTRACT, register=f"sqlite:{tmp_path / 'one.db'}")
    assert without.status["evaluator"]["registerWarning"] == "", "no kernel has a fingerprint that could be ruled out"
    policy = gateway_processes.policy_of(places)
    policy["spec"]["kernels"][0]["fingerprint"] = "scripted/a"
    gateway = pool.gateway(tmp_path / "with", places, contract=CONTRACT, policy=policy, register=f"sqlite:{tmp_path / 'two.db'}")
    assert say(gateway).headers["x-kcc-kernel"] == "a"
    warning = gateway.status["evaluator"]["registerWarning"]
    assert "rules out no kernel" in warning and warning in kcc("status", f"http://{gateway.admin}").out
    assert [row["reason"] for row in gateway.status["history"] if row["kind"] == "register"] == [warning]
