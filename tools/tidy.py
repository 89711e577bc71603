#!/usr/bin/env python3
"""clang-tidy over our own sources; tests are left out, since gtest's macros are not ours.

Most of a small source's time goes into the headers it includes. So the sources that one build compiles as
one are looked at as one file, in which they stand one after another: a fifth of the time for the same
findings, and each finding is printed with the place it has in its source.

A group that was clean is not looked at again until a source of it, a header of ours that it includes, the
checks or the way it is compiled change. Which headers it includes is what the build noted; of a source that
was not built, every header counts.

  tools/tidy.py ALONE JOINED     ALONE: a build by clang that compiles each source by itself;
                                 JOINED: a build whose joined sources are the groups
"""

import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
FOLDERS = ("kcc/", "apps/", "bench/", "fuzz/")
# How many states of a function the analyzer looks at. clang's own 225,000 found nothing more in this code, and took
# twice as long for some sources.
STATES = 100_000


def tracked(*patterns):
    return subprocess.run(["git", "ls-files", *patterns], cwd=ROOT, capture_output=True, text=True,
                          check=True).stdout.split()  # fmt: skip


def commands(build):
    """Source, named from the checkout -> how the build compiles it. The first of several ways counts."""
    found = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        path = pathlib.Path(entry["file"])
        if path.is_relative_to(ROOT):
            found.setdefault(str(path.relative_to(ROOT)), entry)
    return found


def groups(joined, sources):
    """Lists of sources that `joined` compiles as one; every other source is a list by itself."""
    left = dict.fromkeys(sources)
    found = []
    for name in commands(joined):
        if "/joined/joined_" not in name:
            continue
        included = re.findall(r'^#include "(.+)"$', (ROOT / name).read_text(), re.MULTILINE)
        members = [member for member in included if member in left]
        for member in members:
            del left[member]
        if members:
            found.append(members)
    return found + [[source] for source in left]


def includes(alone):
    """Source -> the files of ours it includes, itself among them, as ninja noted them."""
    listing = subprocess.run(["ninja", "-C", alone, "-t", "deps"], capture_output=True, text=True, check=True)
    found = {}
    for block in listing.stdout.split("\n\n"):
        files = [os.path.normpath(os.path.join(alone, line.strip())) for line in block.splitlines()[1:]]
        ours = [os.path.relpath(file, ROOT) for file in files if file.startswith(f"{ROOT}/")]
        if ours:
            found[ours[0]] = ours
    return found


def nearest(source, entries):
    """How the source nearest to this one is compiled, with this one in its place: CUDA's are built elsewhere."""
    other = max(entries, key=lambda name: len(os.path.commonprefix([name, source])))
    path = str(ROOT / source)
    entry = entries[other]
    return {**entry, "file": path, "command": entry["command"].replace(entry["file"], path)}


class Group:
    """Sources one after another in one file, and the way back from its lines to theirs."""

    def __init__(self, members, work):
        self.members = members
        self.file = work / f"{members[0].replace('/', '-').removesuffix('.cc')}.cc"
        self.starts = []  # the line before a member's first, and the member
        text = ""
        for member in members:
            self.starts.append((text.count("\n"), member))
            text += (ROOT / member).read_text()
        self.file.write_text(text)

    def place(self, match):
        line = int(match[1])
        start, member = max(item for item in self.starts if item[0] < line)
        return f"{member}:{line - start}:"

    def in_sources(self, output):
        kept = [line for line in output.splitlines() if not re.fullmatch(r"\d+ warnings? generated\.", line)]
        return re.sub(rf"{re.escape(str(self.file))}:(\d+):", self.place, "\n".join(kept))


def digest_of(group, entry, ours, checks, headers):
    files = {group.members[0]: None}
    for member in group.members:
        files.update(dict.fromkeys(ours.get(member, [member, *headers])))
    sha = hashlib.sha256(checks.encode() + entry["command"].encode())
    for file in files:
        sha.update(file.encode() + b"\0" + (ROOT / file).read_bytes())
    return sha.hexdigest()


def look(group, entry, work, stamp):
    """What clang-tidy says of the group; nothing, and a stamp, if it is clean."""
    database = work / f"{group.file.stem}.db"
    database.mkdir(exist_ok=True)
    source = entry["file"]
    moved = {**entry, "file": str(group.file), "command": entry["command"].replace(source, str(group.file))}
    (database / "compile_commands.json").write_text(json.dumps([moved]))
    command = ["clang-tidy", "-p", database, "--quiet", f"--config-file={ROOT / '.clang-tidy'}",
               "--extra-arg=-Wno-unknown-warning-option", "--extra-arg=-Xclang", "--extra-arg=-analyzer-config",
               "--extra-arg=-Xclang", f"--extra-arg=max-nodes={STATES}", group.file]  # fmt: skip
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    said = group.in_sources(done.stdout + done.stderr).strip()
    if done.returncode == 0:
        stamp.write_text("\n".join(group.members))
        return ""
    return said or f"{group.members[0]}: clang-tidy ended with exit code {done.returncode}"


def main():
    alone, joined = (ROOT / name for name in sys.argv[1:3])
    work = alone / "tidy"
    work.mkdir(exist_ok=True)
    sources = [name for name in tracked(*(f"{folder}*.cc" for folder in FOLDERS)) if not name.endswith("_test.cc")]
    version = subprocess.run(["clang-tidy", "--version"], capture_output=True, text=True, check=True).stdout
    checks = f"{version}{STATES}" + (ROOT / ".clang-tidy").read_text()
    headers = tracked("*.h")
    entries, ours = commands(alone), includes(alone)
    for source in sources:
        entries.setdefault(source, nearest(source, entries))

    tasks = []
    for members in groups(joined, sources):
        group = Group(members, work)
        entry = entries[members[0]]
        stamp = work / digest_of(group, entry, ours, checks, headers)
        if not stamp.exists():
            tasks.append((group, entry, work, stamp))
    tasks.sort(key=lambda task: -len(task[0].members))  # the longest first
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for said in pool.map(lambda task: look(*task), tasks):
            if said:
                failed += 1
                print(said, flush=True)
    print(f"clang-tidy: {len(sources)} sources, {len(tasks)} groups looked at, {failed} with findings")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
