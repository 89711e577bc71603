"""kcc doctor: each part is found, missing or broken, and the exit code says whether kcc can work."""

import json
import pathlib
import shutil
import stat
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SERVER = ROOT / "tests/kernel/reference_server.py"
INSTALLED = ["program", "model", "requests", "contract", "vectors", "libraries", "scratch"]


def found(outcome):
    """{name: finding} of --json."""
    return {row["name"]: row for row in outcome.json["findings"]}


@pytest.fixture(scope="module")
def no_python(tmp_path_factory):
    """A program that is no Python, so that doctor need not import PyTorch in every test."""
    return tmp_path_factory.mktemp("none") / "python3"


def test_a_checkout_is_in_order(kcc, no_python):
    outcome = kcc("doctor", "--json", "--python", no_python)
    assert outcome.code == 0, outcome.out
    assert outcome.json["kccDoctor"] == 1 and outcome.json["ok"] is True
    findings = found(outcome)
    assert [name for name in findings if findings[name]["group"] == "installation"] == INSTALLED
    assert all(findings[name]["found"] == "ok" and "remedy" not in findings[name] for name in INSTALLED)
    assert findings["program"]["detail"].endswith("/kcc")
    assert "scalar" in findings["vectors"]["detail"]
    assert "libcurl/" in findings["libraries"]["detail"]


def test_every_part_is_one_line_with_what_to_do(kcc, no_python):
    outcome = kcc("doctor", "--python", no_python)
    assert outcome.code == 0
    lines = [line for line in outcome.out.splitlines() if line.startswith("  ")]
    rows = kcc("doctor", "--json", "--python", no_python).json["findings"]
    assert len(lines) == len(rows)
    for line, row in zip(lines, rows):
        assert line.split()[:2] == [row["found"], row["name"]]
        assert line.endswith(row.get("remedy", row["detail"]))
    assert f"  missing  python       cannot start '{no_python}'" in outcome.out
    assert outcome.out.endswith("\nnothing that kcc needs is missing or broken\n")


def test_a_program_without_its_data_is_at_fault(kcc_path, tmp_path):
    program = tmp_path / "bin/kcc"
    program.parent.mkdir()
    shutil.copy(kcc_path, program)
    done = subprocess.run([program, "doctor", "--json", "--python", tmp_path / "none"], cwd=tmp_path, text=True,
                          capture_output=True, check=False)
    rows = {row["name"]: row for row in json.loads(done.stdout)["findings"]}
    assert done.returncode == 4
    for name in ("model", "requests", "contract"):
        assert rows[name]["found"] == "missing" and rows[name]["needed"]
        assert "cmake --install" in rows[name]["remedy"]
    model = tmp_path / "share/kcc/models/kcc-lab"
    model.mkdir(parents=True)
    (model / "config.json").write_text("{}")
    done = subprocess.run([program, "doctor", "--python", tmp_path / "none"], cwd=tmp_path, text=True,
                          capture_output=True, check=False)
    assert done.returncode == 4 and "  broken   model " in done.stdout
    assert done.stdout.endswith("\n3 faults\n")


def script(path, body):
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.mark.parametrize(
    ("body", "code", "name", "state", "words"),
    [
        ("printf 'python\\tok\\t3.11 at x\\nkcc\\tok\\t0.1\\n'", 0, "kcc", "ok", "0.1"),
        ("printf 'torch\\tmissing\\tnot installed for this Python\\n'", 0, "torch", "missing", "pip install torch"),
        ("printf 'noise\\nkcc\\tbroken\\tOSError: libkcc.so\\n'", 4, "kcc", "broken", "pip install ."),
        ("echo gone wrong >&2; exit 3", 4, "python", "broken", "exit code 3, gone wrong"),
    ],
)
def test_python_is_asked_and_need_not_be_there(kcc, tmp_path, body, code, name, state, words):
    outcome = kcc("doctor", "--json", "--python", script(tmp_path / "python3", body))
    row = found(outcome)[name]
    assert (outcome.code, row["found"]) == (code, state)
    assert words in row["detail"] + row.get("remedy", "")


