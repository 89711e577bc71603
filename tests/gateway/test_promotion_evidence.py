"""What a gateway measures of a promotion's candidate is recorded, and passes a stage; what is missing of it does not."""

import json
import os
import pathlib
import shutil
import signal

import gateway_processes
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONTRACT = gateway_processes.CONTRACT | {"spec": {"decision": {"about": "traffic", "confidence": 0.95}, "slices": [], "numerical": [
    {"id": "N-1", "metric": "max_abs_log_ratio", "atMost": 2, "exceedance": "30%", "window": "request", "level": "L2"}]}}  # fmt: skip
PROMOTION = {"apiVersion": "kcc/v1", "kind": "PromotionPolicy", "metadata": {"name": "p", "version": "1.0.0"},
             "spec": {"offline": {"levels": ["L2"]}, "full": {}}}  # fmt: skip
STAGES = {"shadow": {"minRequests": 20}, "canary": {"steps": [{"traffic": "50%"}], "minRequests": 20}}
STAMP = ["--actor", "ann"]


def say(gateway, number=1):
    body = {"model": "kcc-lab", "messages": [{"role": "user", "content": f"ask-{number} words-2"}]}
    return gateway.ask("POST", "/v1/chat/completions", body)


class Story:
    """A promotion in shadow or canary, and a gateway that follows it."""

    def __init__(self, kcc, pool, folder, stage="shadow"):
        self.stage = stage
        self.kcc, self.pool, self.folder, self.uri = kcc, pool, folder, str(folder / "r.db")
        self.kernels = {name: pool.scripted(folder, name) for name in ("a", "cand", "audit")}
        self.contract = folder / "contract.yaml"
        self.contract.write_text(json.dumps(CONTRACT))
        policy = folder / "promotion.yaml"
        policy.write_text(json.dumps(PROMOTION | {"spec": PROMOTION["spec"] | {stage: STAGES[stage]}}))
        self.offline()
        triple = self.kcc("register", "list", "triples", "--register", self.uri).out.split("…")[0].split(":")[1]
        assert self.promote("start", "p1", "--lane", "chat", "--policy", policy, "--candidate", triple).code == 0
        self.offline()
        self.promote("advance", "p1")
        assert self.phase == stage

    def promote(self, command, *words):
        return self.kcc("promote", command, *words, *STAMP, "--register", self.uri)

    @property
    def phase(self):
        return json.loads(self.kcc("promote", "status", "p1", "--json", "--register", self.uri).out)[0]["phase"]

    def offline(self):
        """An evaluation on the traces of the example, as if those builds had made them."""
        for name, build in (("train", "scripted/audit"), ("fixed", "scripted/cand")):
            copy = self.folder / name
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(ROOT / "examples/traces" / name, copy)
            text = (copy / "trace.json").read_text()
            (copy / "trace.json").write_text(json.dumps(json.loads(text) | {"kernelFingerprint": build}))
        outcome = self.kcc("run", self.contract, self.folder / "train", self.folder / "fixed", "--about", "evaluation-set", "--model", "tiny-1",
                           "--register", self.uri, *STAMP)  # fmt: skip
        assert "recorded as evaluation" in outcome.out, outcome.out + outcome.err

    def gateway(self):
        role = "candidate" if self.stage == "shadow" else "infer"
        places = {"a": ("infer", self.kernels["a"].url), "cand": (role, self.kernels["cand"].url),
                  "audit": ("audit", self.kernels["audit"].url)}  # fmt: skip
        policy = gateway_processes.policy_of(places)
        for row in policy["spec"]["kernels"]:
            if row["name"] in ("cand", "audit"):
                row["fingerprint"] = f"scripted/{row['name']}"
        return self.pool.gateway(self.folder / "gateway", places, contract=CONTRACT, policy=policy, register=f"sqlite:{self.uri}",
                                 promotion=str(self.folder / "promotion.yaml"), **({"shadow": "cand"} if self.stage == "shadow" else {}))  # fmt: skip

    def recorded(self):
        """The live evaluations, oldest first."""
        log = json.loads(self.kcc("register", "log", "--json", "--register", self.uri).out)
        return [event["body"]["live"] | {"verdict": event["body"]["verdict"]} for event in log["events"]
                if event["kind"] == "evaluation.recorded" and "live" in event["body"]]  # fmt: skip


@pytest.fixture
def story(kcc, pool, tmp_path):
    assert kcc("register", "init", "--register", tmp_path / "r.db").code == 0
    return Story(kcc, pool, tmp_path)


