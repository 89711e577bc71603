#!/usr/bin/env python3
"""Runs the examples of README.md, docs/*.md, docs/cli/*.md and docs/first-steps/*.md, and checks what they show.

  ```console   each `$ command` is run in a scratch copy of the examples with kcc on PATH; what it
               prints, errors included, must be what the page shows. `…` stands for any text within
               a line, a line that is `…` alone for any lines.
  ```yaml      a block that starts with apiVersion must pass `kcc check`; after a comment
               `<!-- file: NAME -->` it is also written to NAME for later commands of the page.
  <!-- generated: COMMAND -->  up to <!-- end generated --> must be what the command prints.
  <!-- server: KIND HOST:PORT -->  the block that follows talks to a server. It is run only where one of that kind is
               given (the slow tests start real ones), whose address then stands in for HOST:PORT.
  [text](path) to a file of the repository must exist.
  kcc …        wherever a page shows a command, a kernel with `?` or `&` in it is quoted: a shell would end the
               command at `&`, and zsh refuses a `?` that matches no file.

With --update, generated parts and the output of commands that differ are rewritten.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
FENCE = re.compile(r"^```(\w*)\s*$")
FILE_NOTE = re.compile(r"^<!-- file: (\S+) -->$")
GENERATED = re.compile(r"^<!-- generated: (.+) -->$")
SERVER_NOTE = re.compile(r"^<!-- server: (\w+) (\S+) -->$")
GENERATED_END = "<!-- end generated -->"
LINK = re.compile(r"\[[^\]]*\]\(([^)\s#]+)(#[^)\s]*)?\)")


def pages():
    docs = ROOT / "docs"
    folders = (docs, docs / "first-steps", docs / "cli")
    return [ROOT / "README.md", *(page for folder in folders for page in sorted(folder.glob("*.md")))]


def kcc_binary():
    """The program under test: KCC_BINARY, or what `make` leaves."""
    if "KCC_BINARY" in os.environ:
        return pathlib.Path(os.environ["KCC_BINARY"]).resolve()
    for candidate in ("build/kcc", "build/release/apps/kcc/kcc"):
        if (ROOT / candidate).exists():
            return (ROOT / candidate).resolve()
    sys.exit("run_docs: no program at build/kcc; run `make` first or set KCC_BINARY")


class Scratch:
    """A folder with the shipped contracts and examples, where the commands of one page run."""

    def __init__(self):
        self._folder = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self._folder.name)
        for folder in ("contracts", "examples", "policies"):
            shutil.copytree(ROOT / folder, self.path / folder)
        (self.path / "models").symlink_to(ROOT / "models")
        programs = self.path / ".bin"
        programs.mkdir()
        (programs / "kcc").symlink_to(kcc_binary())
        # The Python that tools/setup.sh made, with the package of this checkout: what `pip install` gives a reader.
        python = programs / "python3"
        python.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}/python" exec "{ROOT}/.venv/bin/python" "$@"\n')
        python.chmod(0o755)
        self.environment = {
            "PATH": f"{programs}:{os.environ.get('PATH', '/usr/bin:/bin')}",
            "HOME": str(self.path),
            "LC_ALL": "C.UTF-8",
            "NO_COLOR": "1",
        }

    def run(self, command, text=None):
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.path,
            env=self.environment,
            input=text if text is not None else "",
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
            check=False,
        )
        return done.returncode, done.stdout

    def close(self):
        self._folder.cleanup()


def matches(shown, printed):
    """True if the printed lines are what the page shows, `…` being a wildcard."""
    pattern = ""
    for line in shown:
        if line.strip() == "…":
            pattern += r"(?:.*\n)*?"
        else:
            pattern += ".*?".join(re.escape(part) for part in line.split("…")) + r"\n"
    return re.fullmatch(pattern, "".join(line + "\n" for line in printed)) is not None


def split_commands(block):
    """[(command, [shown line, …]), …]; a command ends in a line without a trailing backslash."""
    commands = []
    for line in block:
        if commands and commands[-1][0].endswith("\\"):
            commands[-1] = (commands[-1][0] + "\n" + line.removeprefix("> "), [])
        elif line.startswith("$ "):
            commands.append((line[2:], []))
        elif commands:
            commands[-1][1].append(line)
        else:
            commands.append((None, [line]))
    return commands


KERNEL = re.compile(r"^(?:openai\+https?|https?|lab|exec):")
SPAN = re.compile(r"`(kcc [^`]+)`")


def unsafe_words(command):
    """The words of a command that name a kernel and hold a `?` or `&` outside quotes."""
    unsafe, word, quote, marks = [], "", "", False
    for c in command + " ":
        if quote:
            quote = "" if c == quote else quote
        elif c in "'\"":
            quote = c
        elif c.isspace():
            if marks and KERNEL.match(word.split("=", 1)[-1] if word.startswith("--") else word):
                unsafe.append(word)
            word, marks = "", False
            continue
        else:
            marks = marks or c in "?&"
        word += c if c not in "'\"" else ""
    return unsafe


def shown_commands(lines):
    """(number, command) of every line of code and every inline span that shows kcc being called."""
    fenced = False
    for number, line in enumerate(lines):
        if line.startswith("```"):
            fenced = not fenced
        elif fenced or line.startswith("    "):
            called = re.search(r"(?:^|[\s$|;(])(kcc .*|--(?:train|infer|server)[ =].*)", line)
            if called:
                yield number, called[1]
        else:
            yield from ((number, span) for span in SPAN.findall(line))


class Page:
    """One page; `lines` holds its text as it should be once run() is through. `servers`: by kind, the address of
    one that is running."""

    def __init__(self, path, servers=None):
        self.path = path
        self.servers = servers or {}
        self.source = path.read_text(encoding="utf-8").splitlines()
        self.lines = []
        self.problems = []

    def problem(self, line, text):
        self.problems.append(f"{self.path.relative_to(ROOT)}:{line + 1}: {text}")

    def console(self, scratch, start, block, server=None):
        """`server`: the kind and the address that the block talks to."""
        kind, shown_address = server or (None, None)
        if kind and kind not in self.servers:
            self.lines += block
            return
        for command, shown in split_commands(block):
            if command is None:
                self.problem(start, "a console block starts with `$ command`")
                self.lines += shown
                continue
            while shown and not shown[-1].strip():
                shown.pop()
            asked = command.replace(shown_address, self.servers[kind]) if kind else command
            _, output = scratch.run(asked)
            output = output.replace(self.servers[kind], shown_address) if kind else output
            printed = [line.rstrip() for line in output.splitlines()]
            while printed and not printed[-1].strip():
                printed.pop()
            self.lines += ["$ " + command.split("\n")[0]]
            self.lines += ["> " + line for line in command.split("\n")[1:]]
            if matches(shown, printed):
                self.lines += shown
            else:
                self.problem(
                    start,
                    f"`{command}` printed\n" + "\n".join("    " + line for line in printed),
                )
                self.lines += printed

    def yaml(self, scratch, start, block, name):
        text = "\n".join(block) + "\n"
        if name:
            (scratch.path / name).write_text(text, encoding="utf-8")
        if block and block[0].startswith("apiVersion"):
            # Not --strict, which also asks an example for its reasons and for a date.
            code, output = scratch.run("kcc check -", text)
            if code != 0 or "warning:" in output:
                self.problem(start, f"the contract does not pass kcc check:\n{output}")
        self.lines += block

    def generated(self, scratch, start, command, block):
        code, output = scratch.run(command)
        fresh = ["", *output.rstrip("\n").splitlines(), ""]
        if code != 0 or fresh != block:
            self.problem(start, f"not what `{command}` prints; run tools/run_docs.py --update")
        self.lines += fresh

    def links(self):
        inside = False
        for number, line in enumerate(self.source):
            if line.startswith("```"):
                inside = not inside
            if inside:
                continue
            for target, _ in LINK.findall(line):
                if "://" in target or target.startswith("mailto:"):
                    continue
                if not (self.path.parent / target).exists():
                    self.problem(number, f"link to {target}, which does not exist")

    def run(self):
        scratch = Scratch()
        try:
            self._run(scratch)
        finally:
            scratch.close()
        self.links()
        self.quotes()
        return self.problems

    def quotes(self):
        for number, command in shown_commands(self.source):
            for word in unsafe_words(command):
                self.problem(number, f"a shell would break {word} apart: quote it")

    def _run(self, scratch):
        position = 0
        name = None
        server = None
        while position < len(self.source):
            line = self.source[position]
            self.lines.append(line)
            fence = FENCE.match(line)
            made = GENERATED.match(line)
            end = None
            if fence or made:
                closer = "```" if fence else GENERATED_END
                end = next(
                    (i for i in range(position + 1, len(self.source)) if self.source[i] == closer),
                    None,
                )
                if end is None:
                    self.problem(position, "is never closed")
            if end is None:
                note = FILE_NOTE.match(line)
                name = note.group(1) if note else name if not line.strip() else None
                note = SERVER_NOTE.match(line)
                server = note.groups() if note else server if not line.strip() else None
                position += 1
                continue
            block = self.source[position + 1 : end]
            if made:
                self.generated(scratch, position, made.group(1), block)
            elif fence.group(1) == "console":
                self.console(scratch, position, block, server)
            elif fence.group(1) == "yaml":
                self.yaml(scratch, position, block, name)
            else:
                self.lines += block
            self.lines.append(self.source[end])
            position = end + 1
            name = server = None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--update", action="store_true", help="rewrite what differs")
    parser.add_argument("pages", nargs="*", type=pathlib.Path, help="default: all of them")
    arguments = parser.parse_args()
    failed = False
    for path in [page.resolve() for page in arguments.pages] or pages():
        page = Page(path)
        problems = page.run()
        if arguments.update and page.lines != page.source:
            path.write_text("\n".join(page.lines) + "\n", encoding="utf-8")
            print(f"{path.relative_to(ROOT)}: updated")
            problems = Page(path).run()
        for problem in problems:
            print(problem)
            failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
