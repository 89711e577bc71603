"""The names that libkcc.so gives are those in exports.txt: one that is gone breaks programs, one that is new is a promise."""

import os
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("KCC_BUILD", ROOT / "build" / "release"))


def test_the_library_exports_the_listed_names():
    listing = subprocess.run(["nm", "-D", "--defined-only", BUILD / "kcc/api/libkcc.so.1"], capture_output=True, text=True,
                             check=True).stdout  # fmt: skip
    found = [line.split() for line in listing.splitlines()]
    names = sorted(name for _, kind, name in found if kind != "A")
    assert all(name.endswith("@@KCC_1") for name in names)
    listed = (ROOT / "tests/capi/exports.txt").read_text().split()
    assert [name.removesuffix("@@KCC_1") for name in names] == listed


def test_the_header_declares_the_listed_names():
    header = re.sub(r"/\*.*?\*/", "", (ROOT / "include/kcc.h").read_text(), flags=re.S)
    declared = sorted(re.findall(r"KCC_API[^;(]*?(kcc_\w+)\s*\(", header))
    assert declared == (ROOT / "tests/capi/exports.txt").read_text().split()