@pytest.fixture
def canary(kcc, pool, tmp_path):
    assert kcc("register", "init", "--register", tmp_path / "r.db").code == 0
    return Story(kcc, pool, tmp_path, "canary")


def test_live_evidence_passes_a_stage(story, until):
    gateway = story.gateway()
    gateway.until_scored(lambda: say(gateway))
    count = iter(range(10**6))
    until(lambda: say(gateway, next(count)).status == 200 and any(row["requests"] >= 25 and row["lost"] == 0 for row in story.recorded()), 60,
          json.dumps(gateway.status["promotion"]))  # fmt: skip
    last = story.recorded()[-1]
    assert last["kernel"] == "cand" and last["promotion"] == "p1" and last["verdict"] == "satisfied" and last["from"] <= last["to"]
    assert last["head"].startswith("sha256:") and last["observations"] > 0
    assert story.promote("advance", "p1").code in (0, 3)
    assert story.phase != "shadow", story.promote("status", "p1").out
    assert story.kcc("register", "verify", "--register", story.uri).code == 0


def served_by(gateway, name, number):
    reply = say(gateway, number)
    assert reply.status == 200
    return reply.headers["x-kcc-kernel"] == name


def test_a_canary_is_passed_on_what_it_served(canary, until):
    gateway = canary.gateway()
    gateway.until_scored(lambda: say(gateway))
    count = iter(range(10**6))
    until(lambda: served_by(gateway, "cand", next(count)) and any(row["requests"] >= 25 for row in canary.recorded()), 90)
    assert canary.recorded()[-1]["verdict"] == "satisfied"
    canary.promote("advance", "p1")
    assert canary.phase == "full", canary.promote("status", "p1").out


def test_a_bad_candidate_is_not_passed(canary, until):
    canary.kernels["cand"].behave(shift=-4)
    gateway = canary.gateway()
    gateway.until_scored(lambda: say(gateway))
    count = iter(range(10**6))
    until(lambda: say(gateway, next(count)).status == 200 and canary.recorded() and gateway.status["kernels"][1]["state"] == "guarded", 60)
    assert all(row["verdict"] != "satisfied" for row in canary.recorded())
    canary.promote("advance", "p1")
    assert canary.phase == "canary"
    assert gateway.end()[0] == 0
    assert canary.recorded()[-1]["verdict"] == "violated"
    canary.promote("advance", "p1")
    assert canary.phase == "canary"
    state = json.loads(canary.kcc("promote", "status", "p1", "--json", "--register", canary.uri).out)[0]
    assert state.get("guarded") or "\"guarded\": true" in json.dumps(state), state


def test_what_is_missing_of_it_passes_nothing(story, until):
    gateway = story.gateway()
    gateway.until_scored(lambda: say(gateway))
    # The candidate does not answer in time: what it would have shown is missing.
    os.kill(story.kernels["cand"].pid, signal.SIGSTOP)
    try:
        for i in range(5):
            say(gateway, i)
        until(lambda: gateway.status["rates"]["waiting"] == 0 and gateway.status["rates"]["lost"] > 0, 20)
    finally:
        os.kill(story.kernels["cand"].pid, signal.SIGCONT)
    count = iter(range(10**6))
    until(lambda: say(gateway, next(count)).status == 200 and any(row["requests"] >= 60 for row in story.recorded()), 90)
    last = story.recorded()[-1]
    assert last["lost"] > 0 and last["verdict"] == "inconclusive"
    story.promote("advance", "p1")
    assert story.phase == "shadow"


def test_a_kill_leaves_something_missing_and_an_end_in_order_does_not(story, until):
    gateway = story.gateway()
    gateway.until_scored(lambda: say(gateway))
    count = iter(range(10**6))
    until(lambda: say(gateway, next(count)).status == 200 and story.recorded(), 60)
    assert gateway.end()[0] == 0
    assert story.recorded()[-1]["whole"]
    gateway = story.gateway()
    gateway.until_scored(lambda: say(gateway))
    before = len(story.recorded())
    until(lambda: say(gateway, next(count)).status == 200 and len(story.recorded()) > before, 60)
    assert story.recorded()[-1]["lost"] == story.recorded()[before - 1]["lost"] == 0, "an end in order loses nothing"
    gateway.kill()
    gateway = story.gateway()
    gateway.until_scored(lambda: say(gateway))
    before = len(story.recorded())
    until(lambda: say(gateway, next(count)).status == 200 and len(story.recorded()) > before, 60)
    assert story.recorded()[-1]["lost"] > 0
