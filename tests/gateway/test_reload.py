"""A configuration that changes under load, two gateways at one register, a disk that is full."""

import json
import os
import pathlib
import resource
import subprocess
import threading
import time

import gateway_processes
import pytest


def say(gateway, name, words=3, stream=False):
    body = {"model": "kcc-lab", "messages": [{"role": "user", "content": f"{name} words-{words}"}], "stream": stream}
    return gateway.ask("POST", "/v1/chat/completions", body)


def text_of(reply):
    return reply.json["choices"][0]["message"]["content"]


@pytest.fixture
def slow(pool, tmp_path):
    return pool.scripted(tmp_path, "slow", pace=25)


def start(pool, folder, kernel, audit=1, **spec):
    kernels = {"slow": ("infer", kernel.url), "audit": ("audit", kernel.url)}
    policy = gateway_processes.policy_of(kernels, audit={"rate": audit, "probeRate": 1, "oncePerSession": False})
    return pool.gateway(folder / "gateway", kernels, policy=policy, **spec)


class Load:
    """Streams and whole answers, one after the other in some threads; what any of them heard wrongly is in `wrong`."""

    def __init__(self, gateway, threads=6, words=40):
        self.gateway, self.words, self.wrong, self.done, self.ended = gateway, words, [], 0, threading.Event()
        self.threads = [threading.Thread(target=self.run, args=(i,)) for i in range(threads)]

    def run(self, thread):
        number = 0
        while not self.ended.is_set():
            number += 1
            name = f"ask-{thread}x{number}"
            try:
                expected = "".join(f"{name}.{i} " for i in range(self.words))
                if thread % 2:
                    reply = say(self.gateway, name, self.words)
                    right = reply.status == 200 and text_of(reply) == expected
                else:
                    stream = self.gateway.stream(model="kcc-lab", messages=[{"role": "user", "content": f"{name} words-{self.words}"}])
                    events = list(stream)
                    texts = [json.loads(event)["choices"][0]["delta"].get("content", "") for event in events[:-1]]
                    right = events[-1] == "[DONE]" and "".join(texts) == expected
                if not right:
                    self.wrong.append(name)
            except Exception as error:  # noqa: BLE001 (any is a wrong answer)
                self.wrong.append(f"{name}: {error!r}")
            self.done += 1

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        for thread in self.threads:
            thread.join(30)


def test_a_reload_drops_nothing(pool, tmp_path, slow, until):
    gateway = start(pool, tmp_path, slow)
    with Load(gateway) as load:
        time.sleep(0.3)
        for i in range(6):
            gateway.write(limits={"body": f"{64 + i}KiB"}, times={"between": f"{20 + i}s"}, fields=[{"name": "tags", "from": "body:tags"}])
            gateway.reload()
            time.sleep(0.2)
        until(lambda: len([h for h in gateway.status["history"] if h["kind"] == "reload"]) >= 1)
        until(lambda: load.done > 6, 30)
    assert load.wrong == []
    reply = gateway.ask("POST", "/v1/chat/completions", b"x" * (70 << 10))
    assert reply.status == 413, "the limit of the last configuration is not in force"


def test_kernels_can_move(pool, tmp_path, slow, until):
    gateway = start(pool, tmp_path, slow)
    other = pool.scripted(tmp_path, "other")
    with Load(gateway, threads=2) as load:
        time.sleep(0.3)
        gateway.kernels["slow"] = ("infer", other.url)
        gateway.write()
        gateway.reload()
        until(lambda: other.counts["whole"] > 0)
    assert load.wrong == []


@pytest.mark.parametrize(("change", "words"), [
    ({"model": None}, "model"), ({"threads": 0}, "threads"), ({"treads": 2}, "did you mean 'threads'"),
    ({"admin": "0.0.0.0:8081"}, "admin"), ({"canary": {"kernel": "nobody", "share": "5%"}}, "nobody"),
    ({"listen": "nowhere"}, "listen"), ({"contract": "gone.yaml"}, "gone.yaml"), ({"shadow": "nobody"}, "nobody"),
])  # fmt: skip
def test_a_bad_configuration_is_refused_and_the_old_one_serves_on(kcc, pool, tmp_path, slow, until, change, words):
    gateway = start(pool, tmp_path, slow, telemetry={"log": "gateway.log"})
    assert kcc("gateway", gateway.config, "--check").code == 0
    good = gateway.config.read_text()
    with Load(gateway, threads=2, words=20) as load:
        gateway.write(**change)
        checked = kcc("gateway", gateway.config, "--check")
        assert checked.code in (2, 4) and words in checked.err and "error" in checked.err
        gateway.reload()
        time.sleep(0.5)
        assert not gateway.ended
        said = lambda: (gateway.folder / "gateway.log").read_text() + gateway.error_text  # noqa: E731
        until(lambda: words in said(), 5, "nobody is told that the configuration was refused")
        assert words in json.dumps(gateway.status["history"]) or words in said()
    assert load.wrong == []
    gateway.config.write_text(good)
    assert say(gateway, "ask-1").status == 200


