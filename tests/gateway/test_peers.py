"""Several gateways at one register in PostgreSQL: one decides, the others follow, and one takes over where it dies."""

import json
import os
import signal
import threading
import time

import gateway_processes
import pytest

CONTRACT = json.loads(json.dumps(gateway_processes.CONTRACT))
CONTRACT["spec"]["numerical"][0] |= {"exceedance": "30%", "atMost": 2}
FAULT = {"name": "wrong-build", "where": "'math' in tags", "drift": {"parameter": "noise", "from": 3, "to": 3, "requests": 1}}
PAUSE_S = 0.05
SAME_ROUTE_S = 2  # of all gateways, after one of them was sent elsewhere


def say(gateway, text="ask-1 words-2", tags=()):
    body = {"model": "kcc-lab", "messages": [{"role": "user", "content": text}], "tags": list(tags)}
    return gateway.ask("POST", "/v1/chat/completions", body)


def serves(gateway):
    return gateway.status["route"]["serves"]


def kernel(gateway, name):
    return next(row for row in gateway.status["kernels"] if row["name"] == name)


def moved_at(gateway, name, after=0):
    """When the gateway began to send requests to the kernel, by its history; the one clock of this machine."""
    times = [row["atMs"] for row in gateway.status["history"]
             if row["kind"] in ("route", "start") and row["serves"] == name and row["atMs"] >= after]  # fmt: skip
    return times[0] if times else None


class Load:
    """Requests to some gateways, one after the other in a thread of each; so slowly that all can be scored."""

    def __init__(self, *gateways, text="ask-{} words-2", tags=("math",)):
        self.gateways, self.text, self.tags, self.wrong, self.ended = gateways, text, tags, [], threading.Event()
        self.threads = [threading.Thread(target=self.run, args=(gateway,)) for gateway in gateways]

    def run(self, gateway):
        number = 0
        while not self.ended.wait(PAUSE_S):
            number += 1
            try:
                reply = say(gateway, self.text.format(number), self.tags)
                if reply.status != 200:
                    self.wrong.append((reply.status, reply.body))
            except OSError as error:
                if not self.ended.is_set():
                    self.wrong.append(repr(error))
                return

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        for thread in self.threads:
            thread.join(30)


class Group:
    """Gateways before the same kernels at one register."""

    def __init__(self, pool, folder, register, places, contract=CONTRACT, policy=None):
        self.pool, self.folder, self.register, self.places = pool, folder, register, places
        self.contract, self.policy = contract, policy

    def start(self, name, **spec):
        return self.pool.gateway(self.folder / name, self.places, contract=spec.pop("contract", self.contract), policy=self.policy,
                                 register=self.register, **spec)  # fmt: skip


@pytest.fixture
def scripted_group(pool, tmp_path, postgres):
    kernels = {name: pool.scripted(tmp_path, name) for name in ("a", "b", "audit")}
    places = {"a": ("infer", kernels["a"].url), "b": ("guard", kernels["b"].url), "audit": ("audit", kernels["audit"].url)}
    group = Group(pool, tmp_path, postgres.new_uri(), places)
    group.kernels = kernels
    return group


