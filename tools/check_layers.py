#!/usr/bin/env python3
"""Fails where the code does not keep to its layers.

Every folder under kcc/ is one CMake target, `kcc_module(name DEPS ...)`. The rules, each of which
tests/tools/test_layers.py breaks on purpose:

- A file includes its own folder and the folders in DEPS, nothing else of ours. Includes that are
  relative or that a macro names are resolved first.
- DEPS point back along KCC_MODULES of CMakeLists.txt, so that no cycle can be declared. What a
  folder links is what it declares, and what it declares it includes.
- Of another folder only the headers are included that its kcc_module lists: PUBLIC for everyone,
  PUBLIC_TO_TESTS for tests, benchmarks and fuzzing alone. Every other header is private to its folder.
  A listed header exists, is listed once, and has a user of its kind outside, so that lists stay short.
- kcc/ knows nothing of apps/, bench/, fuzz/ and tests/, and holds no program. Tests beside the code
  may use what tests/ shares.
- A library is included from the folders that are listed for it, a test library from tests.
- Pure folders do no input or output and read no clock, no environment and no randomness.
- No source has more than 500 lines.
- No text that is the id of a quantity, or a metric of it, is compared with: a column of the catalog
  says what tells quantities apart.
"""

import pathlib
import posixpath
import re
import sys

# Header prefix -> the folders that may include it. A header of no library and no system is a fault.
LIBRARIES = {
    "yaml-cpp/": {"kcc/contract", "bench", "fuzz"},
    "hwy/": {"kcc/numeric", "kcc/drift", "kcc/rl", "bench"},
    "simdjson": {"kcc/format", "kcc/trace", "kcc/summary", "kcc/report", "kcc/kernel", "kcc/lab", "kcc/serve", "kcc/rl", "kcc/api",
                 "kcc/register", "kcc/monitorlog", "kcc/gateway", "kcc/rescore", "kcc/control", "fuzz", "tests"},
    "tl/": {"kcc/base", "kcc/contract"},
    "openssl/": {"kcc/base", "kcc/statement", "kcc/plane"},
    "curl/": {"kcc/kernel", "fuzz"},
    "sqlite3": {"kcc/register"},
    "libpq-fe": {"kcc/register"},
    "boost/": {"kcc/serve", "kcc/plane"},
    "CLI/": {"apps"},
    "cuda": {"kcc/drift", "bench"},
    "cooperative_groups": {"kcc/drift"},
}  # fmt: skip
TEST_LIBRARIES = ("gtest/", "gmock/", "rapidcheck")
SYSTEM = re.compile(
    r"(sys/\w+|unistd|fcntl|poll|pthread|spawn|dirent|dlfcn|execinfo|regex|signal|sched|malloc|termios"
    r"|arpa/inet|netinet/\w+|linux/\w+|immintrin|cpuid"
    r"|assert|errno|float|inttypes|limits|math|stdarg|stdbool|stddef|stdint|stdio|stdlib|string|time)\.h"
)
STANDARD = re.compile(r"[a-z_0-9]+")  # of C++: <vector>

PURE = ("numeric", "stats", "metric", "predicate", "drift", "bounds", "judge", "monitor", "author", "measure")
# What a pure folder does not write, and what it is.
IMPURE = {
    r"\b(fopen|freopen|fread|fwrite|fputs|fprintf|printf|puts)\s*\(": "input or output",
    r"\bstd::(cin|cout|cerr|clog|filesystem|ifstream|ofstream|fstream)\b": "input or output",
    r'#\s*include\s*[<"](unistd\.h|fcntl\.h|sys/\w+\.h|fstream|iostream|filesystem|dirent\.h)': "input or output",
    r'#\s*include\s*"kcc/base/(file|temporary|directory|descriptor)\.h"': "input or output",
    r"\b(secure_)?getenv\s*\(": "the environment",
    r"\b(system_clock|steady_clock|high_resolution_clock|clock_gettime|gettimeofday)\b": "a clock",
    r"\bstd::random_device\b|\bgetrandom\s*\(|\bs?rand\s*\(": "randomness",
}

CATALOG = "kcc/metric/catalog.cc"
ID = re.compile(r'\.id = "(\w+)"')
# The catalog itself, and kcc/rl: there "k1" is a word of a framework's options.
MAY_COMPARE = ("metric", "rl")

