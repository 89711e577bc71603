"""A register whose head, evaluations and promotions are signed, on both backends."""

import json
import subprocess

import pytest
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from securesystemslib.dsse import Envelope
from securesystemslib.signer import SSlibKey

MODEL = "sha256:" + "1" * 64
FIXED = "examples/traces/fixed"
POLICY = """
apiVersion: kcc/v1
kind: PromotionPolicy
metadata: {name: p, version: 1.0.0}
spec:
  offline: {approvals: {count: 2, signed: true}}
  shadow: {minRequests: 100}
  full: {}
"""


def at(minute):
    return ["--time", f"2026-11-18T08:{minute:02}:00Z"]


class Signed:
    """A register, two keys and a keyring of them."""

    def __init__(self, kcc, uri, folder):
        self.kcc, self.uri, self.folder = kcc, uri, folder
        for name in ("bob", "eve", "mallory"):
            subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", folder / f"{name}.pem"], check=True)
            subprocess.run(["openssl", "pkey", "-in", folder / f"{name}.pem", "-pubout", "-out", folder / f"{name}.pub"], check=True)
        self.ring = self.keyring("ring.json", "bob", "eve")

    def key(self, name):
        return ["--key", self.folder / f"{name}.pem"]

    def keyring(self, file, *names, **fields):
        rows = [{"owner": name, "roles": ["evaluation", "promotion", "head"],
                 "publicKey": (self.folder / f"{name}.pub").read_text(), **fields} for name in names]  # fmt: skip
        path = self.folder / file
        path.write_text(json.dumps({"apiVersion": "kcc/v1", "kind": "Keyring", "keys": rows}))
        return path

    def register(self, *words):
        return self.kcc("register", *words, "--register", self.uri)

    def promote(self, *words):
        return self.kcc("promote", *words, "--register", self.uri)

    def run(self, minute, *more, infer="examples/traces/infer"):
        return self.kcc("run", "examples/contract.yaml", "--train", "examples/traces/train", "--infer", infer,
                        "--register", self.uri, "--model", MODEL, "--actor", "ci", *at(minute), *more)  # fmt: skip

    def verify(self, ring=None, *more):
        return self.register("verify", "--keyring", ring or self.ring, "--json", *more)

    def log(self):
        return self.register("log", "--json").json["events"]

    def add_statement(self, envelope, about, event):
        body = self.folder / "body.json"
        blob = self.folder / "blob.json"
        blob.write_bytes(envelope)
        digest = "sha256:" + subprocess.run(["sha256sum", blob], check=True, capture_output=True, text=True).stdout.split()[0]
        body.write_text(json.dumps({"statement": digest, "about": about, "event": event}))
        done = self.register("add", "event", "statement.added", body, "--blob", blob, "--actor", "x", *at(50))
        assert done.code == 0, done.err

    def blob(self, digest):
        path = self.folder / "read.json"
        assert self.register("blob", digest, "-o", path).code == 0
        return path.read_bytes()


@pytest.fixture
def signed(kcc, uri, tmp_path):
    return Signed(kcc, uri, tmp_path)


def test_a_signed_head_is_kept_outside_and_believed(signed):
    assert signed.register("add", "model", MODEL, "--actor", "ann", *at(1)).code == 0
    head = signed.folder / "head.json"
    done = signed.register("head", *signed.key("bob"), "-o", head, *at(2))
    assert done.code == 0, done.err
    found = signed.verify(signed.ring, "--head", head)
    assert found.code == 0, found.out
    assert any("signed by bob" in line for line in found.json["canSee"])
    # It is an envelope that others verify.
    key = SSlibKey.from_crypto(load_pem_public_key((signed.folder / "bob.pub").read_bytes()),
                               keyid=json.loads(head.read_text())["signatures"][0]["keyid"])  # fmt: skip
    assert Envelope.from_dict(json.loads(head.read_text())).verify([key], 1)
    assert signed.register("add", "model", MODEL.replace("1", "2"), "--actor", "ann", *at(3)).code == 0
    assert signed.verify(signed.ring, "--head", head).code == 0
    for ring, more, says in [
        (signed.keyring("m.json", "mallory"), [], "unknown-key"),
        (signed.keyring("e.json", "bob", notAfter="2026-11-18T08:02:00Z"), [], "expired"),
        (signed.ring, ["--threshold", "2"], "too-few-keys"),
    ]:
        found = signed.verify(ring, "--head", head, *more)
        assert (found.code, says in found.json["break"]["what"]) == (4, True), found.out
    without = signed.register("verify", "--head", head)
    assert (without.code, "--keyring" in without.err) == (2, True)
    early = signed.register("head", *signed.key("bob"), *at(1))
    assert (early.code, "later than" in early.err) == (2, True)


def test_a_head_can_be_printed_and_signed_by_a_command(signed):
    assert signed.register("add", "model", MODEL, "--actor", "ann", *at(1)).code == 0
    head = signed.folder / "head.json"
    # openssl wants a file to sign with Ed25519
    command = f"cat > {signed.folder}/in; openssl pkeyutl -sign -rawin -inkey {signed.folder}/bob.pem -in {signed.folder}/in"
    done = signed.register("head", "--sign-with", command, "--public-key", signed.folder / "bob.pub", *at(2))
    assert done.code == 0, done.err
    head.write_text(done.out)
    assert signed.verify(signed.ring, "--head", head).code == 0


