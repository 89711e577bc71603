"""Every citation in comments, messages and pages leads to a page, heading or anchor that exists.

The planted citations below are put together from parts, so that this file cites nothing itself.
"""

import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import check_citations  # noqa: E402

DOCS = "do" + "cs/"
MATH = DOCS + "math.md"
DESIGN = DOCS + "design.md"
GUIDE = DOCS + "guide.md"
NOTES = "NOTES" + ".md"


def test_the_repository():
    problems = check_citations.check(ROOT)
    assert not problems, "\n".join(problems)


@pytest.fixture
def tree(tmp_path):
    """A small repository in which every citation resolves."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "kcc").mkdir()
    (tmp_path / "README.md").write_text(f"# R\n\n[guide]({GUIDE}#first-steps)\n")
    (tmp_path / MATH).write_text(
        "# Mathematics\n\n## A. Drift\n\n### A.3 One token\n\n### A.7 Bias\n\nSee A.3.\n\n"
        "#### W3 Clipping\n\n## C. Tests\n\n### C.3 Clusters\n\n#### C.3b Ratios\n\n## E. Calibration\n"
    )
    (tmp_path / DESIGN).write_text("# Design\n\n## 6. Quantities\n\n[math](math.md#a7-bias)\n")
    (tmp_path / GUIDE).write_text(
        "# Guide\n\n## First steps\n\n## First steps\n\n<a id=\"x\"></a>\n"
        "```\n[not a link](nowhere.md)\n# not a heading\n```\n`[nor this](nowhere.md)`\n"
    )
    assert check_citations.check(tmp_path) == []
    return tmp_path


GOOD = [
    f"// Bias ({MATH} A.7).",
    f"// ({MATH} A.3, A.7; {DESIGN} section 6)",
    f"// The rows of {MATH} A.3 that hold at every token, and A.7",
    f"// bias ({MATH} W3), the ratio test ({MATH} C.3b) or {MATH} C.3(b)",
    f"// The envelope of {MATH} E beside each source\n",
    f"// in float32 ({MATH}\n// A.7). More text",
    f'/* {GUIDE} "First steps" and {GUIDE}#first-steps-1, {GUIDE}#x */',
    f"const char* text = \"see {GUIDE}\";",
    "// README.md and https://example.org/docs/other.md and report.md",
]

BAD = [
    (f"// ({MATH} A.8)", "no A.8"),
    (f"// ({MATH} A.3, A.8)", "no A.8"),
    (f"// ({MATH} A.3-A.8)", "no A.8"),
    (f"// ({MATH} A.3 and W4)", "no W4"),
    (f"// ({MATH} D)", "no D"),
    (f"// ({MATH} C.3c)", "no C.3c"),
    (f"// in float32 ({MATH}\n// A.8). More", "no A.8"),
    (f"// ({MATH} A.3)\n\n// and elsewhere the bound of A.8", "no A.8"),
    (f"// ({DESIGN} section 7)", "no section 7"),
    (f"// ({DESIGN}\n// section 7)", "no section 7"),
    (f"// {DOCS}nowhere.md", "there is no"),
    (f'// {GUIDE} "Last steps"', "no heading 'Last steps'"),
    (f"// {GUIDE}#last-steps", "no anchor #last-steps"),
    (f"// {GUIDE}#not-a-heading", "no anchor #not-a-heading"),
    (f"// the proof is in {NOTES} A.3", "not in the repository"),
    (f"// ../shared/{NOTES}", "not in the repository"),
]


@pytest.mark.parametrize("text", GOOD)
def test_a_right_citation_passes(tree, text):
    (tree / "kcc/x.h").write_text(f"// A file.\n{text}\n")
    assert check_citations.check(tree) == []


@pytest.mark.parametrize(("text", "message"), BAD)
@pytest.mark.parametrize("name", ["kcc/x.h", "kcc/x.py"])
def test_a_wrong_citation_is_found_at_its_line(tree, name, text, message):
    if name.endswith(".py"):
        text = text.replace("//", "#")
    (tree / name).write_text(f"\n\n{text}\n")
    problems = check_citations.check(tree)
    assert len(problems) == 1, problems
    place, _, said = problems[0].partition(": ")
    assert message in said
    assert place.startswith(f"{name}:") and int(place.rpartition(":")[2]) >= 3


@pytest.mark.parametrize(
    ("link", "message"),
    [
        ("[x](nowhere.md)", "there is no nowhere.md"),
        ("[x](guide.md#last)", "no anchor #last"),
        ("[x](#last)", "no anchor #last"),
        ("![x](images/none.png)", "there is no images/none.png"),
    ],
)
def test_a_wrong_link_is_found(tree, link, message):
    (tree / "docs" / "page.md").write_text(f"# Page\n\nSee {link}.\n")
    problems = check_citations.check(tree)
    assert len(problems) == 1 and problems[0].startswith(DOCS + "page.md:3: ")
    assert message in problems[0]


def test_a_heading_that_is_gone_is_missed(tree):
    (tree / "kcc/x.h").write_text(f"// ({MATH} A.7)\n")
    page = (tree / MATH).read_text()
    (tree / MATH).write_text(page.replace("### A.7 Bias", "### Bias"))
    problems = check_citations.check(tree)
    assert any(p.startswith("kcc/x.h:1: ") for p in problems)
    assert any(p.startswith("docs/design.md:") for p in problems)
