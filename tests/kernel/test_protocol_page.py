"""The protocol page's own program and exchange: what it shows is what happens."""

import json
import re
import subprocess

from engines import ROOT, write_requests

PAGE = (ROOT / "docs/exec-protocol.md").read_text()


def block(kind):
    return re.search(rf"^```{kind}\n(.*?)^```", PAGE, re.M | re.S).group(1)


def test_the_program_is_a_kernel(kcc, tmp_path):
    program = tmp_path / "uniform.py"
    program.write_text(block("python"))
    requests = write_requests(tmp_path / "r.jsonl", 9, 5)
    kernel = f"exec:/usr/bin/python3 {program}"
    done = kcc("score", kernel, "--requests", requests, "-o", tmp_path / "t", "--batch", 4)
    assert done.code == 0, done.err
    assert kcc("trace", "verify", tmp_path / "t").code == 0
    done = kcc("measure", tmp_path / "t", kernel, "-o", tmp_path / "s.kccs")
    assert done.code == 0, done.err
    done = kcc("generate", kernel, "--requests", requests, "--max-tokens", 3, "-o", tmp_path / "g")
    assert done.code == 0, done.err


def test_the_exchange_is_what_the_program_says(tmp_path):
    program = tmp_path / "uniform.py"
    program.write_text(block("python"))
    lines = block("exchange").splitlines()
    asked = [line[2:] for line in lines if line.startswith("→ ")]
    answered = [line[2:] for line in lines if line.startswith("← ")]
    assert len(asked) == len(answered) == 4
    place = json.loads(asked[1])["file"]
    asked[1] = asked[1].replace(place, str(tmp_path / "tokens.safetensors"))
    done = subprocess.run(["/usr/bin/python3", program], input="\n".join(asked) + "\n", capture_output=True, text=True,
                          timeout=30, check=True)
    assert done.stdout.splitlines() == answered
