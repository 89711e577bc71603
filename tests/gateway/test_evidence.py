"""What was served becomes evidence: the numbers of an offline run, alarms that move the route, and none of it from silence."""

import json
import math
import pathlib
import shutil
import signal
import time

import gateway_processes
import pytest

FP8 = "lab:fp8?batch=invariant"
PROMPTS = [f"<s><user>{a}*{b}<assistant>" for a in range(2, 10) for b in range(2, 10)]
# Everything that the tests below ask of a clause, seen within some ten requests.
CONTRACT = json.loads(json.dumps(gateway_processes.CONTRACT))
CONTRACT["spec"]["numerical"][0]["exceedance"] = "30%"


def ask(gateway, number=0, tags=(), **more):
    return gateway.post("/v1/completions", model="kcc-lab", prompt=PROMPTS[number % len(PROMPTS)], max_tokens=4, temperature=0,
                        tags=list(tags), **more)  # fmt: skip


class Trio:
    """fp8 serves, bf16 guards it, f32 is asked."""

    def __init__(self, pool, folder):
        self.pool, self.folder = pool, folder
        self.fp8 = pool.lab(FP8, "--allow-faults")
        self.bf16, self.f32 = pool.lab("lab:bf16-invariant"), pool.lab("lab:f32")
        self.kernels = {"fp8": ("infer", self.fp8.url), "bf16": ("guard", self.bf16.url), "f32": ("fallback", self.f32.url),
                        "audit": ("audit", self.f32.url)}  # fmt: skip

    def gateway(self, contract=CONTRACT, **spec):
        gateway = self.pool.gateway(self.folder / "gateway", self.kernels, contract=contract, **spec)
        gateway.until_scored(lambda: ask(gateway))
        return gateway

    def break_math(self):
        self.fp8.fault(name="broken", where="'math' in tags", drift={"parameter": "noise", "from": 8, "to": 8, "requests": 1})


@pytest.fixture
def trio(pool, tmp_path):
    return Trio(pool, tmp_path)


def kernel(gateway, name):
    return next(one for one in gateway.status["kernels"] if one["name"] == name)


NUMBERS = {
    "apiVersion": "kcc/v1", "kind": "KernelContract", "metadata": {"name": "numbers", "version": "1.0.0"},
    "spec": {"numerical": [
        {"id": "N-1", "metric": "mean_abs_log_ratio", "atMost": 5, "exceedance": "50%", "window": "request", "level": "L2"},
        {"id": "N-2", "metric": "mean_tv", "atMost": 0.9, "exceedance": "50%", "window": "request", "level": "L2"},
        {"id": "N-3", "metric": "max_kl", "atMost": 50, "exceedance": "50%", "window": "request", "level": "L2"}]},
}  # fmt: skip


def log_softmax(numpy, rows):
    rows = rows.astype("float64")
    top = rows.max(axis=1, keepdims=True)
    return rows - top - numpy.log(numpy.exp(rows - top).sum(axis=1, keepdims=True))


def tensors_of(file):
    """Of a safetensors file; NumPy knows no bfloat16, whose bits are the first half of a float's."""
    import numpy

    data = file.read_bytes()
    size = int.from_bytes(data[:8], "little")
    found = {}
    for name, entry in json.loads(data[8 : 8 + size]).items():
        if name != "__metadata__":
            first, last = entry["data_offsets"]
            kind = {"F32": "<f4", "I32": "<i4", "BF16": "<u2", "F64": "<f8", "U8": "u1", "I64": "<i8", "F16": "<f2"}[entry["dtype"]]
            values = numpy.frombuffer(data[8 + size + first : 8 + size + last], kind).reshape(entry["shape"])
            found[name] = (values.astype("<u4") << 16).view("<f4") if entry["dtype"] == "BF16" else values
    return found


def scored_offline(kcc, kernel, requests, folder):
    done = kcc("score", kernel, "--requests", requests, "-o", folder)
    assert done.code == 0, done.err
    parts = [tensors_of(part) for part in sorted(pathlib.Path(folder).glob("tokens-*.safetensors"))]
    return {name: [row for part in parts for row in part[name]] for name in ("token", "position", "logits")}


def ids_of(text):
    return [256, 259, *text.removeprefix("<s><user>").removesuffix("<assistant>").encode(), 260]