def test_a_run_is_recorded_with_its_statement(signed):
    done = signed.run(1, *signed.key("bob"))
    assert "recorded as evaluation 6" in done.out, done.err
    log = signed.log()
    assert [event["kind"] for event in log[5:]] == ["evaluation.recorded", "statement.added"]
    body = log[6]["body"]
    assert (body["about"], body["event"]) == ("evaluation 6", 6)
    found = signed.verify()
    assert (found.code, found.json["statements"]) == (0, 1), found.out
    # What the register holds, others verify.
    envelope = json.loads(signed.blob(body["statement"]))
    key_id = envelope["signatures"][0]["keyid"]
    key = SSlibKey.from_crypto(load_pem_public_key((signed.folder / "bob.pub").read_bytes()), keyid=key_id)
    theirs = Envelope.from_dict(envelope)
    assert list(theirs.verify([key], 1)) == [key_id]
    statement = json.loads(theirs.payload)
    assert statement["predicate"]["verdict"] == log[5]["body"]["verdict"] == "violated"
    assert {"name": "triple", "digest": {"sha256": log[4]["body"]["triple"][7:]}} in statement["subject"]
    # And so they do of an export, in which it is a file.
    copy = signed.folder / "copy"
    assert signed.register("export", copy).code == 0
    held = [path for path in (copy / "blobs").rglob("*") if path.is_file() and path.read_bytes() == signed.blob(body["statement"])]
    assert len(held) == 1


def test_statements_that_do_not_hold_are_named(signed):
    assert signed.run(1, *signed.key("bob")).code == 1
    assert "recorded as evaluation 9" in signed.run(2, *signed.key("eve"), infer="examples/traces/train").out
    log = signed.log()
    good, satisfied = (signed.blob(event["body"]["statement"]) for event in log if event["kind"] == "statement.added")
    assert signed.verify().code == 0
    for ring, says in [
        (signed.keyring("m.json", "bob"), "unknown-key"),
        (signed.keyring("e.json", "bob", "eve", notAfter="2026-11-18T08:00:00Z"), "expired"),
    ]:
        found = signed.verify(ring)
        assert (found.code, found.json["break"]["place"], says in found.json["break"]["what"]) == (4, "statement", True)
    # A good statement beside an event that says something else: the words are not those of the log.
    forged = json.dumps({**json.loads(satisfied), "more": 1}).encode()
    signed.add_statement(forged, "evaluation 6", 6)
    found = signed.verify()
    assert found.code == 4
    assert "it says triple" in found.json["break"]["what"] or "it says verdict" in found.json["break"]["what"]
    assert found.json["break"]["sequence"] == len(log) + 1
    # Without a keyring nothing is claimed of it.
    plain = signed.register("verify")
    assert (plain.code, "none was looked at" in plain.out) == (0, True)
    assert good != satisfied


def test_a_statement_is_about_one_evaluation(signed):
    assert signed.run(1, *signed.key("bob")).code == 1
    evaluation, statement = signed.log()[5:]
    # What was signed once is appended again later, as if it had been judged anew.
    body = signed.folder / "again.json"
    body.write_text(json.dumps(evaluation["body"]))
    assert signed.register("add", "event", "evaluation.recorded", body, "--actor", "x", *at(40)).code == 0
    envelope = json.dumps({**json.loads(signed.blob(statement["body"]["statement"])), "more": 1}).encode()
    signed.add_statement(envelope, "evaluation 8", 8)
    found = signed.verify()
    assert (found.code, found.json["break"]["place"], found.json["break"]["sequence"]) == (4, "statement", 9), found.out
    assert "it says time '2026-11-18T08:01:00Z', and the log says '2026-11-18T08:40:00Z'" in found.json["break"]["what"]


def test_a_promotion_needs_the_signatures_that_its_policy_asks_for(signed):
    policy = signed.folder / "policy.yaml"
    policy.write_text(POLICY)
    signed.run(1, infer=FIXED)
    triple = signed.log()[4]["body"]["triple"]
    assert signed.promote("start", "p", "--lane", "chat", "--policy", policy, "--candidate", triple, *signed.key("bob"),
                          "--actor", "ann", *at(2)).code == 0  # fmt: skip
    signed.run(3, infer=FIXED)
    waits = signed.promote("advance", "p", "--actor", "ann", *at(4))
    assert (waits.code, "2 more signed approvals" in waits.out) == (3, True), waits.out

    def approve(who, minute, *more):
        return signed.promote("approve", "p", "--actor", who, *at(minute), *more)

    ring = ["--keyring", signed.ring]
    for more, says in [([], "--key FILE"), (signed.key("bob"), "--keyring"), ([*signed.key("mallory"), *ring], "no key")]:
        done = approve("bob", 5, *more)
        assert (done.code, says in done.err) == (2, True), done.err
    assert approve("bob", 6, *signed.key("bob"), *ring).code == 0
    again = approve("bobby", 7, *signed.key("bob"), *ring)
    assert "approved already" in again.out
    last = approve("eve", 8, *signed.key("eve"), *ring)
    assert "offline → shadow" in last.out, last.out + last.err
    found = signed.verify()
    assert found.code == 0, found.out
    # Two proposals' statements (proposed, its turn), three approvals and the step.
    assert found.json["statements"] == 6
    assert signed.promote("advance", "p", "--actor", "ann", *ring, *at(9)).code == 3