OUTSIDE = ("apps", "bench", "fuzz", "tests", "python")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:([<"])([^>"\n]+)[>"]|(\w+))', re.M)
DEFINE = r'^[ \t]*#[ \t]*define[ \t]+{}[ \t]+[<"]([^>"\n]+)[>"]'
MODULE = re.compile(r"kcc_module\(\s*(\w+)([^)]*)\)", re.S)
LINK = re.compile(r"target_link_libraries\(\s*(\S+)([^)]*)\)", re.S)
TEST_FILE = re.compile(r"_(test|test_data|test_server|gen)$")  # and what tests alone share
LINES_MAX = 500
HEADER_LISTS = ("PUBLIC", "PUBLIC_TO_TESTS")
PROGRAM = re.compile(r"^\s*int\s+main\s*\(", re.M)


def without_comments(text):
    """The same lines, without comments and the contents of texts; lines of the preprocessor stay."""

    def blank(match):
        found = match.group(0)
        if found.startswith("/"):
            return "\n" * found.count("\n")
        return found if match.group("directive") else '""' + "\n" * found.count("\n")

    pattern = (r'(?P<directive>^[ \t]*#[^\n]*)|//[^\n]*|/\*.*?\*/|R"(?P<end>[^(\n]*)\(.*?\)(?P=end)"'
               r'|"(?:\\.|[^"\\\n])*"')  # fmt: skip
    return re.sub(pattern, blank, text, flags=re.S | re.M)


def without_remarks(text):
    """The same lines, without comments."""
    return re.sub(r'("(?:\\.|[^"\\\n])*")|//[^\n]*|/\*.*?\*/',
                  lambda match: match.group(1) or "\n" * match.group(0).count("\n"), text, flags=re.S)  # fmt: skip


def words_after(words, keyword):
    """The words of a CMake call between a keyword and the next one."""
    if keyword not in words:
        return []
    following = words[words.index(keyword) + 1 :]
    end = next((i for i, word in enumerate(following) if re.fullmatch(r"[A-Z_]+", word)), len(following))
    return following[:end]


class Layers:
    def __init__(self, root):
        self.root = pathlib.Path(root)
        self.problems = []
        self.files = 0
        listing = (self.root / "CMakeLists.txt").read_text()
        self.order = re.search(r"set\(KCC_MODULES ([^)]*)\)", listing).group(1).split()
        self.declared = {}  # folder -> the folders it may include
        self.included = {}  # folder -> the folders that it does include
        self.listed = {}  # header -> the list it is in; a header of kcc/ that is in none is private
        self.used = {which: set() for which in HEADER_LISTS}  # headers used outside, by product code and by tests
        catalog = self.root / CATALOG
        ids = ID.findall(catalog.read_text()) if catalog.exists() else []
        name = rf'"(?:[a-z0-9]+_)?(?:train_)?(?:{"|".join(ids)})"'
        self.compares = re.compile(rf"[!=]=\s*{name}|{name}\s*[!=]=") if ids else None

    def fault(self, place, what):
        self.problems.append(f"{place}: {what}")

    def read_modules(self):
        for folder in sorted(path for path in (self.root / "kcc").iterdir() if path.is_dir()):
            place = f"kcc/{folder.name}/CMakeLists.txt"
            listing = folder / "CMakeLists.txt"
            text = re.sub(r"#[^\n]*", "", listing.read_text()) if listing.exists() else ""
            match = MODULE.search(text)
            if not match or match.group(1) != folder.name:
                self.fault(place, f"no kcc_module({folder.name} ...)")
                continue
            words = match.group(2).split()
            deps = words_after(words, "DEPS")
            for dep in deps:
                if dep not in self.order or folder.name not in self.order:
                    self.fault(place, f"{dep} or itself is not in KCC_MODULES")
                elif self.order.index(dep) >= self.order.index(folder.name):
                    self.fault(place, f"depends on {dep}, which comes later")
            self.declared[folder.name] = set(deps)
            self.included[folder.name] = set()
            for which in HEADER_LISTS:
                self.read_headers(place, folder.name, which, words_after(words, which))
        for name in self.declared:
            self.check_build(name)

    def read_headers(self, place, name, which, headers):
        for header in headers:
            path = f"kcc/{name}/{header}"
            if not (self.root / path).exists():
                self.fault(place, f"lists {header}, which does not exist")
            elif path in self.listed:
                self.fault(place, f"lists {header} twice")
            else:
                self.listed[path] = which

    def check_build(self, name):
        """What the build files of a folder link, and from where they take sources."""
        for listing in sorted((self.root / "kcc" / name).rglob("CMakeLists.txt")):
            place = listing.relative_to(self.root).as_posix()
            text = re.sub(r"#[^\n]*", "", listing.read_text())
            for target, links in LINK.findall(text):
                for link in re.findall(r"\bkcc_(\w+)", links):
                    if link in self.declared and link != name and link not in self.declared[name]:
                        self.fault(place, f"{target} links kcc_{link}, which kcc/{name} did not declare")
            for top in re.findall(r"(?:\$\{(?:PROJECT|CMAKE)_SOURCE_DIR\}|\.\.)/(\w+)/", text):
                if top in OUTSIDE:
                    self.fault(place, f"takes sources from {top}/, which kcc/ must not know")

    def check_unused(self):
        for name, deps in self.declared.items():
            for dep in sorted(deps - self.included[name]):
                self.fault(f"kcc/{name}/CMakeLists.txt", f"declares {dep}, which no file there includes")
        for header, which in self.listed.items():
            if header not in self.used[which]:
                _, name, inside = header.split("/", 2)
                who = "product code" if which == "PUBLIC" else "test"
                self.fault(f"kcc/{name}/CMakeLists.txt", f"{inside} is {which}, but no {who} outside kcc/{name} includes it")

    def resolve(self, path, text, match):
        """The header an #include names, from the root where it is ours; None and a fault if nobody can tell."""
        header, macro = match.group(2), match.group(3)
        if macro:
            found = re.search(DEFINE.format(re.escape(macro)), text, re.M)
            if not found:
                self.fault(self.place(path, text, match), f"includes {macro}, which no macro of this file names")
                return None
            header = found.group(1)
        if match.group(1) == "<":
            return header
        beside = (path.parent / header).resolve()
        if beside.is_file() and not (self.root / header).is_file() and beside.is_relative_to(self.root.resolve()):
            return beside.relative_to(self.root.resolve()).as_posix()
        return posixpath.normpath(header)

    def place(self, path, text, match):
        return f"{path.relative_to(self.root).as_posix()}:{text.count(chr(10), 0, match.end()) + 1}"

    def check_private(self, place, header, is_product):
        """An include from outside the header's folder."""
        which = self.listed.get(header)
        self.used["PUBLIC" if is_product else "PUBLIC_TO_TESTS"].add(header)
        if which is None:
            self.fault(place, f"includes {header}, which is private to its folder")
        elif which == "PUBLIC_TO_TESTS" and is_product:
            self.fault(place, f"includes {header}, which is public to tests only")

    def check_ours(self, place, own, header, is_test, is_product):
        parts = header.split("/")
        if parts[0] == "kcc" and len(parts) > 2:
            if not (self.root / header).exists():
                self.fault(place, f"{header} does not exist")
                return
            declares = own is None or parts[1] == own or parts[1] in self.declared[own]
            if declares and parts[1] != own and parts[1] in self.declared:
                self.check_private(place, header, is_product)
            if own:
                self.included[own].add(parts[1])
                if not declares:
                    self.fault(place, f"kcc/{own} includes {header}, but did not declare {parts[1]}")
        elif own and parts[0] in OUTSIDE and len(parts) > 1 and not (is_test and parts[0] == "tests"):
            self.fault(place, f"kcc/ includes {header}, but must not know {parts[0]}/")

    def check_library(self, place, relative, header, is_test):
        if header.startswith(TEST_LIBRARIES):
            if not is_test:
                self.fault(place, f"{header} belongs into tests")
            return
        for prefix, folders in LIBRARIES.items():
            if header.startswith(prefix):
                if not any(relative.startswith(folder + "/") for folder in folders):
                    self.fault(place, f"{header} may be included from {', '.join(sorted(folders))} only")
                return
        if not STANDARD.fullmatch(header) and not SYSTEM.fullmatch(header):
            self.fault(place, f"{header} is of a library that is not listed in tools/check_layers.py")

    def check_file(self, path):
        self.files += 1
        relative = path.relative_to(self.root).as_posix()
        parts = relative.split("/")
        own = parts[1] if parts[0] == "kcc" and parts[1] in self.declared else None
        is_test = TEST_FILE.search(path.stem) is not None or parts[0] == "tests"
        text = path.read_text(encoding="utf-8")
        if text.count("\n") > LINES_MAX:
            self.fault(relative, f"has {text.count(chr(10))} lines, more than {LINES_MAX}: it holds more than one concept")
        code = without_comments(text)
        for_tests = is_test or text.startswith("// For tests")
        product = parts[0] in ("kcc", "apps") and not for_tests
        for match in INCLUDE.finditer(code):
            header = self.resolve(path, code, match)
            place = self.place(path, code, match)
            if header is None:
                continue
            if header.startswith(("kcc/", "include/", *(top + "/" for top in OUTSIDE))):
                self.check_ours(place, own, header, is_test, product)
            else:
                self.check_library(place, relative, header, is_test or parts[0] == "bench")
        if product and own not in MAY_COMPARE and self.compares:
            words = without_remarks(text)
            for match in self.compares.finditer(words):
                self.fault(self.place(path, words, match), "decides by the name of a quantity, and a column of "
                           + f"{CATALOG} should: {match.group(0)}")  # fmt: skip
        if own and not is_test:
            if PROGRAM.search(code):
                self.fault(relative, "is a program, and kcc/ holds none")
            if own in PURE:
                for pattern, what in IMPURE.items():
                    for match in re.finditer(pattern, code):
                        self.fault(self.place(path, code, match), f"kcc/{own} is pure, and this is {what}: "
                                   + match.group(0).strip())  # fmt: skip

    def check(self):
        self.read_modules()
        for top in ("kcc", "apps", "bench", "fuzz", "tests"):
            for pattern in ("*.h", "*.cc", "*.cu", "*.cuh"):
                for path in sorted((self.root / top).rglob(pattern)):
                    self.check_file(path)
        self.check_unused()
        return self.problems


def main():
    layers = Layers(pathlib.Path(__file__).resolve().parent.parent)
    problems = layers.check()
    for problem in problems:
        print(problem)
    print(f"{layers.files} files, {len(layers.declared)} modules, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