def test_the_numbers_are_those_of_an_offline_run(kcc, trio, until, tmp_path):
    import numpy

    gateway = trio.gateway(contract=NUMBERS, store="full")  # else the log names no tokens
    served = {}  # the prompt, by the request's id
    for i in range(12):
        body = {"model": "kcc-lab", "prompt": PROMPTS[i], "max_tokens": 12, "temperature": 0}
        if i % 2:  # both ways must give the same evidence
            stream = gateway.stream("/v1/completions", **body)
            assert list(stream)[-1] == "[DONE]"
            served[stream.headers["x-request-id"]] = PROMPTS[i]
        else:
            served[gateway.post("/v1/completions", **body).headers["x-request-id"]] = PROMPTS[i]
    audited = until(lambda: [o for o in gateway.observations() if o["request"] in served and not o.get("repeat")][11:] and
                    [o for o in gateway.observations() if o["request"] in served and not o.get("repeat")], 20)  # fmt: skip
    assert {o["request"] for o in audited} == set(served) and all(o["audited"] for o in audited)
    requests = tmp_path / "r.jsonl"
    with open(requests, "w") as file:
        for o in audited:
            prompt, output = ids_of(served[o["request"]]), o["tokens"]["token"]
            assert o["tokens"]["position"] == list(range(len(prompt), len(prompt) + len(output)))
            file.write(json.dumps({"id": o["request"], "prompt": prompt, "output": output}) + "\n")
    infer = scored_offline(kcc, FP8 + "&path=decode", requests, tmp_path / "infer")
    train = scored_offline(kcc, "lab:f32", requests, tmp_path / "train")
    rows = [(o["tokens"], i) for o in audited for i in range(len(o["tokens"]["token"]))]
    assert [tokens["token"][i] for tokens, i in rows] == infer["token"] == train["token"]
    q, p = (log_softmax(numpy, numpy.stack(side["logits"])) for side in (infer, train))
    for row, (tokens, i) in enumerate(rows):
        token = tokens["token"][i]
        gap = abs(p[row][token] - q[row][token])
        assert math.isclose(tokens["abs_log_ratio"][i], gap, rel_tol=1e-4, abs_tol=2e-6), "of sampled tokens the gap is exact"
        tv = 0.5 * numpy.abs(numpy.exp(p[row]) - numpy.exp(q[row])).sum()
        kl = (numpy.exp(p[row]) * (p[row] - q[row])).sum()
        for name, value in (("tv", tv), ("kl", kl)):
            lo, hi = (number(tokens[name][end][i]) for end in ("lo", "hi"))
            assert lo - 1e-6 <= value <= hi + 1e-6, (name, lo, value, hi)


def number(value):
    return {"inf": math.inf, "-inf": -math.inf}.get(value, value) if value is not None else math.nan


def test_a_fault_of_a_slice_moves_the_route_and_its_end_brings_the_kernel_back(kcc, trio, until):
    gateway = trio.gateway()
    log = []
    for i in range(25):
        tags = ["math"] if i % 2 else []
        reply = ask(gateway, i, tags)
        assert reply.headers["x-kcc-kernel"] == "fp8"
    until(lambda: kernel(gateway, "fp8")["audited"] > 25)
    assert kernel(gateway, "fp8")["state"] == "serving" and not [h for h in gateway.status["history"] if h["kind"] == "alarm"]

    # A stream that is under way stays where it is.
    trio.fp8.fault(name="slow", where="user == 'slow'", stall={"after_chunks": 2, "ms": 3000})
    stream = gateway.stream("/v1/completions", model="kcc-lab", prompt=PROMPTS[0], max_tokens=30, temperature=0, user="slow", ignore_eos=True)
    assert stream.headers["x-kcc-kernel"] == "fp8" and stream.next()

    trio.break_math()
    for i in range(120):
        reply = ask(gateway, i, ["math"])
        log.append((time.time() * 1000, reply.headers["x-kcc-kernel"]))
        if log[-1][1] == "bf16":
            break
        time.sleep(0.02)
    assert log[-1][1] == "bf16", "the fault was not seen"
    history = until(lambda: [h for h in gateway.status["history"] if h["kind"] == "alarm"] and gateway.status["history"], 1)
    alarm = next(h for h in history if h["kind"] == "alarm")
    assert (alarm["kernel"], alarm["clause"]) == ("fp8", "N-1") and alarm["reason"]
    route = next(h for h in history if h["kind"] == "route" and h["serves"] == "bf16")
    assert route["atMs"] - alarm["atMs"] <= 1000
    last = max(at for at, name in log if name == "fp8")
    assert last <= alarm["atMs"] + 1000, "a request went to the guarded kernel a second after the alarm"
    until(lambda: gateway.status["route"]["serves"] == "bf16" and kernel(gateway, "fp8")["state"] == "guarded", 1)
    assert kernel(gateway, "fp8")["verdict"] != "satisfied"
    rest = list(stream)
    assert rest[-1] == "[DONE]" and len(rest) >= 29

    said = kcc("status", f"http://{gateway.admin}")
    assert said.code in (0, 1), said.err
    (line,) = [line for line in said.out.splitlines() if line.startswith("fp8")]
    assert "guarded" in line
    why = kcc("gateway", "why", reply.headers["x-request-id"], "--admin", f"http://{gateway.admin}")
    assert why.code == 0, why.err
    assert "fp8" in why.out and "bf16" in why.out and "N-1" in why.out

    trio.fp8.heal()
    for i in range(1000):
        if ask(gateway, i, ["math"] if i % 2 else []).headers["x-kcc-kernel"] == "fp8":
            break
        time.sleep(0.01)  # probes are asked and scored beside the traffic, and behind it
    else:
        raise AssertionError("the kernel did not come back")
    kinds = [h["kind"] for h in gateway.status["history"]]
    assert kinds.index("alarm") < kinds.index("guard") < kinds.index("release")
    assert not [h for h in gateway.status["history"] if h["kind"] == "release" and not h["reason"]]
    assert gateway.end()[0] == 0
    replayed(kcc, gateway)


