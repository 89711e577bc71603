"""kcc replay, on both backends."""

import json
import os
import subprocess
import sys
import threading

import jsonschema
import pytest
from kept_requests import INFER, POLICY, ROOT, TRAIN, WHO, asked, judge, stored  # noqa: F401


def test_flagged_requests_are_kept_and_replayed(kcc, uri, judge, tmp_path, asked):
    done = judge("--store", "full")
    assert done.code == 1, done.err
    assert "kept 2 requests, as --store says: the token ids of flagged requests" in done.out
    assert done.out.strip().splitlines()[-1].startswith("recorded as evaluation")
    records = stored(kcc, uri, tmp_path)
    request = asked[1][0]
    record = records[request["id"]]
    assert (record["prompt"], record["output"]) == (request["prompt"], request["output"])
    assert record["tags"] == request["tags"] and "user" in record["leftOut"]
    assert {flag["clause"] for flag in record["flags"]} == {"N-1"}
    assert record["batch"] == {"place": 0, "shape": [[len(r["prompt"]), len(r["output"])] for r in asked[1]]}
    assert kcc("register", "verify", "--register", uri).code == 0

    again = kcc("replay", request["id"], "--register", uri, "--train", TRAIN, "--infer", INFER)
    assert again.code == 0, again.out + again.err
    assert "train  reproduced\ninfer  reproduced\ntrain and infer differ" in again.out
    assert "first difference at layer 0, attention, position " in again.out
    assert "source: precision brings 100.0% of the mean kl" in again.out
    data = kcc("replay", request["id"], "--register", uri, "--train", TRAIN, "--infer", INFER, "--json").json
    assert data["reproduced"] is True and data["audit"]["firstDivergence"]["point"] == "layer 0, attention"
    assert data["attribution"][0]["quantity"] == "kl"
    # The same evidence again: the same records, and no second copy.
    assert "kept 2 requests" in judge("--store", "full").out
    assert len(kcc("register", "list", "requests", "--register", uri, "--json").json["entries"]) == 2


def test_another_build_is_not_called_reproduced(kcc, uri, judge, asked):
    assert judge("--store", "full").code == 1
    name = asked[1][0]["id"]
    replay = lambda *more: kcc("replay", name, "--register", uri, *more)  # noqa: E731
    other = replay("--train", TRAIN, "--infer", "lab:custom?kv=bf16&threads=1")
    assert other.code == 3 and "infer  another build: its fingerprint differs" in other.out
    silent = replay("--train", TRAIN, "--infer", INFER + "&audit=off")
    assert silent.code == 3 and "infer  not recorded: the kernel gives no signature now" in silent.out
    assert "no first difference: infer gives no audit points" in silent.out
    otherwise = replay("--train", TRAIN, "--infer", INFER + "&audit=all")
    assert otherwise.code == 3 and "infer  not comparable" in otherwise.out


def test_hashes_are_compared_with_what_the_user_supplies(kcc, uri, judge, tmp_path, asked):
    path, requests = asked
    assert judge("--store", "hashes").code == 1
    name = requests[0]["id"]
    record = stored(kcc, uri, tmp_path)[name]
    assert all("position" in flag and "token" not in flag for flag in record["flags"])
    assert "prompt" not in record and "tags" not in record and record["train"]["replaySignature"]
    replay = lambda *more: kcc("replay", name, "--register", uri, "--train", TRAIN, "--infer", INFER, "--no-attribution", *more)  # noqa: E731
    without = replay()
    assert without.code == 2 and "--requests" in without.err
    assert replay("--requests", path).code == 0
    requests[0]["output"][0] += 1
    path.write_text(json.dumps(requests[0]) + "\n")
    changed = replay("--requests", path)
    assert changed.code == 4 and "other token ids" in changed.err
    path.write_text(json.dumps(requests[1]) + "\n")
    assert "there is no request" in replay("--requests", path).err


