"""kcc register attest, verify-attestation and stamp through the real program."""

import json
import pathlib
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TIME = "2026-11-18T09:30:00Z"
A, B = ("sha256:" + digit * 64 for digit in "ab")


def openssl(*arguments):
    return subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True).stdout


@pytest.fixture(scope="module")
def made(kcc_path, tmp_path_factory):
    """A folder with keys of both kinds, a keyring of them and a report."""
    folder = tmp_path_factory.mktemp("statement")
    openssl("genpkey", "-algorithm", "ed25519", "-out", folder / "ed.pem")
    openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", folder / "ec.pem")
    rows = []
    for name in ("ed", "ec"):
        openssl("pkey", "-in", folder / f"{name}.pem", "-pubout", "-out", folder / f"{name}.pub")
        rows.append({"owner": name, "roles": ["evaluation"], "publicKey": (folder / f"{name}.pub").read_text(),
                     "notBefore": "2026-01-01T00:00:00Z", "notAfter": "2027-01-01T00:00:00Z"})  # fmt: skip
    ring = {"apiVersion": "kcc/v1", "kind": "Keyring", "keys": rows}
    (folder / "ring.json").write_text(json.dumps(ring, indent=1))
    traces = [ROOT / "examples/traces" / side for side in ("train", "infer")]
    command = [kcc_path, "run", ROOT / "examples/contract.yaml", *traces, "--report", folder / "out"]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 1
    return folder


@pytest.fixture
def attest(kcc, made, tmp_path):
    """attest(flags…, report=…) -> the outcome; the envelope is tmp_path/e.json."""

    def run(*flags, report=made / "out", keys=("ed",)):
        signers = [flag for key in keys for flag in ("--key", made / f"{key}.pem")]
        return kcc("register", "attest", *([report] if report else []), *signers, "-o", tmp_path / "e.json", *flags)

    return run


def verify(kcc, made, path, *flags):
    return kcc("register", "verify-attestation", path, "--keyring", made / "ring.json", *flags)


def names(outcome):
    return [failure["name"] for failure in outcome.json["failures"]]


def test_the_same_report_and_time_give_the_same_bytes(attest, tmp_path):
    first = attest("--time", TIME, "--triple", A, "--evidence", f"summary={B}", "--json")
    assert first.code == 0, first.err
    assert first.json["verdict"] == "violated" and first.json["passed"] is False and first.json["time"] == TIME
    bytes_first = (tmp_path / "e.json").read_bytes()
    assert attest("--time", TIME, "--triple", A, "--evidence", f"summary={B}").code == 0
    assert (tmp_path / "e.json").read_bytes() == bytes_first


def test_verified_says_what_and_by_whom(kcc, made, attest, tmp_path):
    assert attest("--time", TIME, "--triple", A).code == 0
    done = verify(kcc, made, tmp_path / "e.json", "--subject", A)
    assert done.code == 0
    assert "verdict: violated, 2026-11-18T09:30:00Z as the statement says" in done.out
    assert f"about triple {A}" in done.out and "signed by ed " in done.out
    wrong = verify(kcc, made, tmp_path / "e.json", "--subject", B, "--json")
    assert (wrong.code, names(wrong)) == (1, ["subject-mismatch"])
    late = verify(kcc, made, tmp_path / "e.json", "--time", "2027-01-01T00:00:00Z", "--json")
    assert (late.code, names(late)) == (1, ["expired", "too-few-keys"])
    standard_input = verify(kcc, made, "-")
    assert standard_input.code == 1 and "malformed" in standard_input.out


def test_an_edited_report_is_not_signed(made, attest, tmp_path):
    text = (made / "out/report.json").read_text()
    edited = tmp_path / "report.json"
    edited.write_text(text.replace('"verdict": "violated"', '"verdict": "satisfied"', 1))
    done = attest(report=edited)
    assert done.code == 2 and "the clauses make it 'violated'" in done.err
    # The directory's other files vouch for it too.
    folder = tmp_path / "out"
    shutil.copytree(made / "out", folder)
    (folder / "report.md").write_text("all fine")
    done = attest(report=folder)
    assert done.code in (2, 4) and "report.md" in done.err
    assert not (tmp_path / "e.json").exists()


