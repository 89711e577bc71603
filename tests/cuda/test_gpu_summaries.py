"""The real device: what it measures is what the CPU measures, under contracts/kcc-self.yaml's bounds, and
its summaries are judged alike. Skipped where there is no GPU or no libkcc_cuda.so (docs/gpu.md)."""

import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))
import kcc  # noqa: E402
from kcc import cuda  # noqa: E402
from kcc.trace import write_trace  # noqa: E402

PROGRAM = pathlib.Path(os.environ.get("KCC_PROGRAM", ROOT / "build/release/apps/kcc/kcc"))


def missing():
    if not torch.cuda.is_available():
        return "no CUDA device"
    try:
        cuda.load()
    except kcc.DeviceError as error:
        return str(error)
    return ""


pytestmark = pytest.mark.skipif(missing() != "", reason=missing() or "there is one")

CONTRACT = """
apiVersion: kcc/v1
kind: KernelContract
metadata: {name: device, version: 1.0.0}
spec:
  slices:
    - {name: code, where: "'code' in tags"}
  numerical:
    - {id: N-1, metric: mean_kl, atMost: LIMIT, slices: [all, code], level: L3}
    - {id: N-2, metric: max_tv, atMost: 0.99999, level: L2}
    - {id: N-3, metric: max_logit_linf, atMost: 100, level: L2}
    - {id: N-4, metric: mean_abs_log_ratio, atMost: 10, level: L2}
  statistical:
    - {id: S-1, metric: mean_top10_overlap, atLeast: 0.01, level: L2}
"""


def contract(limit):
    return kcc.Contract(CONTRACT.replace("LIMIT", repr(limit)))


def logits(noise=0.02, rows=6, columns=40, vocab=32000, dtype=torch.bfloat16, seed=1):
    generator = torch.Generator().manual_seed(seed)
    train = 2.3 * torch.randn((rows, columns, vocab), generator=generator)
    heads = torch.randint(vocab, (rows, columns, 30), generator=generator)
    train.scatter_(2, heads, 8 + 3 * torch.randn(heads.shape, generator=generator).abs())
    train = train.to(dtype)
    infer = (train.float() + noise * torch.randn(train.shape, generator=generator)).to(dtype)
    tokens = torch.randint(vocab, (rows, columns), generator=generator, dtype=torch.int32)
    return train, infer, tokens


def requests(rows=6):
    return [{"id": f"r{row}", "tags": ["code"] if row < 3 else []} for row in range(rows)]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("limit, verdict", [(1.0, "satisfied"), (1e-12, "violated")])
def test_cuda_tensors_give_a_verdict(dtype, limit, verdict):
    train, infer, tokens = logits(dtype=dtype)
    rules = contract(limit)
    summary = kcc.measure(train.cuda(), infer.cuda(), rules, tokens=tokens, requests=requests())
    assert summary.backends == "cuda" and summary.tokens == tokens.numel()
    assert kcc.judge(rules, summary).verdict == verdict


def means(rules, summary):
    """The value of each clause on each slice; "inf" is a value."""
    report = kcc.judge(rules, summary)
    values = {(clause["id"], row["slice"]): row["value"] for clause in report.clauses for row in clause["slices"]}
    assert None not in values.values()
    return values


def same(value, got):
    """Within what the device promises: 1e-5 of it (docs/gpu.md)."""
    return got == value or (not isinstance(value, str) and got == pytest.approx(value, rel=1e-5, abs=1e-8))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("noise", [0.001, 0.02, 1.0])
def test_both_backends_say_the_same_within_the_promise(dtype, noise):
    train, infer, tokens = logits(noise, dtype=dtype)
    mask = torch.ones(tokens.shape, dtype=torch.bool)
    mask[2, 7:] = False
    rules = contract(1.0)
    options = dict(tokens=tokens, mask=mask, requests=requests())
    here = means(rules, kcc.measure(train, infer, rules, **options))
    there = means(rules, kcc.measure(train.cuda(), infer.cuda(), rules, **options))
    assert here.keys() == there.keys()
    for name, value in here.items():
        assert same(value, there[name]), (name, value, there[name])


