"""Every fuzz target has inputs to start from and is replayed under asan; dictionaries can be read and keep up with what they name."""

import json
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TARGETS = re.findall(r"^kcc_fuzz\((\w+) ", (ROOT / "fuzz/CMakeLists.txt").read_text(), re.M)
DICTIONARIES = sorted((ROOT / "fuzz").glob("*.dict"))
# As libFuzzer reads them: a name and = are optional; \\, \" and \xAB are escapes.
ENTRY = re.compile(r'(?:[^"#]+=)?"((?:[^"\\]|\\\\|\\"|\\x[0-9a-fA-F]{2})+)"\s*')


def entries(path):
    found = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            entry = ENTRY.fullmatch(line)
            assert entry, f"{path.name}:{number} is no entry: {line}"
            found.append(re.sub(r'\\(["\\])', r"\1", entry[1]))
    return found


def keys_of(schema):
    if isinstance(schema, list):
        return set().union(*map(keys_of, schema))
    if not isinstance(schema, dict):
        return set()
    return set(schema.get("properties", {})).union(*map(keys_of, schema.values()))


def test_every_target_has_a_corpus_and_every_corpus_a_target():
    assert len(TARGETS) > 20 and sorted(TARGETS) == sorted(path.name for path in (ROOT / "fuzz/corpus").iterdir())
    for target in TARGETS:
        assert any((ROOT / "fuzz/corpus" / target).iterdir()), target


def test_every_corpus_is_replayed_under_asan():
    fuzzed = re.search(r"^FUZZED := ((?:.*\\\n)*.*)", (ROOT / "Makefile").read_text(), re.M)[1]
    assert sorted(fuzzed.replace("\\", "").split()) == sorted(TARGETS)


@pytest.mark.parametrize("path", DICTIONARIES, ids=lambda path: path.stem)
def test_dictionaries_can_be_read(path):
    assert path.stem in TARGETS
    found = entries(path)
    assert found and len(found) == len(set(found)), [entry for entry in found if found.count(entry) > 1]


def test_the_words_of_observations_are_those_of_the_schema():
    words = set(entries(ROOT / "fuzz/observation.dict"))
    missing = [key for key in keys_of(json.loads((ROOT / "docs/observation.schema.json").read_text())) if f'"{key}":' not in words]
    assert missing == []
