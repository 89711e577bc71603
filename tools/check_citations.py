#!/usr/bin/env python3
"""Resolves every citation of a page in comments, docstrings, messages and pages.

  docs/<page>.md           the page exists; with #anchor: so does the anchor
  docs/<page>.md "Heading" the page has that heading
  docs/math.md A.7, W3     each label is a heading of that page. Bare labels are checked too, on the
                           page itself and in files that cite it
  docs/design.md section 6 the page has a section 6
  [text](page.md#anchor)   in pages: the file exists, and so does the anchor
  README.md                a name in capitals is a file of the repository

A citation may go on in the next line of a comment. Prints FILE:LINE: what is wrong; exits with 1.
"""

import bisect
import functools
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = (
    "kcc apps bench fuzz tests python include tools docs adapters contracts examples policies cmake web".split()
)
FILES = ("*.md", "Makefile", "CMakeLists.txt")  # at the root
SUFFIXES = set(".h .cc .c .cpp .cu .cuh .py .pyi .sh .mjs .js .cmake .yaml .md".split())
LEFT_OUT = {"build", "node_modules", "__pycache__", "data", ".venv"}

LEADER = re.compile(r"^\s*(?://+|/?\*+|#+)?\s*")
LABEL = r"[A-E](?:\.\d+[a-z]?)?|W\d+"
LABEL_HEADING = re.compile(rf"({LABEL})\.? ")
FIRST_LABEL = re.compile(rf",? ({LABEL})\b")
DOTTED_LABEL = re.compile(r"(?<![\w.])([A-E]\.\d+[a-z]?)(?![\w])")
FURTHER_LABEL = re.compile(r"(?<![\w.])([A-E]\.\d+[a-z]?|W\d+)(?!\w)")
END_OF_CITATION = re.compile(r"[);\n]|\. |: ")
PAGE = re.compile(r"(?<![\w/.-])(docs/[\w./-]*?\.md)\b(?:#([\w-]+)| section (\d+)| \"([^\"\n]+)\")?")
CAPITALS = re.compile(r"(?<![\w/.-])((?:\.{1,2}/)*(?:[\w-]+/)*[A-Z][A-Z_-]+\.md)\b")
LINK = re.compile(r"\]\(([^)\s]+)\)")
FOREIGN_LABEL = re.compile(r"(?:paper|paper's|Section|section|Appendix) $")


def slug(heading):
    """The anchor that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def without_code(text):
    """Fences and inline code blanked, line by line."""
    lines, fence = [], False
    for line in text.split("\n"):
        if line.lstrip().startswith("```"):
            fence = not fence
            line = ""
        lines.append("" if fence else re.sub(r"`[^`]*`", "", line))
    return "\n".join(lines)


class Page:
    """A page's headings, labels, sections and anchors."""

    def __init__(self, text):
        self.headings, self.anchors = set(), set(re.findall(r'<a id="([^"]+)">', text))
        self.labels, self.sections = set(), set()
        seen, fence = {}, False
        for line in text.split("\n"):
            if line.startswith("```"):
                fence = not fence
            if fence or not (match := re.match(r"#+ (.*\S)", line)):
                continue
            heading = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", match[1])
            heading = re.sub(r"[`*]", "", heading)
            self.headings.add(heading.lower())
            anchor = slug(heading)
            count = seen[anchor] = seen.get(anchor, -1) + 1
            self.anchors.add(f"{anchor}-{count}" if count else anchor)
            if label := LABEL_HEADING.match(heading):
                self.labels.add(label[1])
            if section := re.match(r"(\d+)\. ", heading):
                self.sections.add(section[1])


class Flow:
    """A file as running text: comment leaders gone, lines joined, an empty line kept as a break."""

    def __init__(self, text):
        pieces, self.starts, offset = [], [], 0
        for line in text.split("\n"):
            self.starts.append(offset)
            rest = line[LEADER.match(line).end() :].rstrip()
            piece = rest + " " if rest else "\n"
            pieces.append(piece)
            offset += len(piece)
        self.text = "".join(pieces)

    def line(self, offset):
        return bisect.bisect_right(self.starts, offset)


