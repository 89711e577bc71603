"""The first steps in docs/first-steps: at most ten commands, and those that need a server against real ones."""

import pathlib
import re
import subprocess
import sys

import pytest

import run_docs

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs/first-steps").glob("*.md"))
SERVERS = ROOT / "build/servers"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_right_answer_takes_at_most_ten_commands_of_kcc(page):
    """What a reader types on one way through the page: the way of one server, where there are two."""
    text = page.read_text(encoding="utf-8")
    servers = {kind for kind, _ in re.findall(r"<!-- server: (\w+) (\S+) -->", text)} or {None}
    for kind in servers:
        own = re.sub(r"<!-- server: (?!%s )\w+ \S+ -->\n```console\n.*?```\n" % kind, "", text, flags=re.S)
        commands = re.findall(r"^\$ (kcc .*)", own, re.M)
        assert 3 <= len(commands) <= 10, (kind, commands)


def test_there_is_a_page_for_each_of_four_users():
    assert [page.stem for page in PAGES] == ["on-call", "researcher", "rl-engineer", "serving-engineer"]


@pytest.mark.slow
def test_the_serving_engineers_steps_against_real_servers(tmp_path):
    """Blocks that follow a server's note are run against vLLM's CPU build and llama.cpp's server on the shipped model."""
    assert (SERVERS / "vllm").exists(), "the servers are not installed; run tools/servers.sh"
    started, addresses = [], {}
    try:
        for kind in ("llamacpp", "vllm"):
            command = [sys.executable, ROOT / "tests/kernel/real_server.py", kind, tmp_path, "kcc-lab"]
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            started.append(process)
            addresses[kind] = process.stdout.readline().strip()
            assert addresses[kind], f"{kind} does not start"
        page = run_docs.Page(ROOT / "docs/first-steps/serving-engineer.md", addresses)
        problems = page.run()
    finally:
        for process in started:
            process.communicate("")
    assert not problems, "\n".join(problems)


def test_a_block_that_needs_a_server_is_run_with_its_address(tmp_path, monkeypatch):
    page = tmp_path / "page.md"
    page.write_text("<!-- server: vllm localhost:8000 -->\n```console\n$ echo http://localhost:8000/v1\nhttp://localhost:8000/v2\n```\n")
    monkeypatch.setattr(run_docs.Page, "problem", lambda self, line, text: self.problems.append(text))
    assert run_docs.Page(page).run() == []
    (problem,) = run_docs.Page(page, {"vllm": "127.0.0.1:1"}).run()
    assert "localhost:8000/v1" in problem, "the page's address stands for the real one"
    page.write_text(page.read_text().replace("v2", "v1"))
    assert run_docs.Page(page, {"vllm": "127.0.0.1:1"}).run() == []