def test_several_people_sign_one_statement(kcc, made, attest, tmp_path):
    assert attest("--time", TIME).code == 0
    one, two = tmp_path / "e.json", tmp_path / "two.json"
    assert names(verify(kcc, made, one, "--threshold", "2", "--json")) == ["too-few-keys"]
    done = kcc("register", "attest", "--cosign", one, "--key", made / "ec.pem", "-o", two)
    assert done.code == 0, done.err
    assert json.loads(two.read_text())["payload"] == json.loads(one.read_text())["payload"]
    assert verify(kcc, made, two, "--threshold", "2").code == 0
    again = kcc("register", "attest", "--cosign", two, "--key", made / "ec.pem", "-o", two)
    assert again.code == 2 and "has signed this already" in again.err
    at_once = attest("--time", TIME, keys=("ed", "ec"))
    assert at_once.code == 0 and verify(kcc, made, one, "--threshold", "2").code == 0


def test_a_command_can_sign(kcc, made, attest, tmp_path):
    command = f"openssl dgst -sha256 -sign '{made}/ec.pem'"
    done = attest("--sign-with", command, "--public-key", made / "ec.pub", keys=())
    assert done.code == 0, done.err
    assert verify(kcc, made, tmp_path / "e.json", "--time", TIME).code == 0


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("exit 3", "ended with exit code 3"),
        ("cat >/dev/null; echo 'slot is locked' >&2; exit 1", "it said: slot is locked"),
        ("sleep 60", "is not done in time"),
        ("cat", "more than a signature can have"),
        ("printf x", "does not hold for the public key"),
        ("openssl dgst -sha512 -sign @/ec.pem", "does not hold for the public key"),
        ("openssl dgst -sha256 -sign @/ed.pem", ""),
    ],
)
def test_a_command_that_fails_is_named_and_nothing_is_written(made, attest, tmp_path, command, words):
    done = attest("--sign-with", command.replace("@", str(made)), "--public-key", made / "ec.pub", "--timeout", "2",
                  keys=())  # fmt: skip
    assert done.code in (2, 4) and words in done.err
    assert not (tmp_path / "e.json").exists()


def test_keys_that_cannot_sign_are_named(made, attest, tmp_path):
    def with_key(path):
        return attest("--key", path, keys=())

    openssl("pkey", "-in", made / "ed.pem", "-aes256", "-passout", "pass:x", "-out", tmp_path / "secret.pem")
    (tmp_path / "sec1.pem").write_bytes(openssl("ec", "-in", made / "ec.pem"))
    (tmp_path / "no.pem").write_text("no key")
    for name, words in (("secret.pem", "is an encrypted key"), ("sec1.pem", "openssl pkcs8 -topk8"),
                        ("no.pem", "holds no key in PEM")):  # fmt: skip
        done = with_key(tmp_path / name)
        assert done.code == 2 and words in done.err and name in done.err
    assert with_key(made / "ed.pub").code == 2
    assert with_key(tmp_path / "missing.pem").code == 4
    done = attest(keys=("ed", "ed"))
    assert done.code == 2 and "has signed this already" in done.err


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ((), "sign with --key FILE or with --sign-with"),
        (("--key", "k", "--sign-with", "x", "--public-key", "p"), "sign with --key FILE or with --sign-with"),
        (("--sign-with", "x"), "belong together"),
        (("--key", "k", "--public-key", "p"), "belong together"),
        (("--key", "k", "--vsa", "v"), "--vsa needs --resource"),
        (("--key", "k", "--resource", "urn:a"), "are for --vsa"),
        (("--key", "k", "--cosign", "c"), "name a report to attest, or an envelope"),
        (("--key", "k", "--vsa", "@", "--resource", "a:b"), "two outputs have one name"),
        (("--key", "k", "--triple", "abc"), "is not 'sha256:'"),
        (("--key", "k", "--timeout", "0"), "above 0"),
    ],
)
def test_wrong_usage(kcc, made, tmp_path, flags, words):
    output = tmp_path / "e.json"
    done = kcc("register", "attest", made / "out", "-o", output, *(output if flag == "@" else flag for flag in flags))
    assert done.code == 2 and words in done.err, done.err
    assert not output.exists()