class Checker:
    def __init__(self, root):
        self.root = root
        self.problems = []

    @functools.lru_cache(maxsize=None)
    def page(self, path):
        file = self.root / path
        return Page(file.read_text(encoding="utf-8")) if file.is_file() else None

    def problem(self, file, line, text):
        self.problems.append(f"{file.relative_to(self.root)}:{line}: {text}")

    def cited_labels(self, text, at):
        """The labels that follow a citation of docs/math.md, by their places."""
        if not (first := FIRST_LABEL.match(text, at)):
            return {}
        end = END_OF_CITATION.search(text, at)
        further = FURTHER_LABEL.finditer(text, first.end(), end.start() if end else len(text))
        return {first.start(1): first[1]} | {match.start(1): match[1] for match in further}

    def bare_labels(self, text):
        return {
            match.start(1): match[1]
            for match in DOTTED_LABEL.finditer(text)
            if not FOREIGN_LABEL.search(text[: match.start()][-12:])
        }

    def pages_cited(self, file, flow):
        """Checks each citation of a page; gives the places where those of docs/math.md end."""
        ends = []
        for match in PAGE.finditer(flow.text):
            path, anchor, section, heading = match.groups()
            page, line = self.page(path), flow.line(match.start())
            if page is None:
                self.problem(file, line, f"there is no {path}")
            elif anchor and anchor not in page.anchors:
                self.problem(file, line, f"{path} has no anchor #{anchor}")
            elif section and section not in page.sections:
                self.problem(file, line, f"{path} has no section {section}")
            elif heading and heading.lower() not in page.headings:
                self.problem(file, line, f"{path} has no heading '{heading}'")
            elif path == "docs/math.md":
                ends.append(match.end())
        return ends

    def citations(self, file, flow):
        ends = self.pages_cited(file, flow)
        labels = {}
        if ends or file == self.root / "docs/math.md":
            labels = self.bare_labels(flow.text)
        for end in ends:
            labels |= self.cited_labels(flow.text, end)
        for at, label in sorted(labels.items()):
            if label not in self.page("docs/math.md").labels:
                self.problem(file, flow.line(at), f"docs/math.md has no {label}")
        for match in CAPITALS.finditer(flow.text):
            if not any((base / match[1]).is_file() for base in (self.root, file.parent)):
                self.problem(file, flow.line(match.start()), f"{match[1]} is not in the repository")

    def links(self, file, text):
        for number, line in enumerate(without_code(text).split("\n"), 1):
            for target in LINK.findall(line):
                path, _, anchor = target.partition("#")
                if re.match(r"\w+:", target):
                    continue
                linked = (file.parent / path).resolve() if path else file
                if not linked.exists():
                    self.problem(file, number, f"there is no {path}")
                elif anchor and linked.suffix == ".md":
                    page = self.page(str(linked.relative_to(self.root)))
                    if anchor not in page.anchors:
                        self.problem(file, number, f"{path or file.name} has no anchor #{anchor}")

    def files(self):
        for pattern in FILES:
            yield from sorted(self.root.glob(pattern))
        for folder in FOLDERS:
            for file in sorted((self.root / folder).rglob("*")):
                inside = file.relative_to(self.root).parts
                if LEFT_OUT.isdisjoint(inside) and (
                    file.suffix in SUFFIXES or file.name == "CMakeLists.txt"
                ):
                    yield file

    def run(self):
        for file in self.files():
            text = file.read_text(encoding="utf-8", errors="replace")
            self.citations(file, Flow(text))
            if file.suffix == ".md":
                self.links(file, text)
        return self.problems


def check(root):
    """What is wrong, one line each."""
    return Checker(pathlib.Path(root).resolve()).run()


if __name__ == "__main__":
    found = check(ROOT)
    print("\n".join(found))
    sys.exit(1 if found else 0)
