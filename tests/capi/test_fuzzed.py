"""Every function of libkcc is called by a fuzz target. Those of libkcc_cuda.so take addresses on a GPU."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_no_function_of_the_c_interface_is_left_out():
    declared = set(re.findall(r"\b(kcc_\w+)\(", (ROOT / "include/kcc.h").read_text()))
    called = {
        name for file in (ROOT / "fuzz").glob("capi*") for name in re.findall(r"\b(kcc_\w+)\(", file.read_text())
    }
    declared = {name for name in declared if not name.startswith("kcc_cuda_")}
    assert len(declared) > 30
    assert declared - called == set()
