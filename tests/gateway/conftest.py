"""Gateways before kernels of the lab and scripted ones (tools/gateway_processes.py); whatever a test starts is ended, and ends well."""

import pathlib
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
