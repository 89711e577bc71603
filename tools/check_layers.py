#!/usr/bin/env python3
"""Fails on an #include that its folder did not declare.

Every folder under kcc/ is one CMake target, `kcc_module(name DEPS ...)`. A file there may include
its own folder and the folders in DEPS, nothing else of ours; libraries that belong to one place
(yaml-cpp, Highway, simdjson, OpenSSL, CLI11) may be included from that place only. DEPS must point
back along the order of CMakeLists.txt, so that no cycle can be declared either.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Library header prefix -> the folders that may include it.
OWNERS = {
    "yaml-cpp/": {"kcc/contract", "bench", "fuzz"},
    "hwy/": {"kcc/numeric", "kcc/drift", "kcc/rl", "bench"},
    "simdjson": {"kcc/trace", "kcc/summary", "kcc/report", "kcc/kernel", "kcc/lab", "kcc/rl",
                 "kcc/api"},
    "openssl/": {"kcc/base"},
    "curl/": {"kcc/kernel"},
    "CLI/": {"apps"},
    "torch/": {"kcc/lab"},
    "boost/": {"kcc/gateway", "kcc/registry"},
}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)
MODULE = re.compile(r"kcc_module\(\s*(\w+)([^)]*)\)", re.S)


def declared_dependencies(order, problems):
    """Folder name -> the folders it may include."""
    allowed = {}
    for folder in sorted((ROOT / "kcc").iterdir()):
        listing = folder / "CMakeLists.txt"
        if not folder.is_dir():
            continue
        if not listing.exists():
            problems.append(f"kcc/{folder.name}: has no CMakeLists.txt with kcc_module()")
            continue
        match = MODULE.search(listing.read_text())
        if not match or match.group(1) != folder.name:
            problems.append(f"kcc/{folder.name}/CMakeLists.txt: no kcc_module({folder.name} ...)")
            continue
        words = match.group(2).split()
        deps = set()
        if "DEPS" in words:
            for word in words[words.index("DEPS") + 1 :]:
                if word.isupper():
                    break
                deps.add(word)
        for dep in sorted(deps):
            if dep not in order or folder.name not in order:
                problems.append(f"kcc/{folder.name}: {dep} or itself is not in KCC_MODULES")
            elif order.index(dep) >= order.index(folder.name):
                problems.append(f"kcc/{folder.name}: depends on {dep}, which comes later")
        allowed[folder.name] = deps
    return allowed


def check_file(path, allowed, problems):
    relative = path.relative_to(ROOT).as_posix()
    parts = relative.split("/")
    own = parts[1] if parts[0] == "kcc" else None
    text = path.read_text(encoding="utf-8")
    for match in INCLUDE.finditer(text):
        line = text.count("\n", 0, match.start(2)) + 1
        header = match.group(2)
        if header.startswith("kcc/"):
            target = header.split("/")[1]
            if own and target != own and target not in allowed.get(own, set()):
                problems.append(
                    f"{relative}:{line}: kcc/{own} includes {header}, but did not declare {target}"
                )
            if not (ROOT / header).exists():
                problems.append(f"{relative}:{line}: {header} does not exist")
        for prefix, owners in OWNERS.items():
            if header.startswith(prefix) and not any(
                relative.startswith(owner + "/") for owner in owners
            ):
                places = ", ".join(sorted(owners))
                problems.append(f"{relative}:{line}: {header} may be included from {places} only")


def main():
    problems = []
    listing = (ROOT / "CMakeLists.txt").read_text()
    order = re.search(r"set\(KCC_MODULES ([^)]*)\)", listing).group(1).split()
    allowed = declared_dependencies(order, problems)
    files = 0
    for top in ("kcc", "apps", "bench", "fuzz", "tests"):
        for pattern in ("*.h", "*.cc", "*.cu", "*.cuh"):
            for path in sorted((ROOT / top).rglob(pattern)):
                files += 1
                check_file(path, allowed, problems)
    for problem in problems:
        print(problem)
    print(f"{files} files, {len(allowed)} modules, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
