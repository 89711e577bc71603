"""kcc measure --device cuda through the real program, with a CUDA library that measures on the CPU
(tests/device/fake_cuda.cc) in the place of the real one."""

import json
import pathlib

import pytest

import pairs

CONTRACT = """
apiVersion: kcc/v1
kind: KernelContract
metadata: {name: device, version: 1.0.0}
spec:
  slices:
    - {name: late, where: token.position >= 8}
  numerical:
    - {id: N-1, metric: p99_kl, atMost: 0.01, slices: [all, late], level: L3}
    - {id: N-2, metric: mean_tv, atMost: 0.2, exceedance: 5%, slices: [all, late], level: L2}
    - {id: N-3, metric: mean_js, atMost: 0.5, level: L1}
  statistical:
    - {id: S-1, metric: mean_top5_overlap, atLeast: 0.5, level: L2}
"""


@pytest.fixture
def fake(kcc_path):
    return pathlib.Path(kcc_path).resolve().parents[2] / "tests/device/libkcc_cuda.so"


@pytest.fixture
def contract(tmp_path):
    path = tmp_path / "contract.yaml"
    path.write_text(CONTRACT)
    return path


def clauses(kcc, contract, summary):
    done = kcc("judge", contract, summary, "--json")
    assert done.code in (0, 1, 3), done.err
    return json.loads(done.out)["clauses"]


def test_the_device_gives_the_verdicts_and_values_of_the_cpu(kcc, tmp_path, contract, fake):
    train, infer, *_ = pairs.logits_pair(tmp_path, vocab=300, noise=0.1)
    here, there, shown = (tmp_path / name for name in ("cpu.kccs", "cuda.kccs", "again.kccs"))
    assert kcc("measure", train, infer, "-c", contract, "-o", here).code == 0
    on_device = ("--device", "cuda", "--cuda-library", fake)
    for path, threads in ((there, 1), (shown, 3)):
        done = kcc("measure", train, infer, "-c", contract, "-o", path, *on_device, "--threads", threads)
        assert done.code == 0, done.err
    assert there.read_bytes() == shown.read_bytes()
    assert here.read_bytes().startswith(b"KCCSUM2\n") and there.read_bytes().startswith(b"KCCSUM3\n")
    assert clauses(kcc, contract, here) == clauses(kcc, contract, there)
    ran = [kcc("run", contract, train, infer, *flags) for flags in ((), on_device)]
    assert ran[0].code == ran[1].code and ran[0].code in (0, 1)


def test_without_the_library_the_error_names_it(kcc, tmp_path):
    train, infer, *_ = pairs.logits_pair(tmp_path, vocab=60)
    missing = tmp_path / "libkcc_cuda.so"
    done = kcc("measure", train, infer, "-o", tmp_path / "s", "--device", "cuda", "--cuda-library", missing)
    assert done.code == 4 and f"{missing} is not there" in done.err and "docs/gpu.md" in done.err
    done = kcc("measure", train, infer, "-o", tmp_path / "s", "--cuda-library", missing)
    assert done.code == 2 and "--device cuda" in done.err
    done = kcc("measure", train, infer, "-o", tmp_path / "s", "--device", "tpu")
    assert done.code == 2 and "tpu" in done.err
    assert not (tmp_path / "s").exists()


def test_parts_of_one_pair_by_two_backends_do_not_merge(kcc, tmp_path, fake):
    train, infer, *_ = pairs.logits_pair(tmp_path, vocab=60)
    a, b = tmp_path / "a.kccs", tmp_path / "b.kccs"
    assert kcc("measure", train, infer, "-o", a, "--shard", "1/2").code == 0
    done = kcc("measure", train, infer, "-o", b, "--shard", "2/2", "--device", "cuda", "--cuda-library", fake)
    assert done.code == 0, done.err
    done = kcc("merge", a, b, "-o", tmp_path / "c.kccs")
    assert done.code == 2 and "measure all parts on one of them" in done.err