def test_a_fault_is_seen_by_both_whoever_meets_it_and_both_come_back(kcc, pool, tmp_path, until, postgres):
    labs = {name: pool.lab(f"lab:{name}", "--allow-faults") for name in ("fp8", "bf16", "f32")}
    places = {"fp8": ("infer", labs["fp8"].url), "bf16": ("guard", labs["bf16"].url), "f32": ("fallback", labs["f32"].url),
              "train": ("audit", labs["f32"].url)}  # fmt: skip
    contract = json.loads(json.dumps(gateway_processes.CONTRACT))
    contract["spec"]["numerical"][0] |= {"exceedance": "30%"}
    group = Group(pool, tmp_path, postgres.new_uri(), places, contract=contract)
    first, second = group.start("first"), group.start("second")
    assert first.status["peers"]["decides"] and not second.status["peers"]["decides"]
    until(lambda: first.status["peers"]["followers"], 10)
    assert "this gateway decides" in kcc("status", f"http://{first.admin}").out
    assert "1 gateway follows it" in kcc("status", f"http://{first.admin}").out
    assert "this gateway follows gateway-test" in kcc("status", f"http://{second.admin}").out
    first.until_scored(lambda: say(first, "7*8"))
    assert serves(first) == serves(second) == "fp8"
    # The fault is met by the follower's clients alone.
    with Load(second, text="7*{}") as load:
        labs["fp8"].fault(**FAULT)
        until(lambda: serves(first) == "bf16" and serves(second) == "bf16", 90, "nobody left the faulty kernel")
        apart = abs(moved_at(second, "bf16") - moved_at(first, "bf16")) / 1000
        assert apart <= SAME_ROUTE_S, apart
        assert kernel(second, "fp8")["state"] == "guarded"
        labs["fp8"].heal()
        healed = int(time.time() * 1000)
        until(lambda: serves(first) == "fp8" and serves(second) == "fp8", 180, "the healed kernel did not come back")
        apart = abs(moved_at(second, "fp8", healed) - moved_at(first, "fp8", healed)) / 1000
        assert apart <= SAME_ROUTE_S, apart
    assert load.wrong == []
    # Now everybody's.
    with Load(first, second, text="8*{}") as load:
        labs["fp8"].fault(**FAULT)
        until(lambda: serves(first) == "bf16" and serves(second) == "bf16", 90)
    assert load.wrong == []
    listed = kcc("register", "log", "--register", group.register).out
    assert listed.count("route.changed") >= 4 and kcc("register", "verify", "--register", group.register).code == 0
    assert "bf16 serves" in kcc("register", "list", "routes", "--register", group.register).out


def test_where_the_one_that_decides_is_killed_the_other_goes_on_and_releases_nothing(kcc, scripted_group, until):
    group, kernels = scripted_group, scripted_group.kernels
    first, second = group.start("first"), group.start("second")
    second.until_scored(lambda: say(second))
    kernels["a"].behave(shift=-4)
    with Load(first, second) as load:
        until(lambda: serves(first) == "b" and serves(second) == "b", 60)
    assert load.wrong == []
    until(lambda: second.status["evaluator"]["observations"] > 0)
    first.kill()
    seen = set()

    def took_over():
        seen.add(serves(second))
        return second.status["peers"]["decides"]

    until(took_over, 10, "nobody took over")
    assert kernel(second, "a")["state"] == "guarded" and serves(second) == "b" and seen == {"b"}
    assert "this gateway decides" in kcc("status", f"http://{second.admin}").out
    # A restart of the first does not take it back, and does not make it two.
    again = group.start("first")
    assert not again.status["peers"]["decides"] and again.status["peers"]["gateway"] == "gateway-test"
    assert serves(again) == "b" and kernel(again, "a")["state"] == "guarded"
    with Load(again, second) as load:
        time.sleep(1)
        assert serves(second) == "b", "a guarded kernel came back without evidence"
        kernels["a"].behave()
        until(lambda: serves(second) == "a" and serves(again) == "a", 90, "the mended kernel did not come back")
    assert load.wrong == []
    # The log of the one that took over begins with what it took over, and can be decided again.
    second.end()
    log = second.folder / "state/decisions.jsonl"
    replay = kcc("monitor", "replay", log, "--contract", second.contract, "--policy", second.policy)
    assert replay.code == 0, replay.out
    assert "is believed" in replay.out


def test_one_that_ends_in_order_hands_over_everything(scripted_group, until):
    group = scripted_group
    first, second = group.start("first"), group.start("second")
    first.until_scored(lambda: say(first))
    with Load(first, second):
        time.sleep(1)
    until(lambda: second.status["peers"]["waiting"] == 0 and second.status["rates"]["waiting"] == 0)
    assert first.end()[0] == 0
    until(lambda: second.status["peers"]["decides"], 10)
    counted = len(first.decisions())
    assert second.status["evaluator"]["resumed"] == counted, "what the first had folded is not what the second goes on from"
    assert second.status["evaluator"]["unread"] == 0, "something counts as missing"


