"""The decision log goes on in new files; whatever ends the process, they can be decided again from the first that is kept."""

import json
import random
import threading
import time

import gateway_processes
import pytest

FILES = 3


def say(gateway, number):
    body = {"model": "kcc-lab", "messages": [{"role": "user", "content": f"ask-{number} words-2"}]}
    return gateway.ask("POST", "/v1/chat/completions", body)


def files(gateway):
    """In their order, by their names."""
    return sorted((gateway.folder / "state").glob("decisions*.jsonl"))


def replay(kcc, gateway, *logs):
    return kcc("monitor", "replay", *logs, "--contract", gateway.contract, "--policy", gateway.policy)


@pytest.fixture
def start(pool, tmp_path):
    kernel = pool.scripted(tmp_path, "a")
    kernels = {"a": ("infer", kernel.url), "audit": ("audit", kernel.url)}
    policy = gateway_processes.policy_of(kernels, audit={"rate": 1, "probeRate": 1, "oncePerSession": False, "sessionFilter": "1KiB"})
    return lambda: pool.gateway(tmp_path / "gateway", kernels, policy=policy, decisionLog={"fileSize": "8KiB", "files": FILES})


def numbers(paths):
    return [json.loads(line)["number"] for path in paths for line in path.read_text().splitlines()[1:]]


def test_files_are_set_aside_kept_and_decided_again_over_kills(kcc, start, until):
    random.seed(5)
    gateway = start()
    gateway.until_scored(lambda: say(gateway, 0))
    count, all_numbers = 0, set()
    for round_ in range(5):
        ended = threading.Event()
        asked = threading.Thread(target=ask_until, args=(gateway, ended))
        asked.start()
        until(lambda: len(files(gateway)) > min(FILES, 1 + round_), 60)
        time.sleep(random.random() / 2)
        gateway.kill()
        ended.set()
        asked.join(20)
        kept = files(gateway)
        assert len(kept) <= FILES + 1
        replayed = replay(kcc, gateway, *kept)
        # A killed process leaves at most its last line cut, and says nothing else of it.
        assert replayed.code == 0 or "the last line is cut" in replayed.out, replayed.out
        gateway = start()
        assert gateway.status["evaluator"]["resumed"] >= count, "a restart lost decisions"
        count = gateway.status["evaluator"]["resumed"]
        all_numbers |= set(numbers(files(gateway)))
    assert gateway.end()[0] == 0
    kept = files(gateway)
    assert len(kept) == FILES + 1 and numbers(kept) == list(range(numbers(kept)[0], numbers(kept)[-1] + 1))
    assert replay(kcc, gateway, *kept).code == 0 and replay(kcc, gateway, *kept[1:]).code == 0
    assert replay(kcc, gateway, kept[0], kept[2]).code == 1
    # The state is a shortcut.
    (gateway.folder / "state/monitor.state").unlink()
    again = start()
    assert again.status["evaluator"]["resumed"] == numbers(kept)[-1]


def ask_until(gateway, ended):
    number = 0
    while not ended.wait(0.02):
        number += 1
        try:
            say(gateway, number)
        except OSError:
            return
