"""A server that is killed, and one that runs out of descriptors."""

import http.client
import json
import os
import random
import resource
import signal
import socket
import subprocess
import time

import pytest

PROMPT = [256, 259, *b"6*8", 260]


def port_of(server):
    return server.host.split(":")[1]


def test_kill_9_in_a_stream_is_seen_and_the_port_is_free_at_once(start):
    server = start()
    answer = server.complete(prompt=PROMPT, max_tokens=4, temperature=0, logprobs=1)["choices"]
    connection = http.client.HTTPConnection(server.host, timeout=20)
    connection.request("POST", "/v1/completions", json.dumps({"prompt": PROMPT, "max_tokens": 9000, "ignore_eos": True, "stream": True}))
    response = connection.getresponse()
    assert response.read(50)
    server.kill()
    with pytest.raises((ConnectionError, http.client.IncompleteRead)):
        while response.read(1 << 16):
            pass
    connection.close()
    again = start("--port", port_of(server))
    assert again.host == server.host and again.started["fingerprint"] == server.started["fingerprint"]
    assert again.complete(prompt=PROMPT, max_tokens=4, temperature=0, logprobs=1)["choices"] == answer


@pytest.mark.parametrize("runs", [10, pytest.param(200, marks=pytest.mark.slow)])
def test_killed_at_any_moment_of_its_start(kcc_path, start, tmp_path, runs):
    """It leaves no file, and its port is free."""
    begun = time.monotonic()
    first = start()
    seconds = time.monotonic() - begun
    port = port_of(first)
    assert first.end() == (0, "")
    chosen = random.Random(runs)
    for i in range(runs):
        process = subprocess.Popen([kcc_path, "lab", "serve", "--port", port], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   cwd=tmp_path, env=os.environ | {"TMPDIR": str(tmp_path)})  # fmt: skip
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(chosen.uniform(0, 1.5 * seconds))
        process.kill()
        _, err = process.communicate()
        assert (process.returncode, err) == (-signal.SIGKILL, ""), f"run {i}"
    assert list(tmp_path.iterdir()) == []
    last = start("--port", port)
    assert last.complete(prompt=PROMPT, max_tokens=1)["choices"]


def test_without_descriptors_it_serves_who_is_there_and_then_the_others(start):
    server = start()
    kept = http.client.HTTPConnection(server.host, timeout=20)
    kept.request("GET", "/health")
    kept.getresponse().read()
    pid = server.process.pid
    room = len(os.listdir(f"/proc/{pid}/fd")) + 3
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (room, room))
    host, port = server.host.split(":")
    others = [socket.create_connection((host, int(port)), timeout=20) for _ in range(12)]
    asked = 0
    while len(os.listdir(f"/proc/{pid}/fd")) < room or asked < 3:
        kept.request("POST", "/v1/completions", json.dumps({"prompt": PROMPT, "max_tokens": 2}))
        response = kept.getresponse()
        assert response.status == 200 and json.loads(response.read())["choices"]
        asked += 1
        assert asked < 1000, "the descriptors are not used up: the test shows nothing"
    for other in others:
        other.close()
    assert server.complete(prompt=PROMPT, max_tokens=1)["choices"]  # waits for its turn, which comes
    kept.close()
