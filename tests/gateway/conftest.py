"""Gateways before kernels of the lab and scripted ones (tools/gateway_processes.py); whatever a test starts is ended, and ends well."""

import itertools
import pathlib
import shutil
import subprocess
import tempfile
import time

import gateway_processes
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def labs(kcc_path):
    """labs(kernel, *flags) -> a server of the lab, one for all tests that ask for the same."""
    pool, known = gateway_processes.Pool(kcc_path), {}

    def lab(*words):
        if words not in known:
            known[words] = pool.lab(*words)
        return known[words]

    yield lab
    assert pool.end() == []


@pytest.fixture(scope="module")
def module_pool(kcc_path):
    pool = gateway_processes.Pool(kcc_path)
    yield pool
    assert pool.end() == []


@pytest.fixture
def pool(kcc_path):
    pool = gateway_processes.Pool(kcc_path)
    yield pool
    assert pool.end() == []


@pytest.fixture
def until():
    """until(check, seconds) -> what check() gives once that is true."""

    def wait(check, seconds=10, what=""):
        deadline = time.monotonic() + seconds
        while not (value := check()):
            assert time.monotonic() < deadline, what or "it did not come to pass"
            time.sleep(0.02)
        return value

    return wait


@pytest.fixture
def scripted(pool, tmp_path):
    """Three scripted kernels behind a gateway that audits nothing: gateway(**spec) starts it; kernels by name."""

    class Trio:
        kernels = {name: pool.scripted(tmp_path, name) for name in ("a", "b", "c")}

        def gateway(self, audit=0, more=None, **spec):
            roles = {"a": ("infer", self.kernels["a"].url), "b": ("guard", self.kernels["b"].url),
                     "c": ("fallback", self.kernels["c"].url), "audit": ("audit", self.kernels["c"].url)} | (more or {})  # fmt: skip
            policy = gateway_processes.policy_of(roles, audit={"rate": audit, "probeRate": 1, "oncePerSession": False})
            return pool.gateway(tmp_path / "gateway", roles, policy=policy, **spec)

    return Trio()


class Postgres:
    """A server of its own (tests/register/postgres.sh), with a schema for each register."""

    def __init__(self):
        # Not below pytest's own folder: the server is another user, and must get there.
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="kcc-gw-pg-", dir="/tmp"))
        self.folder.chmod(0o755)
        self.process = subprocess.Popen([ROOT / "tests/register/postgres.sh", self.folder / "server"], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)  # fmt: skip
        self.uri = self.process.stdout.readline().strip()
        # Not skipped: a machine without the server has not tested what it says it did.
        assert self.uri, "no PostgreSQL server could be started; run tools/setup.sh"
        self.count = itertools.count(1)

    def new_uri(self):
        name = f"gw{next(self.count)}"
        self.psql(f"CREATE SCHEMA {name}")
        return f"{self.uri}&options=-csearch_path%3D{name}"

    def psql(self, sql, uri=None):
        done = subprocess.run(["psql", "-q", "-t", "-A", "-v", "ON_ERROR_STOP=1", uri or self.uri, "-c", sql], check=True,
                              capture_output=True, text=True)  # fmt: skip
        return done.stdout.strip()

    def tell(self, word):
        """stop or start."""
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres():
    server = Postgres()
    yield server
    server.close()


@pytest.fixture
def own_postgres():
    """One that a test may stop."""
    server = Postgres()
    yield server
    server.close()
