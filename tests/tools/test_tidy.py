"""tools/tidy.py looks at joined sources as one file: its findings stand at the lines of the sources."""

import json
import re

import tidy


def test_a_finding_stands_at_its_own_line(tmp_path, monkeypatch):
    monkeypatch.setattr(tidy, "ROOT", tmp_path)
    (tmp_path / "kcc").mkdir()
    (tmp_path / "kcc/a.cc").write_text("int A();\nint B();\n")
    (tmp_path / "kcc/b.cc").write_text("int C();\n")
    (tmp_path / "kcc/c.cc").write_text("int D();\nint E();\n")
    group = tidy.Group(["kcc/a.cc", "kcc/b.cc", "kcc/c.cc"], tmp_path)
    lines = group.file.read_text().splitlines()
    for number, line in enumerate(lines, 1):
        place = group.in_sources(f"{group.file}:{number}:5: error: [check]")
        source, own, column = re.match(r"([^:]+):(\d+):(\d+):", place).groups()
        assert (tmp_path / source).read_text().splitlines()[int(own) - 1] == line
        assert column == "5"
    assert group.in_sources("12 warnings generated.\nkcc/x.h:3:1: error: y") == "kcc/x.h:3:1: error: y"


def test_groups_are_what_the_build_joins(tmp_path, monkeypatch):
    monkeypatch.setattr(tidy, "ROOT", tmp_path)
    joined = tmp_path / "build/release/kcc/judge/joined/joined_0.cc"
    joined.parent.mkdir(parents=True)
    joined.write_text('#include "kcc/judge/a.cc"\n#include "kcc/judge/b.cc"\n')
    entries = [{"file": str(joined)}, {"file": str(tmp_path / "kcc/judge/c.cc")}]
    (tmp_path / "build/release/compile_commands.json").write_text(json.dumps(entries))
    sources = ["kcc/judge/a.cc", "kcc/judge/b.cc", "kcc/judge/c.cc", "bench/d.cc"]
    assert tidy.groups(tmp_path / "build/release", sources) == [
        ["kcc/judge/a.cc", "kcc/judge/b.cc"], ["kcc/judge/c.cc"], ["bench/d.cc"]]  # fmt: skip


def test_a_source_that_is_built_elsewhere_is_compiled_like_its_neighbour(tmp_path, monkeypatch):
    monkeypatch.setattr(tidy, "ROOT", tmp_path)
    neighbour = str(tmp_path / "bench/drift.cc")
    entries = {"kcc/a.cc": {"file": "x", "command": "c++ -c x"},
               "bench/drift.cc": {"file": neighbour, "command": f"c++ -O2 -c {neighbour}"}}  # fmt: skip
    found = tidy.nearest("bench/gpu/truth.cc", entries)
    assert found == {"file": str(tmp_path / "bench/gpu/truth.cc"), "command": f"c++ -O2 -c {tmp_path / 'bench/gpu/truth.cc'}"}
