"""Gateways on the command line: the commands that know contracts and policies know their documents too."""

import json
import pathlib

import jsonschema
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROMOTION = ROOT / "policies/promotion.yaml"
GATEWAY = """\
apiVersion: kcc/v1
kind: Gateway
metadata:
  name: lab
  version: 1.0.0
spec:
  listen: "127.0.0.1:8080"
  admin: "127.0.0.1:8081"
  adminToken: admin.token
  model: kcc-lab
  contract: contract.yaml
  policy: policy.yaml
  register: "sqlite:kcc.db"
  promotion: promotion.yaml
  stage: full
  store: hashes
  session: ["header:x-session-id", "body:user"]
  fields:
    - {name: tags, from: "header:x-kcc-tags"}
  kernels:
    # what clients get
    - {name: fp8, url: "http://127.0.0.1:8000", server: vllm}
    - {name: int8, url: "http://127.0.0.1:8001", server: sglang, set: {temperature: 0}}
  canary: {kernel: int8, share: 5%}
  shadow: int8
  scoring: {timeout: 3s}
  hooks:
    - {field: parsed, json: schema.json, when: "'json' in tags"}
    - {field: reward, exec: python3 grade.py}
  limits: {requestsPerSecond: 100}
"""


@pytest.fixture
def gateway(tmp_path):
    """The gateway with some texts replaced, each of which it holds."""

    def make(*replacements, name="gateway.yaml"):
        text = GATEWAY
        for old, new in replacements:
            assert old in text, old
            text = text.replace(old, new)
        path = tmp_path / name
        path.write_text(text)
        return path

    return make


def test_check_knows_gateways(kcc, gateway):
    good = kcc("check", "--strict", gateway())
    assert (good.code, good.err) == (0, "")
    assert "lab 1.0.0, a gateway: 2 kernels behind 127.0.0.1:8080" in good.out
    data = kcc("check", "--json", gateway()).json["files"][0]
    assert (data["kind"], data["valid"], data["diagnostics"]) == ("Gateway", True, [])
    assert data["digest"].startswith("sha256:")


def test_check_lists_all_mistakes_in_one_run(kcc, gateway):
    bad = gateway(
        ("kind: Gateway", "kind: Gatway"),
        ('admin: "127.0.0.1:8081"', 'admin: "0.0.0.0:8081"'),
        ('url: "http://127.0.0.1:8000"', 'url: "http://127.0.0.1:8000/api"'),
        ("server: sglang", "server: sglan"),
        ("shadow: int8", "shadow: int"),
        ("json: schema.json", "json: schema.json, exec: x"),
    )
    outcome = kcc("check", bad)
    assert outcome.code == 2
    for words in (
        "did you mean 'Gateway'?",
        "write '127.0.0.1:8081', and reach it through a tunnel",
        "write 'http://127.0.0.1:8000'",
        "did you mean 'sglang'?",
        "did you mean 'int8'?",
        "a hook is one of json, phrases, exec and http",
    ):
        assert words in outcome.err, words
    assert f"{bad}:" in outcome.err and "invalid: 6 errors" in outcome.err


def test_no_message_says_a_password(kcc, gateway):
    outcome = kcc("check", "--json", gateway(("sqlite:kcc.db", "postgresql://u:hunter2@h/d")))
    assert outcome.code == 2
    assert "holds a password" in outcome.out and "hunter2" not in outcome.out


def test_fmt_keeps_the_gateway_and_its_comments(kcc, gateway):
    assert kcc("fmt", gateway()).out == GATEWAY
    ugly = gateway(("{kernel: int8, share: 5%}", "{share: 0.05,   kernel: int8}"), ("timeout: 3s", "timeout: 3000ms"))
    assert kcc("fmt", "-i", ugly).code == 0
    assert ugly.read_text() == GATEWAY


def test_diff_says_what_became_looser(kcc, gateway):
    before = gateway()
    after = gateway(("share: 5%", "share: 20%"), ("store: hashes", "store: none"), name="after.yaml")
    outcome = kcc("diff", before, after)
    assert outcome.code == 1 and "the new gateway is looser" in outcome.out
    assert "share raised from 5% to 20%" in outcome.out
    data = kcc("diff", "--json", before, after).json
    assert data["after"]["kind"] == "Gateway"
    assert [row["loosens"] for row in data["changes"]] == [True, False]
    assert kcc("diff", before, before).out.startswith("the same gateway, sha256:")
    mixed = kcc("diff", PROMOTION, before)
    assert mixed.code == 2 and "one is a promotion policy and the other a gateway" in mixed.err


def test_the_schema_accepts_what_check_accepts(kcc, gateway):
    schema = json.loads(kcc("schema", "--gateway").out)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    canonical = kcc("fmt", "--json", gateway()).json
    validator.validate(canonical)
    for change in (
        lambda spec: spec.update(listen="8080"),
        lambda spec: spec.update(stage="offline"),
        lambda spec: spec["hooks"][0].update(exec="x"),
        lambda spec: spec["kernels"][0].update(server="lab"),
        lambda spec: spec["kernels"][0].update(url="127.0.0.1:8000"),
        lambda spec: spec["session"].append("user"),
        lambda spec: spec.pop("policy"),
        lambda spec: spec["limits"].update(requestsPerSecond=0),
    ):
        wrong = json.loads(json.dumps(canonical))
        change(wrong["spec"])
        assert not validator.is_valid(wrong)
    tables = kcc("schema", "--gateway", "--markdown").out
    assert tables.startswith("### gateway\n") and "### gatewayTelemetry" in tables


def test_explain_takes_a_part(kcc, gateway):
    whole = kcc("explain", gateway())
    assert whole.code == 0
    assert [line for line in whole.out.splitlines() if not line.startswith(" ")][-5:] == ["door", "kernels", "routes", "evidence", "limits"]
    one = kcc("explain", gateway(), "routes")
    assert "int8 serves 5% of sessions" in one.out and "alternatives" not in one.out
    assert kcc("explain", "--ids", gateway()).out.split() == ["door", "kernels", "routes", "evidence", "limits"]
    wrong = kcc("explain", gateway(), "canary")
    assert wrong.code == 2 and "there is no part 'canary'" in wrong.err
    data = kcc("explain", "--json", gateway(), "limits").json
    assert data["gateway"]["kind"] == "Gateway"
    assert [row["part"] for row in data["parts"]] == ["limits"]


def test_other_commands_say_what_it_is(kcc, gateway):
    outcome = kcc("promote", "explain", gateway(), ROOT / "contracts/fp8-serving.yaml")
    assert outcome.code == 2 and "is a gateway, and a promotion policy is wanted" in outcome.err
