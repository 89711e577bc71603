#!/usr/bin/env python3
"""Fails where a header of ours does not compile by itself, so that no source depends on what it included before.

  tools/check_headers.py BUILD     BUILD: configured by clang, each source compiled by itself

A header x.h that x.cc or x_test.cc includes first is compiled so by the build, and not again here. Every other
one is compiled here, as the nearest source would be. What compiled is not looked at again until the header,
one of ours that it includes or the way it is compiled changes.

Left out, and why:
- *-inl.h: Highway includes them once for each vector width, inside the source that names itself to Highway.
- *.cuh: device code needs nvcc, and is compiled by the preset cuda.
"""

import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

FOLDERS = ("kcc", "apps", "bench", "fuzz", "include", "tests")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"\n]+)[>"]', re.M)


class Headers:
    def __init__(self, root, build):
        self.root = pathlib.Path(root).resolve()
        self.stamps = self.root / build / "headers"
        entries = json.loads((self.root / build / "compile_commands.json").read_text())
        named = {os.path.relpath(entry["file"], self.root): entry for entry in entries}
        self.entries = {source: entry for source, entry in named.items() if source.endswith(".cc")}
        self.compiler = subprocess.run(["clang++", "--version"], capture_output=True, text=True, check=True).stdout

    def headers(self):
        for folder in FOLDERS:
            for path in sorted((self.root / folder).rglob("*.h")):
                if not path.name.endswith("-inl.h"):
                    yield path.relative_to(self.root).as_posix()

    def is_built_first(self, header):
        stem = header.removesuffix(".h")
        for source in (f"{stem}.cc", f"{stem}_test.cc"):
            if source in self.entries:
                first = INCLUDE.search((self.root / source).read_text(encoding="utf-8"))
                if first and first.group(1) == header:
                    return True
        return False

    def command(self, header):
        """How the nearest source is compiled, for a text from standard input that is only looked at."""
        nearest = max(self.entries, key=lambda source: len(os.path.commonprefix([source, header])))
        words = shlex.split(self.entries[nearest]["command"])
        words = words[next(i for i, word in enumerate(words) if os.path.basename(word).startswith("clang++")) :]
        out = words.index("-o")
        return [*words[:out], "-fsyntax-only", "-x", "c++", "-"], self.entries[nearest]["directory"]

    def digest(self, command, files):
        sha = hashlib.sha256(self.compiler.encode() + "\0".join(command).encode())
        for file in files:
            path = self.root / file
            sha.update(b"\0" + file.encode() + b"\0" + (path.read_bytes() if path.is_file() else b""))
        return sha.hexdigest()

    def look(self, header):
        """What the compiler says of the header: "", and a stamp, if nothing; None if the stamp of before holds."""
        command, directory = self.command(header)
        stamp = self.stamps / f"{header.replace('/', '-')}.json"
        if stamp.is_file():
            noted = json.loads(stamp.read_text())
            if noted["digest"] == self.digest(command, noted["files"]):
                return None
        listing = stamp.with_suffix(".d")
        done = subprocess.run([*command, "-MMD", "-MF", listing, "-MT", "x"], cwd=directory, text=True, check=False,
                              input=f'#include "{header}"\n', capture_output=True)  # fmt: skip
        if done.returncode != 0:
            return f"{header} does not compile by itself:\n{done.stderr.strip()}"
        paths = listing.read_text().replace("\\\n", " ").split()[1:]
        inside = [pathlib.Path(path) for path in paths if path.startswith(f"{self.root}/")]
        files = sorted(path.relative_to(self.root).as_posix() for path in inside)
        stamp.write_text(json.dumps({"digest": self.digest(command, files), "files": files}))
        return ""

    def check(self):
        """(what was found, headers, how many of them were compiled now)"""
        self.stamps.mkdir(exist_ok=True)
        headers = list(self.headers())
        alone = [header for header in headers if not self.is_built_first(header)]
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            said = list(pool.map(self.look, alone))
        return [text for text in said if text], len(headers), sum(text is not None for text in said)


def main():
    problems, headers, looked = Headers(pathlib.Path(__file__).resolve().parent.parent, sys.argv[1]).check()
    for problem in problems:
        print(problem)
    print(f"{headers} headers, {looked} compiled now, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
