"""tools/passed_before.py: a test file runs again when anything that its tests could depend on has changed, and else not."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import passed_before
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]

FILES = {
    ".gitignore": "build\n__pycache__\n",
    "README.md": "page\n",
    "models/weights": "1\n",
    "python/kcc/rl.py": "",
    "docs/trace.md": "page\n",
    "docs/cli/run.md": "page\n",
    "kcc/drift/kl.cc": "// C++\n",
    "include/kcc.h": "// C\n",
    "tools/passed_before.py": (ROOT / "tools/passed_before.py").read_text(),
    "tools/unless_passed.py": (ROOT / "tools/unless_passed.py").read_text(),
    "tools/upstream.py": "",
    "tools/soak.py": "",
    "tests/conftest.py": "import os, sys\nsys.path.insert(0, os.path.abspath('tools'))\nimport shared\npytest_plugins = ['passed_before']\n",
    "tests/shared.py": "PAGE = 'docs/trace.md'\n",
    "tests/data/rows.json": "[]\n",
    "tests/near/conftest.py": "import helper\n",
    "tests/near/helper.py": "UPSTREAM = 'upstream.py'\n",
    "tests/near/rows.txt": "1\n",
    "tests/near/test_near.py": "import helper\n\n\ndef test_one():\n    pass\n",
    "tests/far/rows.txt": "1\n",
    "tests/far/test_far.py": "import pathlib\n\n\ndef test_one():\n    pathlib.Path('docs/cli').iterdir()\n\n\ndef test_two():\n    pass\n",
}


class Checkout:
    """A repository with two test files, near and far; far names the pages of docs/cli."""

    def __init__(self, folder):
        self.folder = folder
        for name, text in FILES.items():
            self.write(name, text)
        for name in ("kcc", "release/apps/kcc/kcc", "release/kcc/api/libkcc.so.1"):
            self.write(f"build/{name}", "built\n")
        subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
        subprocess.run(["git", "add", "."], cwd=folder, check=True)

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def keys(self, options=""):
        inputs = passed_before.Inputs(self.folder)
        return {test.stem: inputs.key(test, options) for test in inputs.tests()}

    def run(self, *words, left_out=0, code=0, **variables):
        """How many tests ran."""
        environment = {name: value for name, value in os.environ.items() if name not in ("CI", "FRESH") and "PYTEST" not in name}
        done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "xdist", "--unless-passed", *(words or ["tests"])],
                              cwd=self.folder, env=environment | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"} | variables, capture_output=True, text=True, check=False)  # fmt: skip
        assert done.returncode == code, done.stdout + done.stderr
        said = re.search(r"(\d+) of \d+ test files LEFT OUT", done.stdout)
        assert int(said.group(1) if said else 0) == left_out, done.stdout
        return sum(int(count) for count in re.findall(r"(\d+) (?:passed|failed|skipped)", done.stdout))


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    for name in ("KCC_BINARY", "KCC_BUILD"):
        monkeypatch.delenv(name, raising=False)
    return Checkout(tmp_path)


BOTH = {"test_near", "test_far"}
CHANGES = {
    "build/kcc": BOTH,
    "build/release/kcc/api/libkcc.so.1": BOTH,
    "build/release/other": set(),
    "models/weights": BOTH,
    "models/new": BOTH,
    "python/kcc/rl.py": BOTH,
    "a-new-folder/file": BOTH,
    "tests/conftest.py": BOTH,
    "tests/shared.py": BOTH,
    "tests/data/rows.json": BOTH,
    "tests/near/helper.py": {"test_near"},
    "tests/near/rows.txt": {"test_near"},
    "tests/near/conftest.py": {"test_near"},
    "tests/near/test_near.py": {"test_near"},
    "tests/far/test_far.py": {"test_far"},
    "tools/upstream.py": {"test_near"},  # named by the helper
    "tools/soak.py": set(),
    "docs/cli/run.md": {"test_far"},
    "docs/cli/new.txt": {"test_far"},
    "docs/trace.md": set(),  # named by what all share, whose readers name it themselves
    "README.md": set(),
    "kcc/drift/kl.cc": set(),  # it counts by the program made of it
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_a_change_concerns(checkout, name):
    before = checkout.keys()
    assert before == checkout.keys()
    checkout.write(name, "# another\n")
    after = checkout.keys()
    assert {test for test in before if before[test] != after[test]} == CHANGES[name]


# What a test's text names, and a file that counts for it then.
NAMES = [
    ("'docs/trace.md'", "docs/trace.md"), ("ROOT / 'docs' / 'trace.md'", "docs/trace.md"), ('ROOT / "docs/trace.md"', "docs/trace.md"),
    ("f'docs/{name}.md'", "docs/trace.md"), ("f'docs/cli/{name}.md'", "docs/cli/run.md"), ("f'docs/cli/r{name}.md'", "docs/cli/run.md"),
    ("'docs/cli/r' + 'un.md'", "docs/cli/run.md"), ("ROOT / 'docs' / 'cli'", "docs/cli/run.md"), ("glob('docs/*.md')", "docs/trace.md"),
    ("ROOT / f'docs/cli/{name}'", "docs/cli/run.md"), ("for folder in ('kcc', 'apps')", "kcc/drift/kl.cc"),
    ("ROOT.rglob('*.md')", "docs/trace.md"), ("ROOT / name", "docs/trace.md"), ("'README.md'", "README.md"), ("'README'", "README.md"),
    ("['git', 'archive']", "README.md"), ("'include/kcc.h'", "include/kcc.h"), ("import soak", "tools/soak.py"),
    ("from soak import x", "tools/soak.py"), ("'soak.py'", "tools/soak.py"), ("ROOT / 'tools'", "tools/soak.py"),
    ("'tests/near/rows.txt'", "tests/near/rows.txt"), ("'tests/near'", "tests/near/test_near.py"), ("import helper", "tools/upstream.py"),
    ("from test_near import x", "tests/near/test_near.py"), ("from test_near import x", "tools/upstream.py"),
    ("pathlib.Path(__file__).parents[1]", "tests/near/rows.txt"), ("HERE.parent.parent", "tests/near/rows.txt"),
]  # fmt: skip


@pytest.mark.parametrize("text, name", NAMES)
def test_what_a_test_names_counts_for_it(checkout, text, name):
    def counted():
        inputs = passed_before.Inputs(checkout.folder)
        return pathlib.PurePosixPath(name) in inputs.of(pathlib.PurePosixPath("tests/far/test_far.py"))

    checkout.write("tests/far/test_far.py", "")
    assert not counted()
    statement = text if text.startswith(("import", "from")) else f"pass  # {text}"
    checkout.write("tests/far/test_far.py", f"def test_one():\n    {statement}\n")
    assert counted()


def test_variables_and_options_count(checkout, monkeypatch):
    before = checkout.keys()
    assert checkout.keys("not slow") != before
    monkeypatch.setenv("KCC_FAULTS", "full")
    assert checkout.keys() != before
    monkeypatch.delenv("KCC_FAULTS")
    monkeypatch.setenv("EDITOR", "vi")
    assert checkout.keys() == before


def test_a_file_that_passed_is_left_out(checkout):
    assert checkout.run() == 3
    assert checkout.run(left_out=2) == 0
    assert checkout.run(FRESH="1") == 3
    assert checkout.run(CI="true") == 3
    checkout.write("docs/cli/run.md", "another\n")
    assert checkout.run(left_out=1) == 2
    assert checkout.run(left_out=2) == 0


def test_workers_leave_out_the_same(checkout):
    words = ("tests", "-n", "2", "--dist", "loadfile")
    assert checkout.run(*words) == 3
    checkout.write("docs/cli/run.md", "another\n")
    assert checkout.run(*words, left_out=1) == 2
    assert checkout.run(*words, left_out=2) == 0


@pytest.mark.parametrize("last", ["assert False", "__import__('pytest').skip('not here')"], ids=["failed", "skipped"])
def test_what_did_not_pass_whole_is_run_again(checkout, last):
    checkout.write("tests/far/test_far.py", f"def test_one():\n    pass\n\n\ndef test_two():\n    {last}\n")
    code = 1 if "assert" in last else 0
    assert checkout.run(code=code) == 3
    assert checkout.run(left_out=1, code=code) == 2


def test_a_part_of_a_file_is_not_the_file(checkout):
    assert checkout.run("tests/far/test_far.py::test_one") == 1
    assert checkout.run("tests", "-k", "test_one") == 2
    assert checkout.run("tests", "-x") == 3


def test_a_file_that_changes_during_the_run_is_not_what_passed(checkout):
    checkout.write("tests/near/test_near.py", "def test_one():\n    open('models/weights', 'a').write('more')\n")
    assert checkout.run() == 3 and checkout.run() == 3


def test_without_git_all_run(checkout):
    shutil.rmtree(checkout.folder / ".git")
    assert checkout.run(GIT_CEILING_DIRECTORIES=str(checkout.folder.parent)) == 3
    assert checkout.run(GIT_CEILING_DIRECTORIES=str(checkout.folder.parent)) == 3


def test_every_build_product_that_a_test_names_is_known():
    """BUILT, against the tests' texts."""
    found = set()
    for path in sorted((ROOT / "tests").rglob("*.py")):
        for rest in re.findall(r"""\b(?:BUILD|build) / (["'][^)\],\n]*["'])""", path.read_text()):
            found.add(rest.replace('" / "', "/").strip("\"'"))
    assert found and found <= {*passed_before.BUILT, "release", "kcc", "made", "screenshots", "servers"}, found
