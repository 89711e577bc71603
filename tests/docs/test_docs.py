"""Every example of README.md and docs/ runs and prints what the page shows."""

import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import run_docs  # noqa: E402


@pytest.mark.parametrize("path", run_docs.pages(), ids=lambda path: path.name)
def test_page_shows_what_happens(path):
    problems = run_docs.Page(path).run()
    assert not problems, "\n".join(problems)


def test_every_page_is_reached_from_the_readme():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for page in sorted((ROOT / "docs").glob("*.md")):
        assert f"docs/{page.name}" in readme, f"README.md does not link docs/{page.name}"


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
