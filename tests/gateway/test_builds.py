"""Another build under a kernel's name: its evidence begins anew, and what was guarded stays guarded."""

import gateway_processes
import pytest

CONTRACT = gateway_processes.CONTRACT | {"spec": gateway_processes.CONTRACT["spec"] | {"slices": [], "numerical": [
    {"id": "N-1", "metric": "max_abs_log_ratio", "atMost": 2, "exceedance": "30%", "window": "request", "level": "L2"}]}}  # fmt: skip


def say(gateway, number=1):
    body = {"model": "kcc-lab", "messages": [{"role": "user", "content": f"ask-{number} words-2"}]}
    return gateway.ask("POST", "/v1/chat/completions", body)


def kernel(gateway, name="a"):
    return next(row for row in gateway.status["kernels"] if row["name"] == name)


def renewals(gateway):
    return [row for row in gateway.status["history"] if row["kind"] == "renew"]


@pytest.fixture
def group(pool, tmp_path):
    class Group:
        kernels = {name: pool.scripted(tmp_path, name) for name in ("a", "b", "audit")}
        other = pool.scripted(tmp_path, "other")  # another name, and so another fingerprint

        def start(self, a=None):
            places = {"a": ("infer", (a or self.kernels["a"]).url), "b": ("guard", self.kernels["b"].url),
                      "audit": ("audit", self.kernels["audit"].url)}  # fmt: skip
            return pool.gateway(tmp_path / "gateway", places, contract=CONTRACT)

    return Group()


def until_verdict(gateway, until, verdict):
    gateway.until_scored(lambda: say(gateway))
    count = iter(range(10**6))
    until(lambda: say(gateway, next(count)).status == 200 and kernel(gateway)["verdict"] == verdict, 60)


def test_a_restart_with_the_same_server_goes_on_and_with_another_begins_anew(kcc, group, until):
    gateway = group.start()
    until_verdict(gateway, until, "satisfied")
    until(lambda: "scripted/a" in kernel(gateway)["build"])
    gateway.end()
    same = group.start()
    assert kernel(same)["verdict"] == "satisfied" and renewals(same) == []
    assert say(same).status == 200
    same.end()
    moved = group.start(a=group.other)
    assert kernel(moved)["verdict"] == "inconclusive"
    assert len(renewals(moved)) == 1 and "now, and was" in renewals(moved)[0]["reason"]
    until(lambda: say(moved).status == 200 and "scripted/other" in kernel(moved)["build"], 30)
    until_verdict(moved, until, "satisfied")
    moved.end()
    log = moved.folder / "state/decisions.jsonl"
    assert '"renewed":{"kernel":"a"' in log.read_text()
    replay = kcc("monitor", "replay", log, "--contract", moved.contract, "--policy", moved.policy)
    assert replay.code == 0, replay.out


def test_a_guarded_kernel_is_not_freed_by_another_server_behind_its_name(group, until):
    gateway = group.start()
    gateway.until_scored(lambda: say(gateway))
    group.kernels["a"].behave(shift=-4)
    until(lambda: say(gateway).headers["x-kcc-kernel"] == "b", 60)
    gateway.kernels["a"] = ("infer", group.other.url)
    gateway.write()
    gateway.reload()
    until(lambda: renewals(gateway))
    assert kernel(gateway)["state"] == "guarded" and kernel(gateway)["verdict"] == "violated"
    for i in range(3):
        assert say(gateway, i).headers["x-kcc-kernel"] == "b"
    # Its probes are those of the new one.
    count = iter(range(10**6))
    until(lambda: say(gateway, next(count)).headers["x-kcc-kernel"] == "a", 60, "the new server's evidence does not bring it back")
    assert group.other.counts["asked"] > 5


def test_a_build_that_changes_while_it_runs_is_told(pool, group, until):
    gateway = group.start()
    until_verdict(gateway, until, "satisfied")
    until(lambda: "scripted/a" in kernel(gateway)["build"])
    port = group.kernels["a"].port
    group.kernels["a"].end()
    pool.scripted(gateway.folder, "replaced", port=port)
    until(lambda: say(gateway).status == 200 and "build" in [row["kind"] for row in gateway.status["history"]], 30)
    assert renewals(gateway) == [] and "its answers say scripted/replaced now" in kernel(gateway)["build"]
    gateway.end()
    again = group.start()
    until(lambda: say(again).status == 200 and renewals(again), 30, "nor does a restart see it")
    assert kernel(again)["verdict"] == "inconclusive"
