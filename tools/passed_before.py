"""pytest, as tools/unless_passed.py for programs: with --unless-passed, test files that passed before are left out.

A file is left out as long as nothing has changed that its tests could depend on: the file itself, the conftests and helpers
that it names, what the build made of C++, the data and the Python package of the checkout, Python's and the system's packages,
and the variables that tests read. What few tests read (pages, C++ sources, the tests of other folders) counts for those which
name such a thing, or have a helper that does; a file of a kind that is not known here counts for all. What failed, was skipped
or did not run whole is run again. FRESH=1 or CI in the environment: all run.
"""

import ast
import collections
import functools
import hashlib
import os
import pathlib
import re
import subprocess
import sys

import pytest
import unless_passed

ROOT = pathlib.Path(__file__).resolve().parents[1]
# What tests run and load of a build, below its folder.
BUILT = ("apps/kcc/kcc", "kcc/api/libkcc.so.1", "tests/kcc_report_sample_files", "tests/kcc_train_gradients",
         "tests/device/libkcc_cuda.so", "cmake_install.cmake")  # fmt: skip
# Folders that few tests read: what is in them counts for a test that names it, or has a helper that does.
NAMED = ("docs", "kcc", "apps", "include", "web", "cmake", "bench", "fuzz", ".ci", "tools", "tests")
PATH = re.compile(rf"""(?<![\w.-])({"|".join(map(re.escape, NAMED))})(?=["'/])((?:["']?\s*/\s*f?["']?[\w.-]+)*)(.?.?)""")
VERSION = re.compile(r"kcc/v1\b")  # an apiVersion is no path
# Files that nobody can name: then all count.
EVERYTHING = re.compile(r"""ROOT\.(r?glob|iterdir)|\(ROOT, |ROOT / [a-z]\w*\b(?!")|ls-files|git archive|["'](git|make|cmake|ctest|ninja)["'],""")


def names_in(text, is_python):
    """What a file's text imports, and every word of it that has an ending."""
    names = set(re.findall(r"[\w-]+\.(?:py|sh|c)\b", text))
    if is_python:
        try:
            tree = ast.parse(text)
        except SyntaxError:  # it will not pass
            return names
        for node in ast.walk(tree):
            modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            modules += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names |= {f"{module.split('.')[0]}.py" for module in modules}
    return names


class Inputs:
    """What the tests of a checkout depend on, as it is now."""

    def __init__(self, root):
        self.root = root
        # Tracked or new: what git ignores is built, and named in BUILT.
        listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=root,
                                capture_output=True, text=True, check=True)  # fmt: skip
        names = sorted({name for name in listed.stdout.split("\0") if name})
        self.files = [pathlib.PurePosixPath(name) for name in names]
        self.index = collections.defaultdict(set)  # by the first parts of a path: all of them make the file itself
        for path in self.files:
            for count in range(1, len(path.parts) + 1):
                self.index[path.parts[:count]].add(path)
        self.helpers = collections.defaultdict(list)  # by name: what tests import, start or compile
        for path in self.files:
            if path.parts[0] in ("tests", "tools", "bench") and path.suffix in (".py", ".sh", ".c"):
                self.helpers[path.name].append(path)

        self.always = frozenset(path for path in self.files if path.parts[0] not in NAMED and len(path.parts) > 1)

    def tests(self):
        return [path for path in self.files if is_test(path) and (self.root / path).exists()]

    @functools.cache
    def text(self, path):
        return (self.root / path).read_bytes().decode(errors="replace") if (self.root / path).exists() else ""

    @functools.cache
    def names(self, path):
        return names_in(self.text(path), path.suffix == ".py")

    @functools.cache
    def digest(self, path):
        full = self.root / path
        if full.is_symlink() or not full.is_file():
            return f"{path} {os.readlink(full) if full.is_symlink() else None}\n".encode()
        return f"{path} {hashlib.sha256(full.read_bytes()).hexdigest()} {full.stat().st_mode}\n".encode()

    def with_helpers(self, start):
        """The files, and the helpers that they name, and those that these name."""
        found, open_ = set(), list(start)
        while open_:
            path = open_.pop()
            if path not in found:
                found.add(path)
                open_ += [helper for name in self.names(path) for helper in self.helpers.get(name, ())]
        return found

    @functools.cache
    def shared(self):
        return self.with_helpers(path for path in self.files if path.parts[0] == "tests" and len(path.parts) == 2 and path.suffix == ".py")

    @functools.cache
    def named(self, path):
        """The files that a file's text names, and those below the folders that it names."""
        text, found = VERSION.sub("", self.text(path)), set()
        if path.parts[0] == "tests" and re.search(r"parents\[1\]|parent\.parent", text):
            found |= self.below(("tests",))
        for top, rest, behind in PATH.findall(text):
            parts = (top, *re.findall(r"[\w.-]+", re.sub(r"/\s*f[\"']", "/", rest)))
            if behind[:1] in ("{", "*", "$", "%", "?"):  # half a name
                parts = parts[:-1] if rest and not rest.rstrip().endswith("/") else parts
            while len(parts) > 1 and not self.below(parts):
                parts = parts[:-1]
            found |= self.below(parts)
        # The files of the first folder, by their names without an ending.
        return found | {file for file in self.files if len(file.parts) == 1 and file.name.partition(".")[0] and
                        re.search(rf"\b{file.name.partition('.')[0]}\b", text)}  # fmt: skip

    def below(self, parts):
        return self.index.get(parts, frozenset())

    def of(self, test):
        """The files of the checkout that count for the tests of one file."""
        shared = self.shared()
        conftests = [path for path in self.helpers["conftest.py"] if len(path.parts) > 2 and path.parent in test.parents]
        # What all tests share is not looked at for names: tests/conftest.py has more than a test of its fixtures reads.
        own = self.with_helpers([test]) | (self.with_helpers(conftests) - shared)
        if any(EVERYTHING.search(self.text(path)) for path in own):
            return self.files
        # Its own folder and the data that all share, but for other tests.
        beside = {path for path in self.below(test.parent.parts) if not is_test(path)} | self.below(("tests", "data"))
        return sorted(own | shared | beside | self.always | frozenset().union(*map(self.named, own)))

    @functools.cache
    def surroundings(self, options):
        """What counts for every test and is no file of the checkout."""
        program = pathlib.Path(os.environ.get("KCC_BINARY", self.root / "build/kcc")).resolve()
        build = pathlib.Path(os.environ.get("KCC_BUILD", self.root / "build/release"))
        built = [str(hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else None) for file in
                 [program, *(build / name for name in BUILT), *sorted((self.root / "build").glob("*/libkcc_cuda.so"))]]  # fmt: skip
        installed = sorted(found.name for place in sys.path if place.endswith("site-packages") and os.path.isdir(place)
                           for found in os.scandir(place))  # fmt: skip
        variables = sorted((name, unless_passed.shown(name, value)) for name, value in os.environ.items()
                           if unless_passed.decides(name) or name.startswith(("PYTHON", "HF_")))  # fmt: skip
        return repr((options, os.getuid(), sys.version, built, installed, unless_passed.stamp_of(unless_passed.PACKAGES), variables))

    def key(self, test, options):
        sha = hashlib.sha256(self.surroundings(options).encode())
        for path in self.of(test):
            sha.update(self.digest(path))
        return sha.hexdigest()