def test_what_a_killed_follower_had_not_delivered_counts_as_missing(scripted_group, until):
    group, kernels = scripted_group, scripted_group.kernels
    first, second = group.start("first", scoring={"timeout": "1h"}), group.start("second", scoring={"timeout": "1h"})
    second.until_scored(lambda: say(second))
    before = first.status["evaluator"]["unread"]
    os.kill(kernels["audit"].pid, signal.SIGSTOP)
    try:
        for _ in range(12):
            assert say(second).status == 200
        until(lambda: second.status["rates"]["waiting"] >= 12)
        time.sleep(1.5)  # it says once a second what would be missing
        second.kill()
    finally:
        os.kill(kernels["audit"].pid, signal.SIGCONT)
    until(lambda: first.status["evaluator"]["unread"] >= before + 12, 30, "nobody counts what the follower had")


def test_without_the_register_nothing_is_released_and_a_follower_holds_its_route(kcc, pool, tmp_path, until, own_postgres):
    kernels = {name: pool.scripted(tmp_path, name) for name in ("a", "b", "audit")}
    places = {"a": ("infer", kernels["a"].url), "b": ("guard", kernels["b"].url), "audit": ("audit", kernels["audit"].url)}
    group = Group(pool, tmp_path, own_postgres.new_uri(), places)
    first, second = group.start("first"), group.start("second")
    first.until_scored(lambda: say(first))
    kernels["a"].behave(shift=-4)
    with Load(first, second):
        until(lambda: serves(first) == "b" and serves(second) == "b", 60)
        assert own_postgres.tell("stop") == "stopped"
        kernels["a"].behave()
        until(lambda: first.status["peers"]["held"], 20, "it does not say that it holds")
        until(lambda: second.status["evaluator"]["state"] == "silent", 20)
        assert "the last route is held" in kcc("status", f"http://{second.admin}").out
        # Its own probes would release it: they are counted, and do not.
        until(lambda: kernel(first, "a")["state"] != "guarded", 60)
        assert serves(first) == "b" and serves(second) == "b"
        share = {"kernel": "a", "share": 0.5}
        assert first.admin_ask("/v1/canary", "POST", share).status == 409
        assert second.admin_ask("/v1/canary", "POST", share).status == 409
        assert own_postgres.tell("start") == "started"
        until(lambda: not first.status["peers"]["held"] or not second.status["peers"]["held"], 30)
        until(lambda: serves(first) == "a" and serves(second) == "a", 60, "they do not go on")
    assert sum(gateway.status["peers"]["decides"] for gateway in (first, second)) == 1


def test_a_gateway_with_other_documents_is_refused(pool, scripted_group):
    group = scripted_group
    group.start("first")
    other = json.loads(json.dumps(CONTRACT))
    other["metadata"]["version"] = "1.0.1"
    with pytest.raises(RuntimeError, match="it judges by the contract .* give both the same documents"):
        group.start("second", contract=other)
    with pytest.raises(RuntimeError, match="serves the model 'kcc-lab', and this one 'other'"):
        group.start("third", model="other")
    with pytest.raises(RuntimeError, match="another gateway"):
        group.start("first")  # the folder of the first


def test_a_share_is_set_where_it_is_decided(scripted_group, until):
    group = scripted_group
    first, second = group.start("first"), group.start("second")
    refused = second.admin_ask("/v1/canary", "POST", {"kernel": "b", "share": 0})
    assert refused.status == 409 and "another gateway decides" in refused.json["error"]["message"]
    assert first.admin_ask("/v1/canary", "POST", {"kernel": "b", "share": 0}).status == 200


def test_the_log_alone_keeps_a_guard_where_the_tables_beside_it_are_gone(kcc, scripted_group, until, postgres):
    group, kernels = scripted_group, scripted_group.kernels
    first = group.start("first")
    first.until_scored(lambda: say(first))
    kernels["a"].behave(shift=-4)
    with Load(first):
        until(lambda: serves(first) == "b", 60)
    until(lambda: "b serves" in kcc("register", "list", "routes", "--register", group.register).out)
    assert first.end()[0] == 0
    for table in ("notice", "state", "member", "inbox"):
        postgres.psql(f"DROP TABLE kcc_gateway_{table}", group.register)
    kernels["a"].behave()
    other = group.start("other")  # with a folder that knows nothing
    assert other.status["peers"]["decides"] and serves(other) == "b"
    assert kernel(other, "a")["verdict"] == "inconclusive"
    with Load(other):
        until(lambda: serves(other) == "a", 60, "evidence does not bring it back")
