"""Faults on a running server: each is set on the admin port and seen by a client."""

import http.client
import json
import pathlib
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROMPT = [256, 259, *b"6*8", 260]


@pytest.fixture(scope="module")
def faulty(start):
    return start("--allow-faults")


@pytest.fixture(autouse=True)
def cleared(faulty):
    yield
    assert faulty.ask("DELETE", "/faults", admin=True).json == {"faults": []}


def scores(server, **more):
    choice = server.complete(prompt=PROMPT, max_tokens=1, prompt_logprobs=0, **more)["choices"][0]
    return [next(iter(entry.values()))["logprob"] for entry in choice["prompt_logprobs"][1:]]


def test_a_switch_for_a_slice(kcc, faulty, tmp_path):
    before = scores(faulty)
    faulty.fault(name="kv", where="'math' in tags and prompt_tokens > 3", switches="kv=e4m3&accumulate=m13")
    assert scores(faulty) == before
    moved = scores(faulty, tags=["math"])
    assert moved != before
    requests = tmp_path / "r.jsonl"
    requests.write_text(json.dumps({"id": "r", "prompt": PROMPT[:1], "output": PROMPT[1:]}) + "\n")
    assert kcc("score", "lab:f32?kv=e4m3&accumulate=m13", "--requests", requests, "-o", tmp_path / "t").code == 0
    import safetensors.numpy

    expected = safetensors.numpy.load_file(tmp_path / "t/tokens-00000.safetensors")["logprob"]
    assert [float(x) for x in expected] == moved
    (rule,) = faulty.ask("GET", "/faults", admin=True).json["faults"]
    assert (rule["name"], rule["matched"], rule["applied"]) == ("kv", 1, 1)
    assert faulty.ask("DELETE", "/faults/kv", admin=True).status == 200
    assert scores(faulty, tags=["math"]) == before


def test_latency(faulty):
    faulty.fault(name="slow", latency_ms=400)
    began = time.monotonic()
    faulty.complete(prompt=PROMPT, max_tokens=1)
    assert time.monotonic() - began >= 0.4


def test_a_stall_in_the_middle_of_a_stream(faulty):
    faulty.fault(name="stall", stall={"after_chunks": 3, "ms": 500})
    connection = http.client.HTTPConnection(faulty.host, timeout=20)
    connection.request("POST", "/v1/completions", json.dumps({"prompt": PROMPT, "max_tokens": 8, "stream": True, "ignore_eos": True}))
    response = connection.getresponse()
    times = []
    while line := response.readline():
        if line.startswith(b"data: "):
            times.append(time.monotonic())
    connection.close()
    assert len(times) == 10
    gaps = [after - before for before, after in zip(times, times[1:])]
    assert gaps[2] >= 0.45 and max(gaps[:2] + gaps[3:]) < gaps[2]


def test_statuses_at_a_rate_the_same_each_time(faulty):
    def run():
        faulty.fault(name="5xx", status={"code": 503, "rate": 0.4}, seed=5)
        return [faulty.post("/v1/completions", prompt=PROMPT, max_tokens=1).status for _ in range(40)]

    first = run()
    assert set(first) == {200, 503} and 8 <= first.count(503) <= 24
    assert run() == first


def test_a_wrong_fingerprint_is_seen_by_kcc(kcc, faulty, tmp_path):
    faulty.fault(name="other", where="max_tokens == 1", fingerprint="another build", burst={"on": 1, "every": 6})
    requests = tmp_path / "r.jsonl"
    requests.write_text("".join(line + "\n" for line in (ROOT / "models/kcc-lab/eval.jsonl").read_text().splitlines()[:10]))
    out = kcc("score", faulty.uri, "--requests", requests, "-o", tmp_path / "t")
    assert out.code == 4 and "this answer comes from" in out.err


def test_a_cut_connection(faulty):
    faulty.fault(name="cut", cut={"after_chunks": 2})
    with pytest.raises((ConnectionError, http.client.HTTPException)):
        faulty.stream(prompt=PROMPT, max_tokens=8, ignore_eos=True)
    with pytest.raises((ConnectionError, http.client.HTTPException)):
        faulty.complete(prompt=PROMPT, max_tokens=8)
    faulty.ask("DELETE", "/faults", admin=True)
    assert faulty.complete(prompt=PROMPT, max_tokens=1)["choices"]


def test_slow_drift(faulty):
    clean = scores(faulty)
    faulty.fault(name="drift", drift={"parameter": "noise", "from": 0, "to": 1, "requests": 10}, seed=2)
    gaps = [max(abs(a - b) for a, b in zip(scores(faulty), clean)) for _ in range(12)]
    assert gaps[0] == 0 and all(gaps[1:]) and sum(gaps[8:]) > sum(gaps[1:5])
    faulty.fault(name="drift", drift={"parameter": "temperature", "from": 1, "to": 2, "requests": 2})
    assert scores(faulty) == clean
    assert scores(faulty) != clean


def test_bursts(faulty):
    faulty.fault(name="burst", status={"code": 500}, burst={"on": 2, "every": 5})
    statuses = [faulty.post("/v1/completions", prompt=PROMPT, max_tokens=1).status for _ in range(10)]
    assert statuses == [500, 500, 200, 200, 200] * 2


def test_the_admin_port_is_for_the_operator(faulty, server):
    assert "adminUrl" not in server.started
    assert faulty.started["adminUrl"].startswith("http://127.0.0.1:")
    body = json.dumps({"latency_ms": 1})
    assert faulty.ask("POST", "/faults", body, admin=True, headers={"Content-Type": "text/plain"}).status == 415
    for host in ("evil.example", "127.0.0.1.evil.example", "localhost.evil.example:80"):
        elsewhere = {"Content-Type": "application/json", "Host": host}
        assert faulty.ask("POST", "/faults", body, admin=True, headers=elsewhere).status == 403
    wrong = faulty.ask("POST", "/faults", {"swtiches": "kv=e4m3"}, admin=True)
    assert wrong.status == 400 and "did you mean 'switches'" in wrong.json["error"]["message"]
    assert faulty.ask("GET", "/v1/models", admin=True).status == 404
    assert faulty.ask("GET", "/faults").status == 404
