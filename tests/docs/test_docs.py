"""Every example of README.md and docs/ runs and prints what the page shows."""

import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import run_docs  # noqa: E402


@pytest.mark.parametrize("path", run_docs.pages(), ids=lambda path: str(path.relative_to(ROOT)))
def test_page_shows_what_happens(path):
    problems = run_docs.Page(path).run()
    assert not problems, "\n".join(problems)


def test_every_page_is_reached_from_the_readme():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for page in sorted((ROOT / "docs").glob("*.md")) + sorted((ROOT / "docs/first-steps").glob("*.md")):
        name = page.relative_to(ROOT)
        assert str(name) in readme, f"README.md does not link {name}"


def commands_of(group=()):
    """Every command of the program, as words: ["check"], …, ["lab", "e1"]."""
    done = subprocess.run([run_docs.kcc_binary(), *group, "--help"], capture_output=True, text=True, check=True)
    listed = re.search(r"^Commands:\n((?:  .*\n)+)", done.stdout, re.M)
    for name in re.findall(r"^  (\S+)", listed[1] if listed else "", re.M):
        yield [*group, name]
        yield from commands_of([*group, name])


def test_every_command_has_a_page_with_its_help_and_an_example():
    commands = list(commands_of())
    pages = {path.stem for path in (ROOT / "docs/cli").glob("*.md")}
    assert pages == {words[0] for words in commands}
    for words in commands:
        page = (ROOT / "docs/cli" / f"{words[0]}.md").read_text(encoding="utf-8")
        shown = re.findall(r"^\$ (.*)", page, re.M)
        assert f"kcc {' '.join(words)} --help" in shown, f"docs/cli/{words[0]}.md lacks the help of {words}"
    for name in pages - {"completion"}:  # whose example changes the shell it is run in
        page = (ROOT / "docs/cli" / f"{name}.md").read_text(encoding="utf-8")
        examples = [line for line in re.findall(r"^\$ (.*)", page, re.M) if "--help" not in line]
        assert any(f"kcc {name}" in line for line in examples), f"docs/cli/{name}.md has no example that is run"


@pytest.mark.parametrize(
    ("shown", "printed", "expected"),
    [
        (["a", "b"], ["a", "b"], True),
        (["a"], ["a", "b"], False),
        (["a", "…"], ["a", "b", "c"], True),
        (["a", "…", "z"], ["a", "z"], True),
        (["sha256:…"], ["sha256:0123"], True),
        (["sha256:… end"], ["sha256:0123 end"], True),
        (["sha256:…"], ["md5:0123"], False),
        (["1.5"], ["1x5"], False),
        ([], ["anything"], False),
    ],
)
def test_wildcards(shown, printed, expected):
    assert run_docs.matches(shown, printed) is expected


def test_a_wrong_example_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(run_docs, "ROOT", ROOT)
    page = tmp_path / "page.md"
    page.write_text("```console\n$ kcc --version\nkcc 99\n```\n[x](missing.md)\n")
    monkeypatch.setattr(run_docs.Page, "problem", lambda self, line, text: self.problems.append(text))
    problems = run_docs.Page(page).run()
    assert len(problems) == 2
    assert "kcc --version" in problems[0] and "missing.md" in problems[1]


@pytest.mark.parametrize(
    ("command", "unsafe"),
    [
        ("kcc score openai+http://h:1?server=vllm -o t", ["openai+http://h:1?server=vllm"]),
        ("kcc score openai+http://h:1 -o t", []),
        ("kcc score 'openai+http://h:1?server=vllm&top=3' -o t", []),
        ('kcc score "openai+http://h:1?server=vllm" -o t', []),
        ("kcc run c.yaml --train lab:f32 --infer lab:custom?kv=e4m3", ["lab:custom?kv=e4m3"]),
        ("kcc run c.yaml --infer=lab:custom?kv=e4m3", ["--infer=lab:custom?kv=e4m3"]),
        ("kcc lab e2 -o out --engine fp8,'bf16?kv=e5m2'", []),
        ("kcc run c.yaml a b; echo \"exit code $?\"", []),
        ("kcc check a.yaml && kcc check b.yaml", []),
    ],
)
def test_a_command_that_a_shell_would_break_apart_is_found(command, unsafe):
    assert run_docs.unsafe_words(command) == unsafe


def test_commands_are_looked_at_wherever_a_page_shows_them():
    page = ["    kcc score lab:a?x=1 \\", "      --infer lab:b?x=1", "text `kcc score lab:c?x=1` and lab:d?x=1",
            "```console", "$ cd x; kcc score lab:e?x=1", "```"]  # fmt: skip
    found = [word for _, command in run_docs.shown_commands(page) for word in run_docs.unsafe_words(command)]
    assert found == ["lab:a?x=1", "lab:b?x=1", "lab:c?x=1", "lab:e?x=1"]