def test_traces_of_kcc_score_can_be_kept_too(kcc, uri, judge, tmp_path, asked):
    for name, kernel in (("train", TRAIN), ("infer", INFER)):
        done = kcc("score", kernel, "--requests", asked[0], "--batch", "1", "-o", tmp_path / name)
        assert done.code == 0, done.err
    done = kcc("run", tmp_path / "c.yaml", "--train", tmp_path / "train", "--infer", tmp_path / "infer", "--register", uri,
               "--store", "full", *WHO)  # fmt: skip
    assert "kept 2 requests" in done.out, done.out + done.err
    record = stored(kcc, uri, tmp_path)[asked[1][1]["id"]]
    assert record["batch"]["shape"] == [[len(asked[1][1]["prompt"]), len(asked[1][1]["output"])]]
    again = kcc("replay", record["request"], "--register", uri, "--train", TRAIN, "--infer", INFER, "--no-attribution")
    assert again.code == 0, again.out + again.err


def test_traces_without_prompts_keep_nothing_and_say_so(kcc, uri):
    done = kcc("run", "examples/contract.yaml", "--train", "examples/traces/train", "--infer", "examples/traces/infer",
               "--register", uri, "--model", "m", "--store", "full", *WHO)  # fmt: skip
    assert done.code == 1 and "warning: no request is kept: " in done.err and "position 0" in done.err
    assert "recorded as evaluation" in done.out


EXEC = '''
import json, sys
sys.path.insert(0, %r)
import numpy
from kcc.kernels.protocol import serve
class Toy:
    width = 11
    def hello(self):
        return {"fingerprint": "toy-" + sys.argv[1], "vocabSize": 11, "evidence": "logits", "semantics": "raw",
                "audits": True, "declares": {"audit": "v1"}}
    def score(self, requests, file):
        for r in requests:
            rows = numpy.zeros((len(r.tokens), 11), dtype="<f4")
            rows[:, 0] = float(sys.argv[1])
            file.append(rows[r.scored])
            points = [("embedding", ["e"] * len(r.tokens)), ("layer 0", [sys.argv[1]] * len(r.tokens))]
            signed = "alike" if "alike" in sys.argv else repr(list(r.tokens))[:100]
            if "long" in sys.argv:  # more digests than a line of a trace holds
                points = [("embedding", ["e" * 1000] * len(r.tokens))]
                points += [(f"layer {i}", ["x" * 1000] * len(r.tokens)) for i in range(int(sys.argv[-1]))]
            if "long" in sys.argv and sys.argv[1] == "2":
                points[1][1][3] = "other"
            file.audit("signature " + sys.argv[1] + signed, points)
serve(Toy())
'''


@pytest.fixture
def toy(tmp_path):
    """toy(words) -> the kernel that this program is, with these words."""
    program = tmp_path / "toy.py"
    program.write_text(EXEC % str(ROOT / "python"))
    return lambda *words: " ".join([f"exec:{sys.executable} {program}", *map(str, words)])


def test_exec_programs_give_signatures_and_audit_points(kcc, uri, judge, tmp_path, toy):
    requests = tmp_path / "toy.jsonl"
    requests.write_text('{"id": "a", "prompt": [1, 2], "output": [3, 4]}\n')
    one, two = toy(1), toy(2)
    done = judge("--store", "full", "--model", "toy", train=one, infer=two, requests=requests)
    assert "kept 1 request," in done.out, done.out + done.err
    again = kcc("replay", "a", "--register", uri, "--train", one, "--infer", two)
    assert again.code == 0, again.out + again.err
    assert "first difference at layer 0, position 0\n" in again.out
    assert "source: none named; it needs kernels whose options belong to sources of error" in again.out
    swapped = kcc("replay", "a", "--register", uri, "--train", one, "--infer", one)
    assert swapped.code == 3 and "infer  another build" in swapped.out and "train and infer agree" in swapped.out


def test_a_program_that_signs_all_requests_alike_shows_nothing(kcc, uri, judge, tmp_path, toy):
    requests = tmp_path / "toy.jsonl"
    requests.write_text('{"id": "a", "prompt": [1, 2], "output": [3, 4]}\n')
    one, alike = toy(1), toy(2, "alike")
    assert "kept 1 request," in judge("--store", "full", "--model", "toy", train=one, infer=alike, requests=requests).out
    again = kcc("replay", "a", "--register", uri, "--train", one, "--infer", alike)
    assert again.code == 3, again.out + again.err
    assert "train  reproduced\n" in again.out
    assert "infer  not comparable: it signs a request of other tokens alike, so its signature shows nothing" in again.out
    assert "train and infer: signatures cannot be compared" in again.out


