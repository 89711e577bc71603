#!/usr/bin/env python3
"""Lists the product .cc files with state or a protocol of which less than a share of the lines hold a comment.

  tools/comment_share.py [PERCENT]     default 8

A file has state if it changes members (names that end in _) in seven places or more; it has a protocol if it
uses threads, locks, processes, mappings or renames. Tests, benches and programs' tables are not asked.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
STATE_MIN = 7
CHANGE = re.compile(
    r"(?<![\w.>])[a-z]\w*_(?:\[[^\]]*\])?(?:\.\w+)?\s*"
    r"(?:[+\-*|&^]?=(?!=)|\.(?:push_back|emplace\w*|clear|resize|reserve|reset|insert|erase|pop\w*|append|assign|swap)\b"
    r"|\+\+|--)|(?:\+\+|--)[a-z]\w*_\b"
)
PROTOCOL = re.compile(
    r"std::(?:mutex|atomic<|condition_variable)|::(?:poll|fork|mmap|kill|waitpid|pipe2|renameat2|flock)\("
)


def measure(path):
    """(changes of state, uses of a protocol, lines with a comment, lines)"""
    lines = path.read_text(encoding="utf-8").splitlines()
    bare = [re.sub(r'"(?:[^"\\]|\\.)*"', '""', line) for line in lines]
    code = [line.partition("//")[0] for line in bare]
    changes = sum(len(CHANGE.findall(line)) for line in code)
    uses = sum(len(PROTOCOL.findall(line)) for line in code)
    return changes, uses, sum("//" in line for line in bare), len(lines)


def main():
    least = float(sys.argv[1]) if len(sys.argv) > 1 else 8.0
    asked = 0
    for path in sorted(ROOT.glob("kcc/**/*.cc")) + sorted(ROOT.glob("apps/**/*.cc")):
        changes, uses, comments, lines = measure(path)
        if path.name.endswith("_test.cc") or (changes < STATE_MIN and uses == 0):
            continue
        asked += 1
        share = 100 * comments / lines
        if share < least:
            print(f"{share:4.1f} %  {lines:4} lines  {path.relative_to(ROOT)}")
    print(f"{asked} files with state or a protocol")
    return 0


if __name__ == "__main__":
    sys.exit(main())