def self_trace(directory, name, logprobs, tokens, tags):
    rows = len(tokens)
    lines = [{"id": f"row{i:04d}", "prompt_tokens": 1, "output_tokens": 1, "ordinal": i, "tags": [tags[i]],
              "kernel_fingerprint": name} for i in range(rows)]  # fmt: skip
    columns = {"request": np.arange(rows, dtype=np.int32), "position": np.ones(rows, dtype=np.int32),
               "token": tokens.astype(np.int32), "logprob": logprobs.astype(np.float32)}  # fmt: skip
    info = {"vocabSize": 32000, "evidence": "sampled-token", "kernelFingerprint": name}
    return write_trace(directory / name, info, lines, columns)


@pytest.mark.parametrize("spoil, verdict", [(0.0, "satisfied"), (-1e-4, "violated")])
def test_the_self_contract_holds_between_the_cpu_and_the_device(tmp_path, spoil, verdict):
    """contracts/kcc-self.yaml: the likeliest token's log-prob, by both backends on the same logits."""
    train, infer, _ = logits(rows=4, columns=200, dtype=torch.float32)
    infer[::2] *= 2  # peaked rows
    flat = infer.view(-1, infer.shape[-1])
    top = flat.argmax(-1)
    exact = torch.log_softmax(flat.double(), -1).gather(1, top.unsqueeze(1)).squeeze(1).numpy()
    drift = cuda.measure(train.view(-1, infer.shape[-1]).cuda(), flat.cuda(), tokens=top.int()).check()
    tags = ["peaked" if value > -1e-3 else "flat" for value in exact]
    tags[0] = "peaked"  # the slice must not be empty
    sides = [self_trace(tmp_path, name, values, top.numpy(), tags)
             for name, values in (("cpu", exact), ("cuda", drift["logprob"].cpu().numpy() + spoil))]  # fmt: skip
    rules = kcc.Contract.read(ROOT / "contracts/kcc-self.yaml")
    assert kcc.judge(rules, kcc.measure_traces(*sides, rules)).verdict == verdict


def test_both_backends_refuse_the_same_rows_in_the_same_words():
    for row, entry, value, side in ((3, 7, float("nan"), 0), (50, 31999, float("inf"), 1), (90, 0, float("nan"), 1)):
        pair = [each.clone() for each in logits(dtype=torch.float32)[:2]]
        pair[side].view(-1, 32000)[row, entry] = value
        said = []
        for move in (lambda x: x, lambda x: x.cuda()):
            with pytest.raises(kcc.EvidenceError) as caught:
                kcc.measure(move(pair[0]), move(pair[1]), threads=3)
            said.append(str(caught.value))
        assert said[0] == said[1] and f"logits[{entry}]" in said[0]


def test_masks_of_either_kind_are_measured_alike():
    train, infer, tokens = logits(dtype=torch.float32)
    for constant in (-float("inf"), -1e9, torch.finfo(torch.float32).min):
        for sides in ((0,), (1,), (0, 1)):
            pair = [train.clone(), infer.clone()]
            for side in sides:
                pair[side][1, :, 100:200] = constant
            tokens[1] = 5
            rules = contract(1.0)
            here, there = (means(rules, kcc.measure(*(move(each) for each in pair), rules, tokens=tokens,
                                                    requests=requests()))
                           for move in (lambda x: x, lambda x: x.cuda()))  # fmt: skip
            for name, value in here.items():
                assert same(value, there[name]), (constant, sides, name, value, there[name])


def test_no_logits_come_back_to_the_host(tmp_path):
    train, infer, tokens = logits(rows=4, columns=64)
    pair = train.cuda(), infer.cuda()
    kcc.measure(*pair, tokens=tokens)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        kcc.measure(*pair, tokens=tokens)
        torch.cuda.synchronize()
    profile.export_chrome_trace(str(tmp_path / "trace.json"))
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    copied = [event["args"]["bytes"] for event in events
              if event.get("cat") == "gpu_memcpy" and "DtoH" in event["name"]]  # fmt: skip
    assert copied and sum(copied) < 512 * tokens.numel()  # a row of logits has 64,000 bytes, twice