def test_wrong_values(kcc, made, attest, tmp_path):
    assert attest("--time", "yesterday").code == 2
    assert attest("--evidence", "summary").code == 2
    assert attest("--vsa", tmp_path / "v", "--resource", "no uri").code == 2
    assert attest(report=made / "nothing").code == 4
    assert attest(report=made / "ring.json").code == 2
    assert attest().code == 0
    envelope = tmp_path / "e.json"
    assert verify(kcc, made, envelope, "--threshold", "0").code == 2
    assert verify(kcc, made, envelope, "--subject", "abc").code == 2
    assert verify(kcc, made, envelope, "--time", "now").code == 2
    assert verify(kcc, made, envelope, "--verdict", "fine").code == 2
    assert verify(kcc, made, tmp_path / "missing").code == 4
    (tmp_path / "bad.yaml").write_text("apiVersion: kcc/v1\nkind: Keyring\nkeys:\n  - ownr: ann\n")
    done = kcc("register", "verify-attestation", envelope, "--keyring", tmp_path / "bad.yaml")
    assert done.code == 2 and "bad.yaml:4:5: error: unknown key 'ownr'; did you mean 'owner'?" in done.err


def test_what_others_wrote_cannot_steer_the_terminal(kcc, made, tmp_path):
    path = tmp_path / "evil.json"
    path.write_text(json.dumps({"payload": "aGk=", "payloadType": "\x1b[31m\n::error::x",
                                "signatures": [{"keyid": "k", "sig": "aGk="}]}))  # fmt: skip
    done = verify(kcc, made, path)
    assert done.code == 1 and "\x1b" not in done.out and "\n::error" not in done.out


def test_a_stamp_travels_with_the_weights(kcc, tmp_path):
    numpy = pytest.importorskip("numpy")
    safetensors = pytest.importorskip("safetensors")
    from safetensors.numpy import load_file, save_file

    weights = {"b": numpy.arange(12, dtype=numpy.float32).reshape(3, 4), "a": numpy.ones(5, dtype=numpy.int8)}
    source, out = tmp_path / "m.safetensors", tmp_path / "s.safetensors"
    save_file(weights, source, metadata={"format": "pt"})
    none = kcc("register", "stamp", "--show", source)
    assert (none.code, none.out) == (1, "contract not stamped\ntriple   not stamped\n")
    done = kcc("register", "stamp", source, "--contract", A, "--triple", B, "-o", out, "--json")
    assert done.code == 0, done.err
    assert done.json["payloadBytes"] == 53 and done.json["before"] == {"contract": None, "triple": None}
    shown = kcc("register", "stamp", "--show", out, "--json")
    assert shown.code == 0 and (shown.json["contract"], shown.json["triple"]) == (A, B)
    with safetensors.safe_open(out, "np") as file:
        assert file.metadata() == {"format": "pt", "kcc.contract": A, "kcc.triple": B}
    read = load_file(out)
    assert sorted(read) == ["a", "b"] and all((read[name] == weights[name]).all() for name in read)
    again = kcc("register", "stamp", out, "--contract", B, "--triple", B, "-o", out)
    assert again.code == 0 and f"it was stamped with contract {A}" in again.out


def test_stamp_with_wrong_flags(kcc, tmp_path):
    (tmp_path / "no").write_text("no checkpoint")
    out = tmp_path / "out"
    for flags, code in (
        ([tmp_path / "no", "--contract", A, "--triple", B, "-o", out], 2),
        ([tmp_path / "missing", "--contract", A, "--triple", B, "-o", out], 4),
        ([tmp_path / "no", "--contract", "A", "--triple", B, "-o", out], 2),
        ([tmp_path / "no", "--contract", A, "-o", out], 2),
        (["--show", tmp_path / "no"], 2),
        (["--show", tmp_path / "no", "--contract", A], 2),
        ([], 2),
    ):
        assert kcc("register", "stamp", *flags).code == code, flags
    assert not out.exists()
