"""kill -9 at random moments of a write: the register is as before or as after, and sound."""

import random
import subprocess
import time

import pytest
from made_export import write_export

EVENTS = 1500


def moments_of(kcc, kcc_path, new_uri, tmp_path, count):
    head = write_export(tmp_path / "export", EVENTS)
    first = new_uri()
    assert kcc("register", "init", "--register", first).code == 0
    begun = time.monotonic()
    assert kcc("register", "import", tmp_path / "export", "--register", first).code == 0
    duration = time.monotonic() - begun
    random.seed(20261118)
    outcomes = set()
    place = None
    for _ in range(count):
        if place is None:
            place = new_uri()
            assert kcc("register", "init", "--register", place).code == 0
        writer = subprocess.Popen([kcc_path, "register", "import", tmp_path / "export", "--register", place],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
        try:
            writer.wait(random.uniform(0, 1.3 * duration))
        except subprocess.TimeoutExpired:
            writer.kill()
            writer.wait()
        check = kcc("register", "verify", "--json", "--register", place)
        assert check.code == 0, check.out + check.err
        assert check.json["events"] in (0, EVENTS)
        outcomes.add(check.json["events"])
        if check.json["events"] == EVENTS:
            assert check.json["head"] == head
            place = None  # the next one starts anew
    return outcomes


def test_a_killed_writer_leaves_the_old_or_the_new(kcc, kcc_path, new_uri, tmp_path):
    moments_of(kcc, kcc_path, new_uri, tmp_path, 10)


@pytest.mark.slow
def test_two_hundred_moments(kcc, kcc_path, new_uri, tmp_path):
    assert moments_of(kcc, kcc_path, new_uri, tmp_path, 200) == {0, EVENTS}


def test_writers_at_once_lose_nothing(kcc, kcc_path, uri):
    commands = [[kcc_path, "register", "add", "model", f"m{number}", "--register", uri] for number in range(12)]
    writers = [subprocess.Popen(command, stdout=subprocess.DEVNULL) for command in commands]
    assert [writer.wait() for writer in writers] == [0] * len(writers)
    check = kcc("register", "verify", "--json", "--register", uri)
    assert check.code == 0
    assert check.json["events"] == len(writers)
