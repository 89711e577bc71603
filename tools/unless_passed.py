#!/usr/bin/env python3
"""Runs a test program, unless it passed before with nothing changed that could change its outcome.

    tools/unless_passed.py [--with FILE]... PROGRAM [ARGUMENT]...

That is: the program's own bytes (kcc's modules are linked into it) and those of each FILE, a library that it loads; the
arguments and the variables that tests read; every file of the checkout but C++ sources, of which programs are made, the tests
of pytest, and pages but those of PAGES; and the packages of the system. Then it says so and ends with exit code 77, which
ctest calls skipped. FRESH=1 or CI in the environment: it always runs. A program that failed, or was ended, is run again.
"""

import argparse
import hashlib
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
SOURCES = (".cc", ".h", ".cu", ".cuh")
# Pages that tests of C++ name; tests/tools/test_unless_passed.py compares.
PAGES = ("README.md", "docs/gpu.md", "docs/math.md", "docs/report.md", "docs/servers.md")
PACKAGES = "/var/lib/dpkg/status"
SKIPPED = 77


def decides(name):
    """Whether a test, or what it is built with, may read the variable."""
    names = ("PATH", "TZ", "LANG", "TMPDIR", "USER", "HOME")
    starts = ("KCC_", "RC_", "GTEST_", "LC_", "LD_", "OPENSSL_", "SSL_", "PG", "OMP_")
    return name in names or name.startswith(starts) or name.endswith("SAN_OPTIONS")


def stamp_of(path):
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return f"{path} gone"
    return f"{path} {found.st_size} {found.st_mtime_ns} {found.st_mode}"


def shown(name, value):
    """tools/in_memory.sh names a new folder in memory for each run."""
    return "in memory" if name == "TMPDIR" and value.startswith("/dev/shm/kcc-") else value


def may_read(name):
    """Whether a program of C++ may read the file of the checkout."""
    last = name.rpartition("/")[2]
    if name.endswith(SOURCES) or (name.startswith("tests/") and last.startswith(("test_", "conftest.")) and last.endswith(".py")):
        return False
    return name in PAGES or not name.endswith(".md")


def digest(options):
    """Nothing where git does not know the checkout's files: then the program always runs."""
    # Tracked or new: what git ignores is built, and no test reads it but what the options name.
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True,
                            text=True, check=False)  # fmt: skip
    if listed.returncode != 0:
        return None
    sha = hashlib.sha256()
    for file in (options.program, *options.files):
        sha.update(pathlib.Path(file).read_bytes())
    sha.update(repr(options.arguments).encode())
    sha.update(repr((os.getuid(), sorted((name, shown(name, value)) for name, value in os.environ.items() if decides(name)))).encode())
    files = sorted(name for name in set(listed.stdout.split("\0")) if name and may_read(name))
    for line in (stamp_of(PACKAGES), *(stamp_of(ROOT / name) for name in files)):
        sha.update(line.encode() + b"\n")
    return sha.hexdigest()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--with", dest="files", action="append", default=[])
    parser.add_argument("program")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    name = hashlib.sha256(repr(options.arguments).encode()).hexdigest()[:8]
    stamp = pathlib.Path(f"{options.program}.passed-{name}")
    found = digest(options)
    fresh = os.environ.get("FRESH") or os.environ.get("CI")
    if found and not fresh and stamp.exists() and stamp.read_text() == found:
        print("passed before, and nothing has changed since; FRESH=1 runs it again")
        return SKIPPED
    stamp.unlink(missing_ok=True)
    code = subprocess.run([options.program, *options.arguments], check=False).returncode
    if code == 0 and found and digest(options) == found:  # else a file was changed meanwhile
        stamp.write_text(found)
    if code == SKIPPED:  # its own word for something else
        return 1
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