def test_check_starts_nothing(kcc, tmp_path):
    kernels = {"a": ("infer", "http://127.0.0.1:9"), "audit": ("audit", "http://127.0.0.1:10")}
    try:
        gateway_processes.Gateway("/bin/true", tmp_path, kernels)
    except RuntimeError:
        pass
    checked = kcc("gateway", tmp_path / "gateway.yaml", "--check")
    assert checked.code == 0, checked.err
    assert not (tmp_path / "state").exists()


def test_two_gateways_of_one_state_folder(kcc, pool, tmp_path, slow):
    gateway = start(pool, tmp_path, slow)
    second = kcc("gateway", gateway.config)
    assert second.code in (2, 4) and "another" in second.err, second.err
    assert say(gateway, "ask-1").status == 200


def test_two_gateways_at_one_register_of_sqlite(kcc, pool, tmp_path, slow):
    gateway = start(pool, tmp_path, slow, register="sqlite:kcc.db")
    gateway.write(state="other")
    second = kcc("gateway", gateway.config)
    assert second.code in (2, 4), second.out
    assert "SQLite" in second.err or "sqlite" in second.err
    assert "another" in second.err, second.err
    assert say(gateway, "ask-1").status == 200


def test_a_gateway_whose_port_is_taken_says_so(kcc, pool, tmp_path, slow):
    gateway = start(pool, tmp_path, slow)
    gateway.write(listen=gateway.host, state="other")
    second = kcc("gateway", gateway.config)
    assert second.code == 4 and gateway.host.split(":")[1] in second.err


class SmallDisk:
    """A file system of two MiB."""

    def __init__(self, folder):
        self.folder, self.filler = folder, folder / "filler"
        folder.mkdir(parents=True)
        self.mounted = os.geteuid() == 0 and subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=2m", "none", folder], capture_output=True, check=False).returncode == 0  # fmt: skip

    def fill(self):
        with open(self.filler, "wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(4096))
            except OSError:
                pass

    def free(self):
        self.filler.unlink()

    def end(self):
        if self.mounted:
            subprocess.run(["umount", "-l", self.folder], check=True)


def disk_story(kcc, gateway, until, fill, free):
    gateway.until_scored(lambda: say(gateway, "ask-1"))
    for i in range(30):
        assert say(gateway, f"ask-{i}").status == 200
    until(lambda: len(gateway.observations()) >= 30)
    fill()
    for i in range(60):
        assert say(gateway, f"ask-{i}").status == 200, "a full disk stops nobody's answer"
    until(lambda: "log" in json.dumps([h["kind"] for h in gateway.status["history"]]), 10, "nobody is told of the full disk")
    held = next(one for one in gateway.status["kernels"] if one["name"] == "slow")["verdict"]
    assert held in ("inconclusive", "satisfied", "violated")
    free()
    before = len(gateway.observations())
    until(lambda: say(gateway, "ask-1").status == 200 and len(gateway.observations()) > before, 20, "the log does not go on")
    assert gateway.end()[0] == 0
    replay = kcc("monitor", "replay", gateway.log, "--contract", gateway.contract, "--policy", gateway.policy)
    assert replay.code == 0, replay.out + replay.err


def test_a_full_disk(kcc, pool, tmp_path, until):
    disk = SmallDisk(tmp_path / "gateway/state")
    try:
        if not disk.mounted:
            pytest.skip("no small file system can be mounted here")
        kernel = pool.scripted(tmp_path, "slow")
        gateway = start(pool, tmp_path, kernel)
        disk_story(kcc, gateway, until, disk.fill, disk.free)
    finally:
        pool.end()
        disk.end()


def test_a_file_that_may_not_grow(kcc, pool, tmp_path, until):
    kernel = pool.scripted(tmp_path, "slow")
    gateway = start(pool, tmp_path, kernel)

    def limit(size):
        resource.prlimit(gateway.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    disk_story(kcc, gateway, until, lambda: limit(pathlib.Path(gateway.log).stat().st_size), lambda: limit(resource.RLIM_INFINITY))
