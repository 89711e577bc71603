"""What the admin port answers is what its published schemas say."""

import json
import pathlib

import jsonschema
import pytest

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"


@pytest.mark.parametrize("flag", ["status", "verdict"])
def test_the_schema_in_the_docs_is_the_programs(kcc, flag):
    assert kcc("schema", f"--{flag}").out == (DOCS / f"gateway-{flag}.schema.json").read_text()


@pytest.mark.parametrize(("flag", "path"), [("status", "/v1/status"), ("verdict", "/v1/verdict"), ("verdict", "/v1/verdict?contract=another")])
def test_answers_are_as_their_schema_says(scripted, until, flag, path):
    gateway = scripted.gateway(audit=1)
    for i in range(5):
        body = {"model": "kcc-lab", "messages": [{"role": "user", "content": f"ask-{i} words-3"}]}
        assert gateway.ask("POST", "/v1/chat/completions", body).status == 200
    until(lambda: gateway.status["evaluator"]["observations"] >= 5)
    schema = json.loads((DOCS / f"gateway-{flag}.schema.json").read_text())
    answer = gateway.admin_ask(path).json
    jsonschema.validate(answer, schema)
    # Every member that is published is there, or may be left out, and nothing is there unpublished.
    assert set(answer) == set(schema["properties"])
