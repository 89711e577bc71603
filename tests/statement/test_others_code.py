"""Signed statements by others' code: securesystemslib and in-toto-attestation verify ours, and we verify theirs."""

import json
import pathlib
import re

import jsonschema
import pytest
from google.protobuf import json_format
from in_toto_attestation.predicates.test_result.v0 import test_result_pb2
from in_toto_attestation.predicates.vsa.v1 import vsa_pb2
from in_toto_attestation.v1 import statement_pb2
from in_toto_attestation.v1.resource_descriptor import ResourceDescriptor
from in_toto_attestation.v1.statement import Statement
from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import VerificationError
from securesystemslib.signer import CryptoSigner, SSlibKey
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import (
    Encoding, NoEncryption, PrivateFormat, PublicFormat, load_pem_public_key)  # fmt: skip

ROOT = pathlib.Path(__file__).resolve().parents[2]
TIME = "2026-11-18T09:30:00Z"
IN_TOTO = "application/vnd.in-toto+json"
KINDS = {"ed25519": ed25519.Ed25519PrivateKey.generate, "ecdsa": lambda: ec.generate_private_key(ec.SECP256R1())}


class KeyPair:
    """A new key, with its files in `folder`."""

    def __init__(self, kind, folder, name="key"):
        self.secret = KINDS[kind]()
        self.file = folder / f"{name}.pem"
        self.file.write_bytes(self.secret.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        self.public = self.secret.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
        (folder / f"{name}.pub").write_text(self.public)


def keyring(path, *keys, **fields):
    rows = [{"owner": "ann", "roles": ["evaluation"], "publicKey": key, **fields} for key in keys]
    path.write_text(json.dumps({"apiVersion": "kcc/v1", "kind": "Keyring", "keys": rows}))
    return path


@pytest.fixture(params=sorted(KINDS))
def key(request, tmp_path):
    return KeyPair(request.param, tmp_path)


@pytest.fixture
def report(kcc, tmp_path):
    """report(satisfied) -> a report directory."""

    def make(satisfied):
        folder = tmp_path / f"report-{satisfied}"
        infer = "examples/traces/train" if satisfied else "examples/traces/infer"
        done = kcc("run", "examples/contract.yaml", "examples/traces/train", infer, "--report", folder)
        assert done.code == (0 if satisfied else 1), done.err
        return folder

    return make


def attest(kcc, folder, key, tmp_path):
    files = [tmp_path / name for name in ("e.json", "vsa.json", "test.json")]
    done = kcc("register", "attest", folder, "--key", key.file, "--time", TIME, "-o", files[0], "--vsa", files[1],
               "--resource", "pkg:generic/engine@1", "--test-result", files[2])  # fmt: skip
    assert done.code == 0, done.err
    return files


def theirs(path, key, key_id):
    """The envelope as securesystemslib reads and verifies it."""
    envelope = Envelope.from_dict(json.loads(path.read_text()))
    public = SSlibKey.from_crypto(load_pem_public_key(key.public.encode()), keyid=key_id)
    return envelope, envelope.verify([public], 1)


def test_securesystemslib_verifies_ours(kcc, key, report, tmp_path):
    for path in attest(kcc, report(False), key, tmp_path):
        key_id = json.loads(path.read_text())["signatures"][0]["keyid"]
        envelope, accepted = theirs(path, key, key_id)
        assert list(accepted) == [key_id]
        assert envelope.payload_type == IN_TOTO
        envelope.payload += b" "
        with pytest.raises(VerificationError):
            envelope.verify([accepted[key_id]], 1)


def test_the_lines_of_the_documentation_work(kcc, key, report, tmp_path, monkeypatch, capsys):
    done = kcc("register", "attest", report(False), "--key", key.file, "-o", tmp_path / "out.intoto.json")
    assert done.code == 0, done.err
    page = (ROOT / "docs/statement.md").read_text(encoding="utf-8")
    (lines,) = re.findall(r"^```python\n(.*?)^```", page, re.M | re.S)
    monkeypatch.chdir(tmp_path)
    exec(compile(lines, "docs/statement.md", "exec"), {})  # noqa: S102
    assert capsys.readouterr().out == "violated\n"


@pytest.mark.parametrize("satisfied", [True, False])
def test_in_toto_attestation_reads_ours(kcc, key, report, tmp_path, satisfied):
    evaluation, summary, result = attest(kcc, report(satisfied), key, tmp_path)
    payloads = [Envelope.from_dict(json.loads(path.read_text())).payload for path in (evaluation, summary, result)]
    schema = json.loads((ROOT / "docs/statement.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(json.loads(payloads[0]), schema)
    for payload in payloads:
        Statement.copy_from_pb(json_format.Parse(payload, statement_pb2.Statement())).validate()
    predicate = json.loads(payloads[1])["predicate"]
    # A list, as SLSA's specification has it; the package's message takes one text only.
    assert predicate.pop("verifiedLevels") == (["KCC_OFFLINE"] if satisfied else ["FAILED"])
    vsa = json_format.ParseDict(predicate, vsa_pb2.VerificationSummary())
    assert vsa.verification_result == ("PASSED" if satisfied else "FAILED")
    assert vsa.time_verified.ToJsonString() == TIME
    assert len(vsa.input_attestations) == 1
    tests = json_format.ParseDict(json.loads(payloads[2])["predicate"], test_result_pb2.TestResult())
    # The two sides of the satisfied report are one trace, which the judge warns of.
    assert tests.result == ("WARNED" if satisfied else "FAILED")
    assert bool(tests.failed_tests) == (not satisfied)
    assert "O-1/all" in tests.passed_tests


def their_envelope(key, statement, payload_type=IN_TOTO):
    payload = json_format.MessageToJson(statement.pb).encode()
    envelope = Envelope(payload, payload_type, {})
    envelope.sign(CryptoSigner(key.secret))
    return envelope.to_dict()


def their_summary(result):
    predicate = {
        "verifier": {"id": "https://example.com/verifier"}, "timeVerified": "2026-11-18T09:30:00.52Z",
        "resourceUri": "https://example.com/x", "policy": {"uri": "https://example.com/policy"},
        "verificationResult": result, "verifiedLevels": ["EXAMPLE" if result == "PASSED" else "FAILED"],
    }  # fmt: skip
    subject = ResourceDescriptor(name="x", digest={"sha256": "ab" * 32, "sha1": "cd" * 20})
    statement = Statement([subject.pb], "https://slsa.dev/verification_summary/v1", predicate)
    statement.validate()
    return statement


def test_we_verify_theirs(kcc, key, tmp_path):
    path = tmp_path / "theirs.json"
    envelope = their_envelope(key, their_summary("PASSED"))
    path.write_text(json.dumps(envelope))
    # Their ids of keys are made in another way, so the keyring says which key it is.
    ring = keyring(tmp_path / "ring.json", key.public, id=envelope["signatures"][0]["keyid"],
                   notAfter="2026-12-01T00:00:00Z")  # fmt: skip
    done = kcc("register", "verify-attestation", path, "--keyring", ring, "--subject", "sha256:" + "ab" * 32,
               "--verdict", "satisfied", "--json")  # fmt: skip
    assert done.code == 0, done.out
    assert done.json["verified"] is True and done.json["time"] == "2026-11-18T09:30:00.520Z"
    path.write_text(json.dumps(their_envelope(key, their_summary("FAILED"))))
    assert kcc("register", "verify-attestation", path, "--keyring", ring).code == 0
    done = kcc("register", "verify-attestation", path, "--keyring", ring, "--verdict", "satisfied", "--json")
    assert (done.code, [failure["name"] for failure in done.json["failures"]]) == (1, ["verdict-mismatch"])


def test_what_we_refuse_of_theirs(kcc, key, tmp_path):
    path = tmp_path / "theirs.json"
    statement = their_summary("PASSED")
    good = their_envelope(key, statement)
    ring = keyring(tmp_path / "ring.json", key.public, id=good["signatures"][0]["keyid"])
    other = KeyPair("ed25519", tmp_path, "other")
    unknown = Statement(list(statement.pb.subject), "https://example.com/predicate", {"a": 1})
    cases = [
        ("wrong-payload-type", their_envelope(key, statement, "application/json")),
        ("unknown-key", their_envelope(other, statement)),
        ("unknown-predicate-type", their_envelope(key, unknown)),
        ("forged", {**good, "signatures": [{**good["signatures"][0], "sig": "AAAA"}]}),
        ("malformed", {**good, "signatures": []}),
    ]
    for name, envelope in cases:
        path.write_text(json.dumps(envelope))
        done = kcc("register", "verify-attestation", path, "--keyring", ring, "--json")
        assert done.code == 1, name
        assert done.json["failures"][0]["name"] == name
