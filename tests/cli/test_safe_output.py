"""Text of others in what is printed: no byte of it may steer the terminal, or the CI runner that reads the log."""

import json
import os
import pathlib
import pty
import re
import subprocess
import sys
import threading
import xml.etree.ElementTree as ElementTree
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TITLE, CLIPBOARD, C1, OVERRIDE = "\x1b]0;owned\x07", "\x1b]52;c;aGk=\x07", "\x9b31m\x85", "\u202eabc\u2066\u2028"
EVIL = f"a{TITLE}{CLIPBOARD}{C1}{OVERRIDE}\x7f\r\x08\n::error::forged ##[group]x ##vso[task]x\n  ::stop-commands::x"
FORBIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ufeff]")
TOY = f"exec:{sys.executable} {ROOT}/tests/kernel/toy.py"


def run(kcc_path, *arguments, stdin="", cwd=None):
    done = subprocess.run([kcc_path, *map(str, arguments)], input=stdin.encode("utf-8", "surrogateescape"),
                          capture_output=True, cwd=cwd, timeout=60, check=False)  # fmt: skip
    return done.returncode, done.stdout, done.stderr


def check_safe(*streams, forged=True):
    for stream in streams:
        text = stream.decode("utf-8")  # strict: bytes that are no UTF-8 are not shown either
        assert not FORBIDDEN.search(text), ascii(text)
        if forged:
            assert not re.search(r"^\s*::", text, re.MULTILINE), text
            assert "##[" not in text and "##vso[" not in text, text


@pytest.fixture(scope="module")
def evil(tmp_path_factory, kcc_path):
    """A directory whose name, requests and traces are all hostile."""
    root = tmp_path_factory.mktemp("safe") / f"d{TITLE}{C1}\n::error::name"
    root.mkdir()
    rows = [{"id": f"{EVIL}{i}", "tags": [EVIL], EVIL: EVIL, "prompt": [1, 2], "output": [3, 4, 5]} for i in range(4)]
    (root / "requests.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for name, noise in (("train", 0), ("infer", 0.5)):
        code, out, err = run(kcc_path, "score", f"{TOY} --noise {noise}", "--requests", root / "requests.jsonl",
                             "-o", root / name)  # fmt: skip
        assert code == 0, err
        check_safe(out, err)
    (root / "contract.yaml").write_text((ROOT / "contracts/minimal.yaml").read_text())
    return root


def hostile(root):
    """A report whose every text of a clause is hostile."""
    report = json.loads((root / "report" / "report.json").read_text())
    report["contract"]["name"] = EVIL
    for clause in report["clauses"]:
        clause["id"] += EVIL
        for slice_ in clause["slices"]:
            slice_["reason"] = EVIL
    (root / "hostile.json").write_text(json.dumps(report))
    return root / "hostile.json"


def commands(root):
    contract, sides = root / "contract.yaml", (root / "train", root / "infer")
    yield ["check", contract]
    yield ["check", root / "train" / "requests.jsonl"]
    yield ["fmt", "--check", contract]
    yield ["explain", contract]
    yield ["diff", contract, contract]
    yield ["trace", "info", root / "train"]
    yield ["trace", "head", root / "train"]
    yield ["trace", "verify", root / "train"]
    yield ["trace", "info", root / "nothing"]
    yield ["measure", *sides, "-o", root / "s.kccs", "--contract", contract]
    yield ["merge", root / "s.kccs", "-o", root / "m.kccs"]
    yield ["judge", contract, root / "s.kccs", "--report", root / "report"]
    yield ["judge", contract, root / "s.kccs", "--all"]
    yield ["run", contract, "--train", sides[0], "--infer", sides[1]]
    yield ["report", root / "report", "--all"]
    yield ["compare", root / "report", root / "report"]
    yield ["compare", "--markdown", root / "report", root / "report"]
    yield ["bound", "--check", *sides]
    yield ["import", "vllm", root / "requests.jsonl", "-o", root / "imported"]
    yield ["rl", "diagnose", *sides]
    yield ["rl", "lint", *sides]
    yield ["calibrate", contract, "--conforming", root / "s.kccs", "--violating", root / "m.kccs"]
    yield ["report", hostile(root), "--all"]
    yield ["compare", root / "hostile.json", root / "hostile.json"]
    yield ["nonsense" + EVIL]
    yield ["check", "--nonsense" + EVIL]
    yield ["score", "exec:" + "/nowhere/" + TITLE, "--requests", root / "requests.jsonl", "-o", root / "none"]
    yield ["score", EVIL, "--requests", root / "requests.jsonl", "-o", root / "none"]


def test_every_command_shows_names_and_ids_escaped(evil, kcc_path):
    shown = b""
    for command in commands(evil):
        for json_flag in ([], ["--json"]):
            code, out, err = run(kcc_path, *command, *json_flag)
            assert code in (0, 1, 2, 3, 4), (command, err)
            check_safe(out, err)
            shown += out + err
            if json_flag and out.strip():
                json.loads(out)
    assert rb"\x1b]0;owned\x07" in shown and rb"\x9b31m" in shown and rb"\u202eabc" in shown
    assert rb"\u009b31m" in shown  # in JSON


def test_json_keeps_its_meaning(evil, kcc_path):
    _, out, _ = run(kcc_path, "trace", "head", evil / "train", "--json")
    assert json.loads(out)[0]["request"] == EVIL + "0"


def test_reports_on_disk_are_well_formed(evil, kcc_path):
    code, out, err = run(kcc_path, "report", evil / "hostile.json", "-o", evil / "again")
    assert code == 0, err
    check_safe(out, err)
    assert "forged" in ElementTree.tostring(ElementTree.parse(evil / "again" / "junit.xml").getroot(), "unicode")
    json.loads((evil / "again" / "report.json").read_text())


def test_a_terminal_gets_kccs_own_colours_alone(evil, kcc_path):
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm"}
    environment.pop("NO_COLOR", None)
    for command in (["trace", "verify", evil / "train"], ["trace", "info", evil / "nothing"]):
        subprocess.run([kcc_path, *command], stdout=theirs, stderr=theirs, env=environment, timeout=60, check=False)
    os.close(theirs)
    shown = b""
    try:
        while block := os.read(ours, 65536):
            shown += block
    except OSError:
        pass  # how the end of a terminal reads
    os.close(ours)
    assert b"\x1b[32mok\x1b[0m" in shown and rb"\x1b]0;owned\x07" in shown
    check_safe(re.sub(rb"\x1b\[(0|1|2|32|33|35|36|1;31|1;33)m|\r(?=\n)", b"", shown))


PROGRAM = """
import json, sys
sys.stderr.write({evil!r})
sys.stderr.flush()
line = sys.stdin.readline()
sys.stdout.write({answer!r} + chr(10))
"""


@pytest.mark.parametrize("answer", ["no JSON " + EVIL.replace("\n", " "),
                                    json.dumps({"type": "error", "message": EVIL}),
                                    json.dumps({"type": "hello", "protocol": 1, EVIL: 1})])  # fmt: skip
def test_what_a_program_says(kcc_path, tmp_path, answer):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.format(evil=EVIL, answer=answer), encoding="utf-8")
    (tmp_path / "r.jsonl").write_text('{"id": "a", "prompt": [1], "output": [2]}\n')
    code, out, err = run(kcc_path, "score", f"exec:{sys.executable} -X utf8 {program}", "--requests",
                         tmp_path / "r.jsonl", "-o", tmp_path / "out")  # fmt: skip
    assert code == 4 and b"error:" in err
    check_safe(out, err)
    # Only kcc begins a line.
    assert all(line.startswith((b"exec:", b"  ")) for line in err.splitlines()), err