def replayed(kcc, gateway):
    replay = kcc("monitor", "replay", gateway.log, "--contract", gateway.contract, "--policy", gateway.policy)
    assert replay.code == 0, replay.out + replay.err
    assert "each equal to the byte" in replay.out


@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGKILL])
def test_a_restart_keeps_the_route_and_the_log(kcc, trio, until, by):
    gateway = trio.gateway()
    trio.break_math()
    for i in range(120):
        if ask(gateway, i, ["math"]).headers["x-kcc-kernel"] == "bf16":
            break
    until(lambda: gateway.status["route"]["serves"] == "bf16" and gateway.status["rates"]["waiting"] == 0)
    decided = len(gateway.decisions())
    if by == signal.SIGTERM:
        assert gateway.end(by)[0] == 0
    else:
        gateway.kill()
    again = trio.gateway()
    assert again.status["route"]["serves"] == "bf16" and again.status["route"]["reason"]
    assert ask(again, 1).headers["x-kcc-kernel"] == "bf16"
    assert len(again.decisions()) >= decided
    until(lambda: len(again.decisions()) > decided)
    assert again.end()[0] == 0
    replayed(kcc, again)


def test_evidence_that_is_lost_satisfies_nothing(kcc, trio, until):
    gateway = trio.gateway(scoring={"timeout": "500ms"})
    port = trio.f32.port
    trio.f32.kill()
    until(lambda: gateway.status["rates"]["waiting"] == 0)
    time.sleep(0.3)  # the status is of the last 0.1 s
    # What was scored to find the scorer ready is all decided, and the status knows of it.
    counted = lambda: len([line for line in gateway.decisions() if line["handling"] == "counted"])  # noqa: E731
    until(lambda: kernel(gateway, "fp8")["audited"] > 0 and counted() >= gateway.status["rates"]["scored"])
    time.sleep(1)
    before, known = gateway.status["rates"], kernel(gateway, "fp8")["audited"]
    for i in range(25):
        reply = ask(gateway, i, ["math"])
        assert (reply.status, reply.headers["x-kcc-kernel"]) == (200, "fp8")
    until(lambda: sum(gateway.status["rates"][what] - before[what] for what in ("lost", "dropped")) >= 25, 20)
    now = kernel(gateway, "fp8")
    assert now["verdict"] != "satisfied" and now["audited"] == known
    assert {pair["verdict"] for pair in now["pairs"]} <= {"inconclusive", "violated"}
    assert len([line for line in gateway.decisions() if "unread" in line]) >= 25
    assert gateway.status["rates"]["sampled"] - before["sampled"] == 25

    # The audit kernel is back, and with it evidence: enough of it satisfies, as it would have without the hole.
    trio.pool.lab("lab:f32", port=port)
    # Slowly: what is asked before it is reached is one more hole each time.
    until(lambda: time.sleep(0.3) or (ask(gateway, 3, ["math"]) and kernel(gateway, "fp8")["audited"] > known), 30)
    for i in range(400):
        ask(gateway, i, ["math"])
        if i % 20 == 19 and kernel(gateway, "fp8")["verdict"] == "satisfied":
            break
    until(lambda: kernel(gateway, "fp8")["verdict"] == "satisfied", 10, "evidence of a good kernel does not show it")
    assert gateway.end()[0] == 0
    replayed(kcc, gateway)


