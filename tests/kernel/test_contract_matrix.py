"""Every shipped contract against every kind of kernel, with a conforming and a violating pair.

MATRIX states what each pair ends with. The kinds, and what the pairs are made of:

    trace    two traces that carry every field a contract may ask for
    exec     two programs that speak the exec protocol, full logits
    server   a server that gives full logits (TensorRT-LLM's routes)
    lists    a server that gives the 20 best of 64 tokens (vLLM's routes), on both sides
    mixed    full logits on train's side, such a server's lists on infer's: a trainer and its server
    lab      the engine inside kcc, on the shipped model
    arrays   kcc.measure on two logit tensors
    monitor  kcc.Monitor, one step, with logits, and the fields that the contracts' slices read

A conforming pair gives the same numbers from two builds. A violating one differs by some tenths of a
logit. The contracts are the shipped files, but for lengths: a prompt of 8,192 tokens is 24 here, and
`tokensMax` is the longest answer of the requests. Nothing else of a contract is changed.
"""

import json
import pathlib
import re
import shutil
import subprocess

import numpy as np
import pytest

import kcc as library
from engines import toy
from kcc.trace import write_trace
from test_servers import Server

ROOT = pathlib.Path(__file__).resolve().parents[2]
VOCAB = 64
KINDS = ("trace", "exec", "server", "lists", "mixed", "lab", "arrays", "monitor")
WORDS = {"s": "satisfied", "v": "violated", "i": "inconclusive", "e": "error"}

# Each cell: the conforming pair, then the violating one. s satisfied, v violated, i inconclusive, e error.
# A letter in brackets is a reason below.
MATRIX = """
contract               | trace  | exec   | server | lists  | mixed  | lab    | arrays | monitor
minimal                | s v    | s v    | s v    | i v[k] | i v[k] | s v    | s v    | s v
fp8-serving            | s v    | s v    | s v    | i v[k] | i v[k] | s v    | s v    | s v
rl-post-training       | s v    | s v    | s v    | s v    | s v    | s v    | s v    | s v
rl-dump                | s v    | s v    | s v    | s v    | s v    | s v    | s v    | s v
attention-substitution | s v    | s v    | s v    | i v[k] | i v[k] | s v    | s v    | s v
heterogeneous-fleet    | s v    | s v    | s v    | s v    | s v    | s v    | s v    | s v
bit-exact              | s v    | s v    | s v    | i v[k] | i i[f] | s v    | s v    | s v
engines                | s v    | s v    | s v    | i v[k] | i v[k] | s v    | s v    | s v
engines-behaviour      | s v    | i i[w] | i i[w] | i i[w] | i i[w] | i i[w] | i i[w] | i i[w]
server-top-k           | s v    | s v    | s v    | s v    | s v    | s v    | s v    | s v
kcc-self               | s v    | s v    | s v    | s v    | i v[o] | s v    | s v    | s v
lab                    | i v[b] | v v[b] | e e[b] | e e[b] | e e[b] | s v    | v v[b] | v v[b]
"""
REASONS = {
    "k": "the contract asks for quantities to which lists of the best tokens give no upper end; server-top-k does not",
    "f": "the contract is about bits or single ulps of log-probs, and the side with logits wrote no log-prob",
    "o": "the contract is about kcc's own backends, and its 1e-6 is within the rounding of the server's float32 log-probs",
    "w": "the contract is about answers that both kernels wrote, and these kinds score given tokens",
    "b": "the contract binds the lab's engine, and asks for the seeds and signatures that it records",
}

# The lengths of the contracts, and those of the requests here.
LENGTHS = {"32768": "48", "8192": "24", "4096": "16", "256": "40"}
TAGS = (["json"], ["safety"], ["grid"], ["peaked"], ["arithmetic"], ["refusal"], ["recall"], ["copy"])


def parse(table):
    head, *rows = [[cell.strip() for cell in line.split("|")] for line in table.strip().splitlines()]
    cells = {}
    for name, *verdicts in rows:
        for kind, cell in zip(head[1:], verdicts, strict=True):
            pair, _, reason = cell.partition("[")
            conforming, violating = pair.split()
            cells[name, kind] = (WORDS[conforming], WORDS[violating], reason.rstrip("]"))
    return cells


CELLS = parse(MATRIX)


