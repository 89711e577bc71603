"""kcc check: every mistake, at its place, in one run."""

import pathlib

import pytest

HERE = pathlib.Path(__file__).parent
TEN = HERE / "ten_mistakes.yaml"

# line -> the code, and a word of the message or hint that says what to do.
MISTAKES = {
    5: ("unknown-key", "about"),
    7: ("bad-where", ""),
    10: ("unknown-metric", "p99_logit_linf"),
    11: ("duplicate-id", "line 10"),
    12: ("wrong-bound", "atMost"),
    13: ("wrong-unit", ""),
    14: ("unknown-slice", "safety"),
    16: ("unknown-word", "did you mean"),
    17: ("missing-threshold", "atMost"),
    18: ("out-of-range", ""),
}


def test_the_examples_are_valid_and_give_no_warning(kcc, contracts):
    assert len(contracts) >= 6
    outcome = kcc("check", *contracts)
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.count(": ok: ") == len(contracts)
    assert outcome.out.count("sha256:") == len(contracts)


def test_ten_mistakes_are_listed_with_line_caret_and_remedy(kcc):
    outcome = kcc("check", TEN)
    assert outcome.code == 2
    assert outcome.out == ""
    lines = outcome.err.splitlines()
    for number, (code, words) in MISTAKES.items():
        heads = [i for i, line in enumerate(lines) if line.startswith(f"{TEN}:{number}:")]
        assert len(heads) == 1, f"line {number}: {heads}"
        head = lines[heads[0]]
        assert ": error: " in head and f"[{code}]" in head
        block = "\n".join(lines[heads[0] : heads[0] + 3])
        assert "^" in lines[heads[0] + 2]
        assert words in block
    assert lines[-1] == f"{TEN}: invalid: 10 errors"


def test_json_says_the_same_as_data(kcc):
    outcome = kcc("check", "--json", TEN)
    assert (outcome.code, outcome.err) == (2, "")
    data = outcome.json
    assert data["valid"] is False
    [entry] = data["files"]
    assert entry["file"] == str(TEN)
    rows = entry["diagnostics"]
    assert {row["line"]: row["code"] for row in rows} == {
        line: code for line, (code, _) in MISTAKES.items()
    }
    assert len(rows) == 10
    text = kcc("check", TEN).err
    for row in rows:
        assert row["column"] > 0
        assert f"{TEN}:{row['line']}:{row['column']}: {row['kind']}: {row['message']}" in text


def test_json_of_a_valid_contract_has_its_identity(kcc, minimal):
    outcome = kcc("check", "--json", "-", stdin=minimal)
    assert outcome.code == 0
    [entry] = outcome.json["files"]
    assert (entry["file"], entry["name"], entry["version"]) == ("<stdin>", "small", "1.0.0")
    assert entry["digest"].startswith("sha256:") and entry["valid"] is True
    assert (entry["clauses"], entry["slices"], entry["diagnostics"]) == (1, 1, [])


def test_warnings_pass_unless_strict(kcc, minimal):
    unused = minimal.replace("  numerical", "  slices: [{name: odd, where: prompt_tokens > 1}]\n  numerical")
    relaxed = kcc("check", "-", stdin=unused)
    assert relaxed.code == 0 and "warning: " in relaxed.err and "1 warning" in relaxed.out
    assert kcc("check", "--strict", "-", stdin=unused).code == 2


def test_a_bad_file_does_not_hide_a_good_one(kcc, contracts, tmp_path):
    outcome = kcc("check", tmp_path / "none.yaml", TEN, contracts[0])
    assert outcome.code == 4
    assert "none.yaml: error: cannot open" in outcome.err
    assert "10 errors" in outcome.err
    assert f"{contracts[0]}: ok" in outcome.out
    data = kcc("check", "--json", tmp_path / "none.yaml", contracts[0]).json
    assert [entry["valid"] for entry in data["files"]] == [False, True]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("empty", b""),
        ("not UTF-8", b"apiVersion: \xff\xfe\n"),
        ("a tab", b"apiVersion: kcc/v1\n\tkind: KernelContract\n"),
        ("an open quote", b"apiVersion: 'kcc/v1\n"),
        ("a list", b"- 1\n- 2\n"),
        ("a number", b"42\n"),
        ("binary", bytes(range(256)) * 4),
        ("two documents", b"apiVersion: kcc/v1\n---\nkind: KernelContract\n"),
        ("a bomb", b"a: &a [x]\n" + b"".join(
            b"%c: &%c [%s]\n" % (c + 1, c + 1, b", ".join([b"*%c" % c] * 9)) for c in range(97, 115))),
        ("deep nesting", b"a: " + b"[" * 20000 + b"]" * 20000),
        ("one long line", b"apiVersion: " + b"x" * (5 << 20)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_hostile_files_give_an_error_with_a_place(kcc, tmp_path, name, content):
    path = tmp_path / "hostile.yaml"
    path.write_bytes(content)
    outcome = kcc("check", path)
    assert outcome.code == 2, name
    assert outcome.err.startswith(f"{path}:") and "error: " in outcome.err


def test_a_directory_is_not_a_contract(kcc, tmp_path):
    outcome = kcc("check", tmp_path)
    assert outcome.code == 2 and "directory" in outcome.err