@pytest.mark.parametrize(("points", "said"), [(10, "first difference at layer 0, position 3\n"), (40, "with audit points a kernel fails")])
def test_a_long_request_with_many_audit_points(kcc, uri, judge, tmp_path, toy, points, said):
    """2000 positions: 20 MB of digests are more than a line holds, 80 MB more than an answer may have."""
    requests = tmp_path / "toy.jsonl"
    requests.write_text(json.dumps({"id": "a", "prompt": [1, 2], "output": [3] * 1998}) + "\n")
    one, two = toy(1, "long", points), toy(2, "long", points)
    assert "kept 1 request," in judge("--store", "full", "--model", "toy", train=one, infer=two, requests=requests).out
    replay = lambda *more: kcc("replay", "a", "--register", uri, "--no-attribution", *more)  # noqa: E731
    again = replay("--train", one, "--infer", two)
    assert again.code == 0, again.out + again.err
    assert said in again.out, again.out
    if points == 10:
        same = replay("--train", one, "--infer", one)
        assert "no difference at 11 audit points in the first " in same.out, same.out
        assert replay("--train", one, "--infer", one, "--json").json["audit"]["positions"] in range(700, 800)
    else:
        assert "answer is longer than 67108864 bytes" in again.out and "ask it for fewer of them" in again.out


def test_only_the_batch_differs(kcc, uri, judge, tmp_path):
    """The numbers of this kernel depend on what is asked together. Alone it says nothing about the build."""
    dynamic = "lab:f32?batch=dynamic&threads=1"
    requests = tmp_path / "many.jsonl"
    lines = (ROOT / "models/kcc-lab/eval.jsonl").read_text().splitlines(keepends=True)
    requests.write_text("".join(lines[:24]))
    done = judge("--store", "full", "--store-sample", "1", "--batch", "24", infer=dynamic, requests=requests)
    assert "kept 24 requests" in done.out, done.out + done.err
    name = json.loads(lines[3])["id"]
    replay = lambda *more: kcc("replay", name, "--register", uri, "--train", TRAIN, "--infer", dynamic, "--no-attribution", *more)  # noqa: E731
    assert replay().code == 0
    alone = replay("--alone")
    assert alone.code == 3, alone.out
    assert "train  reproduced\ninfer  another batch: it was asked alone, and then together with 23 other requests" in alone.out
    assert replay("--alone", "--json").json["reproduced"] is None


def test_traces_of_sides_that_were_asked_in_other_batches(kcc, uri, judge, tmp_path, asked):
    dynamic = "lab:f32?batch=dynamic&threads=1"
    for name, batch in (("train", "1"), ("infer", "2")):
        done = kcc("score", dynamic, "--requests", asked[0], "--batch", batch, "-o", tmp_path / name)
        assert done.code == 0, done.err
    done = kcc("run", tmp_path / "c.yaml", "--train", tmp_path / "train", "--infer", tmp_path / "infer", "--register", uri,
               "--store", "full", "--store-sample", "1", *WHO)  # fmt: skip
    assert "kept 2 requests" in done.out, done.out + done.err
    shapes = [[len(r["prompt"]), len(r["output"])] for r in asked[1]]
    record = stored(kcc, uri, tmp_path)[asked[1][1]["id"]]
    assert record["batch"] == {"place": 1, "shape": shapes} and record["trainBatch"] == {"place": 0, "shape": shapes[1:]}
    jsonschema.Draft202012Validator(json.loads(kcc("schema", "--request").out)).validate(record)
    again = kcc("replay", record["request"], "--register", uri, "--train", dynamic, "--infer", dynamic, "--no-attribution")
    assert again.code == 0, again.out + again.err


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["nobody"], 2, "there is no request 'nobody'"),
        (["nobody", "--train", "traces/x"], 2, "a trace was recorded once"),
        (["nobody", "--requests", "r"], 2, "leave --requests out"),
    ],
)
def test_bad_input(kcc, uri, judge, asked, words, code, said):
    assert judge("--store", "full").code == 1
    if len(words) > 1:
        words[0] = asked[1][0]["id"]
    train = [] if "--train" in words else ["--train", TRAIN]
    done = kcc("replay", *words, *train, "--infer", INFER, "--register", uri)
    assert (done.code, said in done.err) == (code, True), done.err