def test_the_real_python_package_is_found(kcc):
    outcome = kcc("doctor", "--json", "--python", sys.executable, env={"PYTHONPATH": str(ROOT / "python")})
    rows = found(outcome)
    assert rows["python"]["detail"].startswith(f"{sys.version.split()[0]} at ")
    assert rows["numpy"]["found"] == "ok"
    assert rows["kcc"]["found"] in ("ok", "broken")  # broken where libkcc.so is not built
    assert rows["tokenizers"]["found"] == "ok"


def test_a_cuda_library_that_is_named_must_work(kcc, no_python, tmp_path):
    rows = found(kcc("doctor", "--json", "--python", no_python))
    assert rows["cuda"]["needed"] is False
    bad = tmp_path / "libkcc_cuda.so"
    bad.write_text("no library")
    outcome = kcc("doctor", "--json", "--python", no_python, "--cuda-library", bad)
    assert outcome.code == 4 and found(outcome)["cuda"]["found"] == "broken"


@pytest.fixture(scope="module")
def address():
    with subprocess.Popen([sys.executable, SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        yield server.stdout.readline().strip()
        server.stdin.close()


def test_a_server_is_named_by_its_address_alone(kcc, no_python, address):
    base = f"{address}/llamacpp/none/doctor"
    outcome = kcc("doctor", "--json", "--python", no_python, "--server", f"openai+http://{base}")
    rows = found(outcome)
    assert outcome.code == 0, outcome.out
    assert rows["answers"]["detail"] == f"as llamacpp; its URI is 'openai+http://{base}?server=llamacpp'"
    assert rows["scores"]["detail"].startswith("llamacpp b1-abc, tiny, decode")


@pytest.mark.parametrize(
    ("dialect", "options", "name", "words"),
    [
        ("vllm", "?vocab_size=64&server=vllm", "scores", None),
        ("vllm", "?server=vllm", "scores", None),
        ("sglang", "?server=sglang", "scores", "give vocab_size=N"),
        ("vllm", "", "answers", None),
        ("sglang", "?vocab_size=64&server=vllm", "scores", "It answers as server=sglang"),
    ],
)
def test_what_a_server_lacks_is_said(kcc, no_python, address, dialect, options, name, words):
    outcome = kcc("doctor", "--json", "--python", no_python, "--server",
                  f"openai+http://{address}/{dialect}/none/lacks{options}")
    row = found(outcome)[name]
    assert (row["found"] == "ok") == (words is None)
    assert words is None or words in row["detail"]
    assert outcome.code == (0 if all(r["found"] == "ok" for r in outcome.json["findings"]
                                     if r["group"] == "server") else 4)


@pytest.mark.parametrize("uri", ["http://127.0.0.1:1", "127.0.0.1:1/v1", "openai+http://127.0.0.1:1?server=vllm"])
def test_nobody_at_the_address_is_said_at_once(kcc, no_python, uri):
    outcome = kcc("doctor", "--json", "--python", no_python, "--server", uri)
    assert outcome.code == 4
    assert "is the server started, and is this its port?" in found(outcome)["answers"]["detail"]


def test_a_folder_of_that_name_is_not_the_python_package(kcc, tmp_path):
    """kcc/ of a checkout is a package to Python, though an empty one."""
    (tmp_path / "kcc").mkdir()
    bare = tmp_path / "python3"
    bare.write_text(f"#!/bin/sh\nexec {sys.executable} -S \"$@\"\n")
    bare.chmod(0o755)
    outcome = kcc("doctor", "--json", "--python", bare, cwd=tmp_path, env={"PYTHONPATH": ""})
    assert found(outcome)["kcc"]["found"] == "missing", outcome.out
    assert outcome.code == 0


@pytest.mark.parametrize("text", ["localhost", "traces/train"])
def test_what_is_not_an_address_is_told_so(kcc, no_python, text):
    outcome = kcc("doctor", "--json", "--python", no_python, "--server", text)
    assert outcome.code == 4
    assert found(outcome)["answers"]["detail"] == f"'{text}' is not a server's address; write http://HOST:PORT"