def test_summaries_of_streams_and_of_runs_are_the_same_bytes():
    train, infer, tokens = logits()
    pair = train.cuda(), infer.cuda()
    want = kcc.measure(*pair, tokens=tokens).to_bytes()
    side = torch.cuda.Stream()
    for _ in range(20):
        with torch.cuda.stream(side):
            side.wait_stream(torch.cuda.default_stream())
            assert kcc.measure(*pair, tokens=tokens).to_bytes() == want
    begun = [kcc.begin_measure(*pair, tokens=tokens) for _ in range(4)]
    assert all(each.finish().to_bytes() == want for each in begun)


def test_logits_that_are_still_being_computed_are_waited_for():
    train, infer, tokens = logits(rows=6, columns=40)
    want = kcc.measure(train.cuda(), infer.cuda(), tokens=tokens).to_bytes()
    slow = torch.randn(4096, 4096, device="cuda")
    made = [torch.zeros_like(train, device="cuda"), torch.zeros_like(infer, device="cuda")]
    pair = train.cuda(), infer.cuda()
    torch.cuda.synchronize()
    for _ in range(40):
        slow = slow @ slow / 64
    for to, source in zip(made, pair):
        to.copy_(source)
    assert kcc.measure(*made, tokens=tokens).to_bytes() == want


def test_a_monitor_watches_a_step_on_the_device():
    train, infer, tokens = logits(noise=0.02, dtype=torch.float32)
    pick = lambda x: torch.log_softmax(x, -1).gather(2, tokens.to(x.device).long().unsqueeze(2)).squeeze(2)  # noqa: E731
    # A step has no requests, so that no slice of them can be judged.
    rules = kcc.Contract(CONTRACT.replace("LIMIT", "1.0").replace("slices: [all, code], ", ""))
    correction = {"weight": {"mode": "truncate", "level": "token", "high": 2.0}}
    here, there = kcc.Monitor(rules, correction=correction), kcc.Monitor(rules, correction=correction)
    want = here.step(pick(train), pick(infer), logits=(train, infer), tokens=tokens)
    pair = train.cuda(), infer.cuda()
    pending = there.begin(pick(pair[0]), pick(pair[1]), logits=pair, tokens=tokens)
    step = pending.finish()
    assert step.verdict == want.verdict == "satisfied"
    assert step.weights.is_cuda and torch.allclose(step.weights.cpu(), want.weights, atol=1e-4)
    assert there.summary.backends == "cuda"


def test_traces_are_measured_on_the_device(tmp_path):
    train, infer, tokens = logits(rows=5, columns=30, dtype=torch.float32)
    columns = {"request": np.repeat(np.arange(5, dtype=np.int32), 30),
               "position": np.tile(np.arange(4, 34, dtype=np.int32), 5),
               "token": tokens[:5].numpy().reshape(-1)}  # fmt: skip
    lines = [{"id": f"r{i}", "prompt_tokens": 4, "output_tokens": 30, "tags": ["code"]} for i in range(5)]
    sides = [write_trace(tmp_path / name, {"vocabSize": 32000, "kernelFingerprint": name}, lines,
                         columns | {"logits": side.numpy().reshape(-1, 32000)})
             for name, side in (("train", train), ("infer", infer))]  # fmt: skip
    rules = contract(1.0)
    here, there = (kcc.measure_traces(*sides, rules, device=device) for device in (None, "cuda"))
    assert there.backends == "cuda"
    for (name, value), (_, got) in zip(means(rules, here).items(), means(rules, there).items()):
        assert same(value, got), (name, value, got)
    if not PROGRAM.exists():
        pytest.skip(f"kcc measure --device cuda: {PROGRAM} is not there")
    (tmp_path / "contract.yaml").write_text(CONTRACT.replace("LIMIT", "1.0"))
    command = [PROGRAM, "measure", *sides, "-c", tmp_path / "contract.yaml", "-o", tmp_path / "s.kccs",
               "--device", "cuda", "--cuda-library", cuda.find()]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert kcc.Summary.read(tmp_path / "s.kccs").to_bytes() == there.to_bytes()