class Requests:
    """Token sequences with the fields that slices read. `few`: 24 with long answers; else 2,040 short ones,
    as many as a certificate about traffic needs on each kind of hardware."""

    def __init__(self, few):
        rng = np.random.default_rng(7)
        self.count, self.output = (24, 28) if few else (2040, 2)
        self.rows = []
        for i in range(self.count):
            prompt = (4, 30, 52)[i // 8 % 3] if few else 3
            self.rows.append({
                "id": f"r{i:05}", "prompt": rng.integers(3, 60, prompt).tolist(),
                "output": rng.integers(3, 60, self.output).tolist(), "tags": TAGS[i % len(TAGS)],
                "hardware": ("b200", "mi300x")[i % 2], "gold": "output",
                "advantage": [1.0 - 2.0 * (t % 2) for t in range(self.output)],
            })  # fmt: skip
        self.tokens = np.array([row["output"] for row in self.rows], dtype=np.int32)

    def write(self, path):
        path.write_text("".join(json.dumps(row) + "\n" for row in self.rows))
        return path

    def fields(self):
        return [{"id": row["id"], "tags": row["tags"], "hardware": row["hardware"], "prompt_tokens": len(row["prompt"]),
                 "output_tokens": self.output} for row in self.rows]  # fmt: skip


def contract_text(name, requests):
    text = (ROOT / f"contracts/{name}.yaml").read_text()
    for long, short in LENGTHS.items():
        text = re.sub(rf"(where:.*)\b{long}\b", rf"\g<1>{short}", text)
        text = re.sub(rf"(where:.*)\b{long}\b", rf"\g<1>{short}", text)  # twice in a line
    return re.sub(r"tokensMax: \d+", f"tokensMax: {requests.output}", text)


def sides(requests):
    """Logits [requests, tokens, vocabulary]: train, conforming, violating."""
    rng = np.random.default_rng(11)
    train = rng.normal(0, 2, (requests.count, requests.output, VOCAB)).astype(np.float32)
    return train, train.copy(), train + rng.normal(0, 0.4, train.shape).astype(np.float32)


def logprobs(logits, tokens):
    shifted = logits.astype(np.float64) - logits.max(-1, keepdims=True)
    return np.take_along_axis(shifted - np.log(np.exp(shifted).sum(-1, keepdims=True)), tokens[..., None], -1)[..., 0]


def advantages(requests):
    return np.array([row["advantage"] for row in requests.rows], dtype=np.float32)


def write_sides(directory, requests):
    """The three sides as traces whose requests carry every field that a shipped contract asks for."""
    for name, logits in zip(("train", "good", "bad"), sides(requests)):
        bad = name == "bad"
        run = {"kernel_fingerprint": f"build-{name}", "failed": False, "latency_ms": 80.0, "ttft_ms": 20.0,
               "parsed": not bad, "refused": bad, "reward": 0.0 if bad else 1.0}  # fmt: skip
        rows = [{**fields, **run, "seed": i, "replay_signature": f"{name}-{i}"} for i, fields in enumerate(requests.fields())]
        positions = np.concatenate([np.arange(requests.output) + row["prompt_tokens"] for row in rows])
        tensors = {
            "request": np.repeat(np.arange(requests.count), requests.output).astype(np.int32),
            "position": positions.astype(np.int32),
            "token": requests.tokens.reshape(-1),
            "logits": logits.reshape(-1, VOCAB),
            "advantage": advantages(requests).reshape(-1),
        }
        write_trace(directory / name, {"kernelFingerprint": f"build-{name}", "vocabSize": VOCAB}, rows, tensors)


@pytest.fixture(scope="module")
def servers():
    started = Server()
    yield started
    started.close()


@pytest.fixture(scope="module")
def kernels(servers):
    """By kind: the URIs of train, the conforming and the violating kernel."""
    noise = [toy(f"none --vocab {VOCAB} --noise {noise}") for noise in ("0", "1e-50", "0.3")]
    lists = [servers.uri("vllm", faults) for faults in ("peaked", "peaked,build-2", "peaked,drift")]
    return {
        "exec": noise,
        "server": [servers.uri("trtllm", faults) for faults in ("none", "build-2", "drift")],
        "lists": lists,
        "mixed": [servers.uri("trtllm", "peaked"), *lists[1:]],
        "lab": ["lab:train", "lab:train?path=decode", "lab:int4"],
    }


@pytest.fixture(scope="module")
def recorded(kernels, kcc_path, tmp_path_factory):
    """recorded(kind, few) -> a directory with what the three kernels said, as traces, made once; what a kernel of two kinds
    said is recorded once."""
    made, said = {}, {}

    def record(kind, few):
        if (kind, few) in made:
            return made[kind, few]
        directory = tmp_path_factory.mktemp(f"{kind}-{few}")
        requests = Requests(few)
        if kind == "trace":
            write_sides(directory, requests)
        else:
            asked = requests.write(directory / "requests.jsonl")
            for name, uri in zip(("train", "good", "bad"), kernels[kind]):
                if (uri, few) in said:
                    shutil.copytree(said[uri, few], directory / name)
                    continue
                subprocess.run([kcc_path, "score", uri, "--requests", asked, "-o", directory / name, "--batch", "64"],
                               check=True, capture_output=True, cwd=ROOT)  # fmt: skip
                said[uri, few] = directory / name
        made[kind, few] = directory
        return directory

    return record


def few(name):
    return name != "heterogeneous-fleet"


def in_memory(name, kind, violating):
    requests = Requests(few(name))
    contract = library.Contract(contract_text(name, requests))
    train, good, bad = sides(requests)
    infer = bad if violating else good
    if kind == "arrays":
        summary = library.measure(
            train, infer, contract, tokens=requests.tokens, advantages=advantages(requests), requests=requests.fields(),
            train_fingerprint="trainer-1", infer_fingerprint="engine-1",
        )  # fmt: skip
        return library.judge(contract, summary).data
    monitor = library.Monitor(contract, train_fingerprint="trainer-1", infer_fingerprint="engine-1")
    step = monitor.step(
        logprobs(train, requests.tokens), logprobs(infer, requests.tokens), advantages=advantages(requests),
        tags=[row["tags"] for row in requests.rows], ids=[row["id"] for row in requests.rows],
        fields={name: [row[name] for row in requests.fields()] for name in ("prompt_tokens", "hardware")},
        logits=(train, infer), tokens=requests.tokens,
    )  # fmt: skip
    return step.report.data


def doubts(report):
    """What kept clauses from being satisfied, for the message of a cell that is not as stated."""
    return [(clause["id"], row["slice"], row["verdict"], row["reason"])
            for clause in report["clauses"] for row in clause["slices"] if row["verdict"] != "satisfied"]  # fmt: skip


def test_the_matrix_holds_every_contract_and_kind():
    shipped = {path.stem for path in (ROOT / "contracts").glob("*.yaml")}
    assert set(CELLS) == {(name, kind) for name in shipped for kind in KINDS}
    for (name, kind), (conforming, violating, reason) in CELLS.items():
        whole = conforming == "satisfied" and violating == "violated"
        assert whole == (reason == ""), f"{name} × {kind}: a cell that does not tell the pairs apart needs a reason"
        assert violating != "satisfied", f"{name} × {kind}: unsound"
        assert conforming != "violated" or name == "lab", f"{name} × {kind}: a clean kernel is rejected"
    assert {reason for _, _, reason in CELLS.values()} - {""} == set(REASONS)


@pytest.mark.parametrize("violating", [False, True], ids=["conforming", "violating"])
@pytest.mark.parametrize("name,kind", CELLS)
def test_cell(kcc, recorded, tmp_path, name, kind, violating):
    expected = CELLS[name, kind][violating]
    if kind in ("arrays", "monitor"):
        report = in_memory(name, kind, violating)
    else:
        directory = recorded(kind, few(name))
        contract = tmp_path / "contract.yaml"
        contract.write_text(contract_text(name, Requests(few(name))))
        infer = directory / ("bad" if violating else "good")
        asked = () if kind == "trace" else ("--requests", directory / "requests.jsonl")
        report = kcc("run", contract, "--train", directory / "train", "--infer", infer, *asked, "--json").json
    assert report["verdict"] == expected, doubts(report)


@pytest.mark.parametrize("kind", ["exec", "server", "lists", "mixed", "lab"])
def test_a_live_kernel_ends_as_what_was_recorded_of_it(kcc, kernels, tmp_path, kind):
    requests = Requests(few=True)
    asked = requests.write(tmp_path / "requests.jsonl")
    contract = tmp_path / "contract.yaml"
    contract.write_text(contract_text("minimal", requests))
    train, good, bad = kernels[kind]
    for infer, expected in zip((good, bad), CELLS["minimal", kind]):
        done = kcc("run", contract, "--train", train, "--infer", infer, "--requests", asked, "--json")
        assert done.json["verdict"] == expected, doubts(done.json)


@pytest.mark.parametrize("kind", ["exec", "server", "arrays"])
def test_a_filled_fingerprint_satisfies_nothing_that_asks_who_answered(kcc, recorded, tmp_path, kind):
    """The conforming pair, and a clause on the word of the replica itself."""
    text = (ROOT / "contracts/minimal.yaml").read_text()
    text += "    - {id: O-2, metric: fingerprint_match_rate, atLeast: 1, level: L3}\n"
    text = text.replace("  numerical:", "  slices:\n    - {name: mine, where: kernel_fingerprint != 'x'}\n  numerical:", 1)
    text = text.replace("      level: L2\n      why: \"NeMo", "      level: L2\n      slices: [all, mine]\n      why: \"NeMo", 1)
    requests = Requests(few=True)
    if kind == "arrays":
        contract = library.Contract(text)
        train, good, _ = sides(requests)
        summary = library.measure(train, good, contract, tokens=requests.tokens, requests=requests.fields(),
                                  infer_fingerprint="engine-1")  # fmt: skip
        report = library.judge(contract, summary).data
    else:
        contract = tmp_path / "contract.yaml"
        contract.write_text(text)
        directory = recorded(kind, True)
        report = kcc("run", contract, "--train", directory / "train", "--infer", directory / "good", "--json").json
    found = {(clause["id"], row["slice"]): row["verdict"] for clause in report["clauses"] for row in clause["slices"]}
    assert found["O-1", "all"] == "satisfied", doubts(report)
    assert found["O-2", "all"] == "inconclusive" and found["N-1", "mine"] == "inconclusive", doubts(report)


def test_labels_and_advantages_of_the_requests_reach_kernels_that_know_neither(kcc, kernels, tmp_path):
    text = (ROOT / "contracts/minimal.yaml").read_text()
    text = text.replace("  numerical:", "  slices:\n    - {name: pushed-up, where: token.advantage > 0}\n  numerical:", 1)
    text = text.replace("  observability:", "    - {id: S-2, metric: ece_gap, atMost: 0.5, slices: [all, pushed-up], level: L2}\n"
                        "  observability:", 1)  # fmt: skip
    contract = tmp_path / "contract.yaml"
    contract.write_text(text)
    requests = Requests(few=True)
    asked = requests.write(tmp_path / "requests.jsonl")
    train, good, _ = kernels["exec"]
    report = kcc("run", contract, "--train", train, "--infer", good, "--requests", asked, "--json").json
    counts = {(clause["id"], row["slice"]): row["count"]["tokens"] for clause in report["clauses"] for row in clause["slices"]}
    assert report["verdict"] == "satisfied", doubts(report)
    assert counts["S-2", "all"] == 2 * counts["S-2", "pushed-up"] == requests.tokens.size
    for row in requests.rows:
        del row["gold"], row["advantage"]
    asked = requests.write(tmp_path / "bare.jsonl")
    report = kcc("run", contract, "--train", train, "--infer", good, "--requests", asked, "--json").json
    assert {row[:3] for row in doubts(report)} == {("S-2", "all", "inconclusive"), ("S-2", "pushed-up", "inconclusive")}


def page_table():
    """docs/evidence-by-kernel.md: by field and kind, whether `yes`, `generated`, `vllm` or `no`."""
    page = (ROOT / "docs/evidence-by-kernel.md").read_text()
    lines = page.split("<!-- evidence-by-kernel:")[1].split("\n\n")[0].splitlines()[1:]
    head, _, *rows = [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in lines]
    return {(row[0], kind): word for row in rows for kind, word in zip(head[1:], row[1:], strict=True)}


@pytest.mark.parametrize("kind", ["exec", "server", "lists", "lab"])
def test_the_page_says_what_each_kind_records(kcc, kernels, recorded, tmp_path, kind):
    asked = Requests(few=True).write(tmp_path / "requests.jsonl")
    done = kcc("generate", kernels[kind][0], "--requests", asked, "--max-tokens", 3, "-o", tmp_path / "written")
    assert done.code == 0, done.err

    def fields(directory):
        return set.intersection(*(set(json.loads(line)) for line in (directory / "requests.jsonl").open()))

    scored, generated = fields(recorded(kind, True) / "train"), fields(tmp_path / "written")
    for (field, column), word in page_table().items():
        if column == {"lists": "server"}.get(kind, kind):
            found = {(True, True): "yes", (False, True): "generated", (False, False): "no"}[field in scored, field in generated]
            # `lists` are vLLM's routes, `server` TensorRT-LLM's.
            assert found == word.replace("vllm", "yes" if kind == "lists" else "no"), (field, kind)