def test_a_stalled_shadow_loses_nothing_of_the_kernel_that_serves(pool, tmp_path, until):
    lab, shadow, audit = pool.lab("lab:f32"), pool.lab("lab:f32"), pool.lab("lab:f32")
    kernels = {"f32": ("infer", lab.url), "next": ("candidate", shadow.url), "audit": ("audit", audit.url)}
    gateway = pool.gateway(tmp_path / "gateway", kernels, shadow="next",
                           scoring={"timeout": "20s", "waiting": 16, "inFlight": 4, "determinism": 0})  # fmt: skip
    until(lambda: ask(gateway) and kernel(gateway, "next")["audited"] > 0 and kernel(gateway, "f32")["audited"] > 0, 30)
    # The last record may be on its way to the scorer yet, and the status is of the last 0.1 s.
    until(lambda: time.sleep(0.3) or gateway.status["rates"]["waiting"] == 0)
    shadow.process.send_signal(signal.SIGSTOP)
    try:
        before, known = gateway.status["rates"], kernel(gateway, "f32")["audited"]
        for i in range(30):
            assert ask(gateway, i).status == 200
            until(lambda: kernel(gateway, "f32")["audited"] == known + i + 1, 10, "its evidence waits for the shadow")  # noqa: B023
        now = gateway.status["rates"]
        assert [now[what] - before[what] for what in ("sampled", "lost", "dropped")] == [30, 0, 0]
        assert now["unasked"] - before["unasked"] == 26 and now["waiting"] == 4, "it was asked as much as it has places, and no more"
    finally:
        shadow.process.send_signal(signal.SIGCONT)
    until(lambda: kernel(gateway, "next")["audited"] >= 4 and gateway.status["rates"]["waiting"] == 0, 30)
    assert ask(gateway).status == 200
    until(lambda: gateway.status["rates"]["waiting"] == 0 and not [line for line in gateway.decisions() if "unread" in line and
          line["unread"].get("kernel") == "next" and "it was lost" in line["unread"]["reason"]])  # fmt: skip
    assert kernel(gateway, "next")["stale"] == "" and kernel(gateway, "next")["evidenceAtMs"] > 0


@pytest.mark.parametrize("by", ["an end", "a reload"])
def test_what_is_under_way_at_an_end_is_missing_of_its_own_kernel(trio, until, by):
    gateway = trio.gateway(scoring={"timeout": "20s", "determinism": 0})
    until(lambda: gateway.status["rates"]["waiting"] == 0)
    time.sleep(0.3)  # the status is of the last 0.1 s
    before = gateway.status["rates"]
    trio.f32.process.send_signal(signal.SIGSTOP)
    try:
        for i in range(10):
            assert ask(gateway, i).headers["x-kcc-kernel"] == "fp8"
        until(lambda: gateway.status["rates"]["waiting"] == 10)
        if by == "an end":
            assert gateway.end()[0] == 0
        else:
            gateway.write(scoring={"timeout": "19s", "determinism": 0})
            gateway.reload()
            rates = until(lambda: gateway.status["rates"]["lost"] == before["lost"] + 10 and gateway.status["rates"])
            assert [rates[what] - before[what] for what in ("sampled", "scored", "dropped")] == [10, 0, 0], "a reload forgets no count"
    finally:
        trio.f32.process.send_signal(signal.SIGCONT)
    lines = until(lambda: [line["unread"] for line in gateway.decisions() if "ended before" in line.get("unread", {}).get("reason", "")])
    assert [line.get("kernel") for line in lines] == ["fp8"] * 10


def test_an_answer_of_another_build_is_seen_at_once(pool, tmp_path, until):
    lab, audit = pool.lab("lab:f32", "--allow-faults"), pool.lab("lab:f32")
    kernels = {"f32": ("infer", lab.url), "audit": ("audit", audit.url)}
    policy = gateway_processes.policy_of(kernels, audit={"rate": "1%", "probeRate": 1, "oncePerSession": False})
    policy["spec"]["kernels"][0]["fingerprint"] = lab.fingerprint
    gateway = pool.gateway(tmp_path / "gateway", kernels, policy=policy)
    assert ask(gateway).headers["x-kcc-fingerprint"] == lab.fingerprint
    lab.fault(name="other", fingerprint="another build")
    reply = ask(gateway)
    assert reply.status == 200 and reply.headers["x-kcc-fingerprint"] == "another build"
    until(lambda: kernel(gateway, "f32")["strangers"] == 1)
    # It is broken evidence, whether or not the request is sampled.
    until(lambda: kernel(gateway, "f32")["verdict"] == "error")
    lines = [line for line in gateway.observations() if line.get("broken")]
    assert len(lines) == 1 and "#build" in str(lines[0]), lines
    assert "another build'" in lines[0]["broken"]


def test_what_is_stored_is_what_the_configuration_says(trio, until):
    for store in ("none", "hashes", "full"):
        shutil.rmtree(trio.folder / "gateway", ignore_errors=True)
        gateway = trio.gateway(store=store, session=["body:user"])
        for i in range(3):
            ask(gateway, i, user=f"key-of-a-session-{i}")
        until(lambda: len(gateway.observations()) >= 3)
        assert all(("token" in o["tokens"]) == (store == "full") for o in gateway.observations()), store
        assert gateway.end()[0] == 0
        kept = b"".join(file.read_bytes() for file in (trio.folder / "gateway/state").rglob("*") if file.is_file())
        assert (b"key-of-a-session" in kept) == (store == "full"), store
        assert b"<assistant>" not in kept or store == "full"
