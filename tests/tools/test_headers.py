"""The header check finds a header that needs what was included before it; the rest of its tree is clean."""

import json
import pathlib
import shutil
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
from check_headers import Headers  # noqa: E402

pytestmark = pytest.mark.skipif(shutil.which("clang++") is None, reason="no clang++")

SELF_CONTAINED = "#pragma once\n#include <string>\ninline std::string Name() { return {}; }\n"
NEEDS_STRING = "#pragma once\ninline std::string Name() { return {}; }\n"
CLEAN = {
    "kcc/base/name.h": SELF_CONTAINED,
    "kcc/base/user.h": '#pragma once\n#include "kcc/base/name.h"\ninline std::string Twice() { return Name() + Name(); }\n',
    "kcc/base/built.h": "#pragma once\nint Built();\n",
    "kcc/base/built.cc": '#include "kcc/base/built.h"\n\n#include <string>\n',
    "kcc/base/tested.h": "#pragma once\ninline int Tested() { return 1; }\n",
    "kcc/base/tested_test.cc": '// A comment: #include <string>\n#include "kcc/base/tested.h"\n',
    "kcc/base/lanes-inl.h": NEEDS_STRING,  # left out
    "kcc/base/device.cuh": NEEDS_STRING,  # left out
    "kcc/base/c_user.c": "",
}


def headers_of(root, changes):
    tree = CLEAN | changes
    for name, text in tree.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    (root / "build").mkdir(exist_ok=True)
    entries = [{"directory": str(root / "build"), "file": str(root / name),
                "command": f"/usr/bin/{'cc' if name.endswith('.c') else 'clang++'} -I{root} -Wall -Werror -std=c++20 -o x.o -c {root / name}"}
               for name in tree if name.endswith((".cc", ".c"))]  # fmt: skip
    (root / "build" / "compile_commands.json").write_text(json.dumps(entries))
    return Headers(root, "build")


def test_the_clean_tree_is_clean_and_what_compiled_is_not_compiled_again(tmp_path):
    headers = headers_of(tmp_path, {})
    assert headers.check() == ([], 4, 2)  # the build compiles built.h and tested.h
    assert headers.check() == ([], 4, 0)
    (tmp_path / "kcc/base/user.h").write_text(CLEAN["kcc/base/user.h"] + "\n")
    assert headers.check() == ([], 4, 1)
    (tmp_path / "kcc/base/name.h").write_text(SELF_CONTAINED + "\n")  # user.h includes it
    assert headers.check() == ([], 4, 2)


VIOLATIONS = {
    "a header that no source includes first": {"kcc/base/alone.h": NEEDS_STRING},
    "a header that its source includes second": {"kcc/base/alone.h": NEEDS_STRING,
                                                 "kcc/base/alone.cc": '#include <string>\n#include "kcc/base/alone.h"\n'},
    "a header whose test includes it second": {"kcc/base/alone.h": NEEDS_STRING,
                                               "kcc/base/alone_test.cc": '#include <string>\n#include "kcc/base/alone.h"\n'},
}  # fmt: skip


@pytest.mark.parametrize("name", VIOLATIONS)
def test_a_violation_is_found(tmp_path, name):
    headers = headers_of(tmp_path, VIOLATIONS[name])
    for _ in range(2):  # a failure leaves no stamp
        problems, _, _ = headers.check()
        assert len(problems) == 1 and problems[0].startswith("kcc/base/alone.h does not compile by itself:\n"), problems


def test_a_header_that_changes_under_another_is_found(tmp_path):
    headers = headers_of(tmp_path, {})
    headers.check()
    (tmp_path / "kcc/base/name.h").write_text("#pragma once\ninline int Name() { return 1; }\n")
    problems, _, _ = headers.check()
    assert len(problems) == 1 and problems[0].startswith("kcc/base/user.h does not compile by itself:\n"), problems
