"""The program under test, and a way to run it."""

import dataclasses
import fcntl
import hashlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "python")]
import run_docs  # noqa: E402

pytest_plugins = ["passed_before"]

# Before anything imports PyTorch, here or in a child: the models are tiny, and a second thread does nothing but wait for the
# first, busily, on the core of another worker. GRPO in tests/python/test_trl.py takes four times the CPU time with two.
os.environ.setdefault("OMP_NUM_THREADS", "1")


# The longest files, with what they wait for: started first, so that no worker is left alone with one at the end.
LONG = ("docs/test_docs", "kernel/test_contract_matrix", "gateway/test_reload", "python/test_trl", "gateway/test_attacks", "register/test_replay", "lab/test_experiments", "report/test_html",
        "gateway/test_routes", "gateway/test_evidence", "gateway/test_peers", "gateway/test_promotion_evidence", "register/test_kept_requests",
        "engines/test_engines", "engines/test_adapters", "train/test_train", "train/test_gradients", "lab/test_demo", "gateway/test_dashboard", "gateway/test_story",
        "lab/test_shipped", "lab/test_e3", "serve/test_serve_kernel", "report/test_other_pages", "register/test_register_commands", "python/test_monitor", "python/test_gpu_experiments",
        "python/test_online_monitor", "engines/test_model", "register/test_blame", "register/test_promote_watch", "train/test_verify", "kernel/test_torch_lm")  # fmt: skip


def pytest_addoption(parser):
    parser.addoption("--pictures", action="store_true", help="store pictures of the report's pages in build/screenshots")


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: run by make test-all, not by make test")
    # A shell's background job ignores it, and the programs under test would inherit that.
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items):
    rank = {f"tests/{name}.py": place for place, name in enumerate(LONG)}
    items.sort(key=lambda item: rank.get(item.nodeid.split("::")[0], len(LONG)))


@pytest.fixture(scope="session")
def made_once(tmp_path_factory, request):
    """made_once(name, make) -> a directory that make(directory) fills, once for all workers of the run."""
    root = tmp_path_factory.getbasetemp()
    if hasattr(request.config, "workerinput"):
        root = root.parent

    return lambda name, make: filled(root / name, make)


def filled(target, make):
    """The directory, filled by make(directory) if it is not there; by one process, for which others wait."""
    with open(f"{target}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            unfinished = target.with_name(f"{target.name}.part")
            shutil.rmtree(unfinished, ignore_errors=True)  # of a run that was killed
            unfinished.mkdir()
            make(unfinished)
            unfinished.rename(target)
    return target


@pytest.fixture(scope="session")
def made_of():
    """made_of(name, files, make) -> a directory that make(directory) fills, kept in build/made for later runs until one of
    the files changes. They must be all that decides what make writes."""

    def directory(name, files, make):
        digest = hashlib.sha256()
        for file in sorted(files):
            digest.update(f"{file.relative_to(ROOT)} {file.stat().st_size}\n".encode() + file.read_bytes())
        folder = ROOT / "build/made" / name
        folder.mkdir(parents=True, exist_ok=True)
        return filled(folder / digest.hexdigest()[:16], make)

    return directory


@dataclasses.dataclass
class Outcome:
    code: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out)


@pytest.fixture(scope="session")
def torch_lm(tmp_path_factory):
    """torch_lm(model, options) -> the PyTorch adapter as a kernel, quickly started: torch_fork.py."""
    program = ROOT / "tests/torch_fork.py"
    address = tmp_path_factory.mktemp("torch") / "socket"
    command = [sys.executable, program, "serve", address]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout.readline() == "ready\n"
        yield lambda model, options="": f"exec:/usr/bin/python3 {program} run {address} {model} --threads 1 {options}"
        server.stdin.close()


@pytest.fixture(scope="session")
def kcc_path():
    return run_docs.kcc_binary()


@pytest.fixture
def kcc(kcc_path):
    """kcc("check", path, stdin="…") -> Outcome."""

    def run(*arguments, stdin=None, env=None, cwd=ROOT):
        environment = {key: value for key, value in os.environ.items() if key != "NO_COLOR"}
        environment.update(env or {})
        done = subprocess.run(
            [kcc_path, *map(str, arguments)],
            input=stdin if stdin is not None else "",
            capture_output=True,
            text=True,
            env=environment,
            cwd=cwd,
            timeout=60,
            check=False,
        )
        return Outcome(done.returncode, done.stdout, done.stderr)

    return run


@pytest.fixture
def contracts():
    return sorted((ROOT / "contracts").glob("*.yaml"))


@pytest.fixture(scope="session")
def screenshot(request):
    """screenshot(page, name) stores a picture in build/screenshots for people to look at, if --pictures is given: no test
    reads it, and drawing them all takes as long as the tests themselves."""
    folder = ROOT / "build" / "screenshots"

    def store(page, name):
        if request.config.getoption("--pictures"):
            folder.mkdir(parents=True, exist_ok=True)
            page.screenshot(path=folder / f"{name}.png", full_page=True)

    return store


MINIMAL = """\
apiVersion: kcc/v1
kind: KernelContract
metadata: {name: small, version: 1.0.0}
spec:
  decision: {about: evaluation-set}
  numerical:
    - {id: N-1, metric: p99_kl, atMost: 0.01, level: L2}
"""


@pytest.fixture
def minimal():
    return MINIMAL