class Server(BaseHTTPRequestHandler):
    status, body = 400, b""

    def do_GET(self):
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *_):
        pass


@pytest.mark.parametrize("status,answer", [(500, {"error": {"message": EVIL}}), (500, EVIL),
                                           (200, {"data": [{"id": EVIL}, {"id": "b"}]})])  # fmt: skip
def test_what_a_server_says(kcc_path, tmp_path, status, answer):
    body = answer.encode("utf-8") if isinstance(answer, str) else json.dumps(answer).encode()
    handler = type("Hostile", (Server,), {"status": status, "body": body})
    server = HTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    (tmp_path / "r.jsonl").write_text('{"id": "a", "prompt": [1], "output": [2]}\n')
    uri = f"openai+http://127.0.0.1:{server.server_port}?server=vllm&vocab_size=64&retries=0"
    try:
        code, out, err = run(kcc_path, "score", uri, "--requests", tmp_path / "r.jsonl", "-o", tmp_path / "out")
    finally:
        server.shutdown()
    assert code in (2, 4)
    assert b"aGk=" in err
    check_safe(out, err)


def test_what_others_read_passes_unchanged(kcc_path, tmp_path):
    text = (ROOT / "contracts/minimal.yaml").read_text().replace("spec:", "# ##[group] a\n# \u200e é ☃\nspec:", 1)
    (tmp_path / "c.yaml").write_text(text)
    assert run(kcc_path, "fmt", "-i", tmp_path / "c.yaml")[0] == 0
    _, out, _ = run(kcc_path, "fmt", tmp_path / "c.yaml")
    assert out == (tmp_path / "c.yaml").read_bytes() and b"##[group]" in out
    for shell in ("bash", "zsh", "fish"):
        _, out, _ = run(kcc_path, "completion", shell)
        assert b"\\x3a" not in out and b"\\x23" not in out


def test_a_full_disk_is_not_success(kcc_path):
    with open("/dev/full", "wb") as full:
        done = subprocess.run([kcc_path, "metrics"], stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 4 and done.stderr == b"kcc: error: cannot write standard output\n"