def is_test(path):
    return path.parts[0] == "tests" and path.suffix == ".py" and path.name.startswith("test_")


def pytest_addoption(parser):
    parser.addoption("--unless-passed", action="store_true", help="leave out test files that passed before, if nothing has changed")


class PassedBefore:
    """In the process that is started: says which files are left out, and keeps what passed in build/passed."""

    def __init__(self, config, root=ROOT):
        self.root, self.folder, self.options = root, root / "build/passed", config.option.markexpr
        self.inputs = Inputs(root)
        self.keys = self.now(self.inputs)
        self.left_out = [str(test) for test, key in self.keys.items() if self.stamp(test).exists() and self.stamp(test).read_text() == key]
        self.expected = collections.Counter()  # tests, by file
        self.passed, self.failed = collections.defaultdict(set), set()

    def now(self, inputs):
        return {test: inputs.key(test, self.options) for test in inputs.tests()}

    def stamp(self, test):
        return self.folder / str(test).replace("/", "-")

    def pytest_configure_node(self, node):
        node.workerinput["left_out"] = self.left_out

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node, ids):
        self.expected = collections.Counter(name.split("::")[0] for name in ids)

    def pytest_collection_finish(self, session):
        if session.items:
            self.expected = collections.Counter(item.nodeid.split("::")[0] for item in session.items)

    def pytest_runtest_logreport(self, report):
        file = report.nodeid.split("::")[0]
        if report.outcome == "passed" or hasattr(report, "wasxfail"):
            if report.when == "call":
                self.passed[file].add(report.nodeid)
        else:
            self.failed.add(file)

    def pytest_sessionfinish(self, session, exitstatus):
        if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and self.left_out:
            session.exitstatus = pytest.ExitCode.OK
        self.folder.mkdir(parents=True, exist_ok=True)
        after = self.now(Inputs(self.root))
        for test, key in self.keys.items():
            name = str(test)
            if name in self.expected or name in self.failed:
                whole = len(self.passed[name]) == self.expected[name] and name not in self.failed
                self.stamp(test).unlink(missing_ok=True)
                if whole and after.get(test) == key:  # else a file was changed meanwhile
                    self.stamp(test).write_text(key)

    def pytest_terminal_summary(self, terminalreporter):
        if self.left_out:
            terminalreporter.section(f"{len(self.left_out)} of {len(self.keys)} test files LEFT OUT")
            terminalreporter.line("They passed before, and nothing that they read has changed since; FRESH=1 runs them all.")


def pytest_configure(config):
    if hasattr(config, "workerinput"):
        config.left_out = {str(ROOT / name) for name in config.workerinput.get("left_out", ())}
        return
    config.left_out = set()
    # Of part of a file's tests nothing is kept, and none is left out.
    part = config.option.keyword or config.option.deselect or any("::" in word for word in config.args)
    if config.getoption("--unless-passed") and not part and not (os.environ.get("FRESH") or os.environ.get("CI")):
        try:
            plugin = PassedBefore(config)
        except (OSError, subprocess.CalledProcessError):  # git does not know the files: all run
            return
        config.left_out = {str(ROOT / name) for name in plugin.left_out}
        config.pluginmanager.register(plugin)


def pytest_ignore_collect(collection_path, config):
    return True if str(collection_path) in config.left_out else None
