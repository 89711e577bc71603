"""tools/unless_passed.py: a test program runs again when anything that could change its outcome has changed, and else not."""

import os
import pathlib
import re
import shutil
import subprocess

import pytest
import unless_passed

ROOT = pathlib.Path(__file__).resolve().parents[2]
RAN, SKIPPED = 0, 77


class Checkout:
    """A repository with one test program in its build, which counts its runs."""

    def __init__(self, folder):
        self.folder = folder
        for name in ("tools", "build", "tests"):
            (folder / name).mkdir()
        self.script = pathlib.Path(shutil.copy(ROOT / "tools/unless_passed.py", folder / "tools"))
        (folder / ".gitignore").write_text("build\n")
        (folder / "tests/data").write_text("data\n")
        (folder / "tests/x_test.cc").write_text("// source\n")
        (folder / "tests/test_x.py").write_text("")
        (folder / "README.md").write_text("")
        (folder / "CHANGELOG.md").write_text("")
        (folder / "build/library.so").write_text("library\n")
        self.program = folder / "build/program"
        self.write("exit 0")
        subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
        subprocess.run(["git", "add", "."], cwd=folder, check=True)

    def write(self, text):
        self.program.write_text(f"#!/bin/sh\necho run >>{self.folder}/build/runs\n{text}\n")
        self.program.chmod(0o755)

    def runs(self):
        path = self.folder / "build/runs"
        return len(path.read_text().split()) if path.exists() else 0

    def run(self, *words, **variables):
        before = self.runs()
        # Nor TMPDIR: where the tests' own folder is in memory, the tests of that variable would change nothing.
        environment = {name: value for name, value in os.environ.items() if name not in ("CI", "FRESH", "TMPDIR")}
        done = subprocess.run([self.script, *map(str, words or [self.program])], env=environment | variables, capture_output=True,
                              text=True, check=False)  # fmt: skip
        assert (self.runs() == before) == (done.returncode == SKIPPED), (done.returncode, done.stdout, done.stderr)
        assert ("FRESH=1 runs it again" in done.stdout) == (done.returncode == SKIPPED)
        return done.returncode


@pytest.fixture
def checkout(tmp_path):
    made = Checkout(tmp_path)
    assert made.run() == RAN and made.run() == SKIPPED
    return made


CHANGES = {
    "the program": lambda at: at.write("exit 0 # otherwise"),
    "a file that it may read": lambda at: (at.folder / "tests/data").write_text("other\n"),
    "a page that tests read": lambda at: (at.folder / "README.md").write_text("more\n"),
    "a file of the same size": lambda at: (at.folder / "tests/data").write_text("atad\n"),
    "a file that is gone": lambda at: (at.folder / "tests/data").unlink(),
    "a new file": lambda at: (at.folder / "tests/more").write_text("data\n"),
    "a file's mode": lambda at: (at.folder / "tests/data").chmod(0o600),
}


@pytest.mark.parametrize("what", CHANGES)
def test_it_runs_again_when_something_changed(checkout, what):
    CHANGES[what](checkout)
    assert checkout.run() == RAN
    assert checkout.run() == SKIPPED


def test_sources_count_by_the_program_made_of_them(checkout):
    (checkout.folder / "tests/x_test.cc").write_text("// another\n")
    (checkout.folder / "build/other").write_text("built\n")
    assert checkout.run() == SKIPPED


def test_what_no_program_reads_asks_for_no_run(checkout):
    (checkout.folder / "tests/test_x.py").write_text("assert True\n")
    (checkout.folder / "CHANGELOG.md").write_text("more\n")
    assert checkout.run() == SKIPPED