def test_records_follow_the_published_schema(kcc, uri, judge, tmp_path):
    published = (ROOT / "docs/stored-request.schema.json").read_text()
    assert kcc("schema", "--request").out == published
    schema = jsonschema.Draft202012Validator(json.loads(published))
    for store in ("hashes", "full"):
        assert judge("--store", store).code == 1
        for record in stored(kcc, uri, tmp_path).values():
            schema.validate(record)


def test_a_record_that_asks_for_a_batch_beyond_any_memory_is_refused(kcc, uri, judge, tmp_path, asked):
    assert judge("--store", "full").code == 1
    record = next(iter(stored(kcc, uri, tmp_path).values()))
    assert record["batch"]["shape"], "kcc run asks by batches, and records theirs"
    record["batch"]["shape"] += [[2147483647, 2147483647]] * 4
    path = tmp_path / "hostile.json"
    path.write_text(json.dumps(record, separators=(",", ":"), ensure_ascii=False))
    done = kcc("replay", path, "--train", TRAIN, "--infer", INFER)
    assert done.code == 4 and "more tokens or requests than a batch can have" in done.err, done.err


@pytest.mark.parametrize("what", ["--requests", "the record"])
def test_what_is_replayed_may_come_from_a_pipe(kcc, kcc_path, uri, judge, tmp_path, asked, what):
    """A FIFO has its bytes once: whoever opened it a second time would wait for ever."""
    assert judge("--store", "hashes" if what == "--requests" else "full").code == 1
    name = asked[1][1]["id"]  # the second, so that the first is read past
    words = [name, "--register", uri, "--requests", "{fifo}"]
    data = asked[0].read_bytes()
    if what == "the record":
        digest = next(entry["id"] for entry in kcc("register", "list", "requests", "--register", uri, "--json").json["entries"])
        record = tmp_path / "record.json"
        assert kcc("register", "blob", digest, "-o", record, "--register", uri).code == 0
        words, data = ["{fifo}"], record.read_bytes()
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    threading.Thread(target=lambda: fifo.write_bytes(data), daemon=True).start()
    words = [word.replace("{fifo}", str(fifo)) for word in words]
    done = subprocess.run([kcc_path, "replay", *words, "--train", TRAIN, "--infer", INFER, "--no-attribution"],
                          capture_output=True, text=True, timeout=60, cwd=ROOT, check=False)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "train  reproduced\ninfer  reproduced\n" in done.stdout


def test_explain_says_what_a_policy_keeps(kcc, tmp_path):
    policy = tmp_path / "p.yaml"
    policy.write_text(POLICY % "store: full, sample: 1%, retention: 30d")
    said = " ".join(kcc("explain", policy).out.split())
    assert "kept to be run again: the token ids of flagged requests and 1% of all, for 720h; no text" in said


def test_bad_files_and_flags(kcc, tmp_path, asked):
    replay = lambda path: kcc("replay", path, "--train", TRAIN, "--infer", INFER)  # noqa: E731
    assert replay(tmp_path / "none.json").code == 2
    path = tmp_path / "x.json"
    for text, said in (("{", "not a stored request"), ("{}", "no kccStoredRequest"), ('{"kccStoredRequest":9}', "version 9")):
        path.write_text(text)
        done = replay(path)
        assert done.code == 4 and said in done.err
    run = lambda *more: kcc("run", "examples/contract.yaml", "examples/traces/train", "examples/traces/infer", *more)  # noqa: E731
    assert "--register" in run("--store", "full").err
    assert "--store full" in run("--store", "hashes", "--store-text", "--register", tmp_path / "r.db").err
    assert run("--store", "hashes", "--store-for", "soon", "--register", tmp_path / "r.db").code == 2
    assert run("--store-sample", "0.1").code == 2
    assert run("--store", "some").code == 2