def test_the_pages_that_count_are_those_that_tests_name():
    """In a literal: whole, since half a path would not be found here."""
    found = set()
    for path in sorted(path for folder in ("kcc", "apps", "tests", "fuzz") for path in (ROOT / folder).rglob("*.cc")):
        if path.name.endswith("_test.cc") or path.is_relative_to(ROOT / "tests") or path.is_relative_to(ROOT / "fuzz"):
            literals = re.findall(r'"((?:[^"\\\n]|\\.)*)"', path.read_text())
            found |= {word for literal in literals for word in re.findall(r"[\w./-]+\.md\b", literal) if (ROOT / word).exists()}
            assert not [literal for literal in literals if re.fullmatch(r"(\./)?docs(/\w+)*/", literal)], path
    assert found == set(unless_passed.PAGES)


@pytest.mark.parametrize("variables", [{"FRESH": "1"}, {"CI": "true"}, {"RC_PARAMS": "seed=1"}, {"KCC_FAULTS": "full"}], ids=str)
def test_variables_that_ask_for_a_run(checkout, variables):
    assert checkout.run(**variables) == RAN
    assert checkout.run(FRESH="") == (SKIPPED if {"FRESH", "CI"} & set(variables) else RAN), "another run was the last one"


# A name of each kind that the cache knows: what a test, the sanitizers, the shell or a library that it is built with may read.
KNOWN = ("PATH", "TZ", "LANG", "TMPDIR", "USER", "HOME", "KCC_PEEKING_RUNS", "RC_PARAMS", "GTEST_FILTER", "LC_ALL", "LD_PRELOAD",
         "OPENSSL_CONF", "SSL_CERT_FILE", "PGPASSWORD", "OMP_NUM_THREADS", "ASAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS")  # fmt: skip


@pytest.mark.parametrize("name", KNOWN)
def test_a_variable_that_a_test_may_read_asks_for_a_run(checkout, tmp_path, name):
    value = {"PATH": os.environ["PATH"] + ":/nowhere", "LD_PRELOAD": "", "TMPDIR": "/var/tmp", "HOME": str(tmp_path)}.get(name, "C")
    other = os.environ | {name: value}
    assert other.get(name) != os.environ.get(name), "the test changes nothing"
    assert checkout.run(**{name: value}) == RAN
    assert checkout.run(**{name: value}) == SKIPPED
    assert checkout.run() == RAN, "and without it is another run again"


def test_other_variables_ask_for_none(checkout):
    assert checkout.run(COLUMNS="80", EDITOR="vi", XKCC_FAULTS="1", SAN_OPTIONS_OF_OTHERS="1") == SKIPPED


def test_folders_in_memory_that_are_new_for_each_run_are_alike(checkout):
    assert checkout.run(TMPDIR="/dev/shm/kcc-one") == RAN
    assert checkout.run(TMPDIR="/dev/shm/kcc-two") == SKIPPED
    assert checkout.run(TMPDIR="/dev/shm/other") == RAN


def test_arguments_and_libraries_count(checkout):
    library = checkout.folder / "build/library.so"
    words = ["--with", library, checkout.program, "--more"]
    assert checkout.run(*words) == RAN and checkout.run(*words) == SKIPPED
    assert checkout.run() == SKIPPED, "other arguments are another test"
    library.write_text("changed\n")
    assert checkout.run(*words) == RAN


def test_a_failure_is_never_passed_over(checkout):
    checkout.write("exit 3")
    assert checkout.run() == 3 and checkout.run() == 3
    checkout.write("kill -9 $$")
    assert checkout.run() == 137 and checkout.run() == 137
    checkout.write("exit 0")
    assert checkout.run() == RAN, "although this very program passed before it failed"


def test_a_file_that_changes_during_the_run_is_not_what_passed(checkout):
    checkout.write(f"echo more >>{checkout.folder}/tests/data")
    assert checkout.run() == RAN and checkout.run() == RAN


def test_without_git_it_always_runs(checkout):
    shutil.rmtree(checkout.folder / ".git")
    assert checkout.run(GIT_CEILING_DIRECTORIES=str(checkout.folder.parent)) == RAN
    assert checkout.run(GIT_CEILING_DIRECTORIES=str(checkout.folder.parent)) == RAN
