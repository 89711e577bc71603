"""The layer check finds each kind of violation: every one is planted in a small tree that is clean without it."""

import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
from check_layers import Layers  # noqa: E402

JUDGE_MODULE = "kcc_module(judge DEPS base PUBLIC judge.h PUBLIC_TO_TESTS table.h"
CLEAN = {
    "CMakeLists.txt": "set(KCC_MODULES base metric judge kernel rl)\n",
    "kcc/base/CMakeLists.txt": "kcc_module(base PUBLIC file.h result.h PRIVATE_LIBS OpenSSL::Crypto)\n",
    "kcc/base/file.h": "#include <string>\n",
    "kcc/base/result.h": "#include <string>\n#include <tl/expected.hpp>\n",
    "kcc/base/file.cc": '#include <fcntl.h>\n#include <openssl/sha.h>\n#include "kcc/base/file.h"\n',
    "kcc/metric/CMakeLists.txt": "kcc_module(metric)\n",
    "kcc/metric/catalog.cc": '{.id = "kl"}, {.id = "flip_rate"}\nbool Is(Row row) { return row.id == "kl"; }\n',
    "kcc/rl/CMakeLists.txt": "kcc_module(rl)\n",
    "kcc/rl/dialect.cc": 'bool k = option == "kl";\n',
    "kcc/judge/masks.h": '// For tests: rows.\ninline bool k = name == "kl";\n',
    "kcc/judge/CMakeLists.txt": f"# kcc_kernel is only named here\n{JUDGE_MODULE})\n",
    "kcc/judge/judge.h": '#include "kcc/base/result.h"\n',
    "kcc/judge/table.h": "",
    "kcc/judge/private.h": "\n" * 500,
    "kcc/judge/judge.cc": '// std::cout << getenv("HOME"); id == "kl"\nconst char* text = "std::cout << printf(";\n'
                          'auto kl = Find("kl"); bool b = name == "kl_to_all" || name == "reward";\n',
    "kcc/judge/judge_test.cc": '#include <gtest/gtest.h>\n#include <fstream>\n#include "tests/shared/data.h"\n'
                               '#include "kcc/judge/private.h"\n',
    "kcc/kernel/CMakeLists.txt": "kcc_module(kernel DEPS base judge)\n",
    "kcc/kernel/kernel.cc": '#include <curl/curl.h>\n#include "kcc/base/file.h"\n#include "kcc/judge/judge.h"\n'
                            '#define KCC_ASSETS "kcc/base/file.h"\n#include KCC_ASSETS\n',
    "tests/shared/data.h": '#include <gtest/gtest.h>\n#include "kcc/judge/judge.h"\n',
    "apps/kcc/main.cc": '#include <CLI/CLI.hpp>\n#include "kcc/kernel/../judge/judge.h"\nint main() {}\n',
    "apps/kcc/console.h": "",
    "bench/speed.cc": '#include "kcc/judge/judge.h"\n#include "kcc/judge/table.h"\nint main() {}\n',
}  # fmt: skip


def problems_of(tmp_path, changes):
    for name, text in (CLEAN | changes).items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return Layers(tmp_path).check()


def test_the_clean_tree_is_clean(tmp_path):
    assert problems_of(tmp_path, {}) == []


def test_our_tree_is_clean():
    layers = Layers(ROOT)
    assert layers.check() == []
    assert layers.files > 700 and len(layers.declared) == len(layers.order)


JUDGE = "kcc/judge/judge.cc"
JUDGE_LIST = "kcc/judge/CMakeLists.txt"
KERNEL = CLEAN["kcc/kernel/kernel.cc"]
VIOLATIONS = {
    "a folder that was not declared": ({JUDGE: '#include "kcc/kernel/kernel.h"\n', "kcc/kernel/kernel.h": ""},
                                       f"{JUDGE}:1: kcc/judge includes kcc/kernel/kernel.h, but did not declare kernel"),
    "by a relative path": ({JUDGE: '\n#include "../kernel/kernel.h"\n', "kcc/kernel/kernel.h": ""},
                           f"{JUDGE}:2: kcc/judge includes kcc/kernel/kernel.h"),
    "by a path that goes back": ({JUDGE: '#include "kcc/base/../kernel/kernel.h"\n', "kcc/kernel/kernel.h": ""},
                                 f"{JUDGE}:1: kcc/judge includes kcc/kernel/kernel.h, but did not declare kernel"),
    "by a macro": ({JUDGE: '#define WHERE "kcc/kernel/kernel.h"\n#include WHERE\n', "kcc/kernel/kernel.h": ""},
                   f"{JUDGE}:2: kcc/judge includes kcc/kernel/kernel.h"),
    "by a macro from elsewhere": ({JUDGE: "#include WHERE\n"}, f"{JUDGE}:1: includes WHERE, which no macro"),
    "a header that is not there": ({JUDGE: '#include "kcc/base/gone.h"\n'}, "kcc/base/gone.h does not exist"),
    "a dependency that comes later": ({JUDGE_LIST: JUDGE_MODULE.replace("base", "base kernel") + ")\n",
                                       "kcc/kernel/CMakeLists.txt": "kcc_module(kernel DEPS base judge PUBLIC kernel.h)\n",
                                       JUDGE: '#include "kcc/kernel/kernel.h"\n', "kcc/kernel/kernel.h": ""},
                                      "depends on kernel, which comes later"),
    "a folder without a module": ({"kcc/new/new.h": ""}, "kcc/new/CMakeLists.txt: no kcc_module(new ...)"),
    "a module that is in no list": ({"kcc/new/CMakeLists.txt": "kcc_module(new DEPS base)\n",
                                     "kcc/new/new.h": '#include "kcc/base/file.h"\n'}, "is not in KCC_MODULES"),
    "a link that was not declared": ({JUDGE_LIST: f"{JUDGE_MODULE})\n"
                                      "target_link_libraries(kcc_judge PRIVATE\n  kcc_kernel)\n"},
                                     "kcc_judge links kcc_kernel, which kcc/judge did not declare"),
    "a dependency that nothing uses": ({"kcc/kernel/kernel.cc": '#include "kcc/base/file.h"\n'},
                                       "kcc/kernel/CMakeLists.txt: declares judge, which no file there includes"),
    "a private header of another folder": ({"kcc/kernel/kernel.cc": KERNEL + '#include "kcc/judge/private.h"\n'},
                                           "kernel.cc:6: includes kcc/judge/private.h, which is private to its folder"),
    "a private header from an application": ({"apps/kcc/console.h": '#include "kcc/judge/private.h"\n'},
                                             "apps/kcc/console.h:1: includes kcc/judge/private.h, which is private"),
    "a private header from a benchmark": ({"bench/slow.cc": '#include "kcc/judge/private.h"\n'}, "which is private"),
    "a private header from fuzzing": ({"fuzz/x_fuzz.cc": '#include "kcc/judge/private.h"\n'}, "which is private"),
    "a private header from a test outside": ({"tests/shared/x_test.cc": '#include "kcc/judge/private.h"\n'},
                                             "which is private"),
    "a private header from another folder's test": ({"kcc/kernel/x_test.cc": '#include "kcc/judge/private.h"\n'},
                                                    "which is private"),
    "a header for tests from product code": ({"kcc/kernel/kernel.cc": KERNEL + '#include "kcc/judge/table.h"\n'},
                                             "includes kcc/judge/table.h, which is public to tests only"),
    "a public header that is not there": ({JUDGE_LIST: JUDGE_MODULE.replace("PUBLIC judge.h", "PUBLIC judge.h gone.h") + ")\n"},
                                          f"{JUDGE_LIST}: lists gone.h, which does not exist"),
    "a header that is listed twice": ({JUDGE_LIST: JUDGE_MODULE + " judge.h)\n"}, f"{JUDGE_LIST}: lists judge.h twice"),
    "a public header that nobody outside includes": (
        {JUDGE_LIST: JUDGE_MODULE.replace("PUBLIC judge.h", "PUBLIC judge.h private.h") + ")\n"},
        f"{JUDGE_LIST}: private.h is PUBLIC, but no product code outside kcc/judge includes it"),
    "a public header that only tests include": ({JUDGE_LIST: "kcc_module(judge DEPS base PUBLIC judge.h table.h)\n"},
                                                f"{JUDGE_LIST}: table.h is PUBLIC, but no product code"),
    "a header for tests that none includes": ({JUDGE_LIST: JUDGE_MODULE + " private.h)\n"},
                                              f"{JUDGE_LIST}: private.h is PUBLIC_TO_TESTS, but no test outside"),
    "an application's header in kcc/": ({JUDGE: '#include "apps/kcc/console.h"\n'},
                                        "kcc/ includes apps/kcc/console.h, but must not know apps/"),
    "a benchmark's header, by a relative path": ({JUDGE: '#include "../../bench/speed.h"\n', "bench/speed.h": ""},
                                                 "kcc/ includes bench/speed.h"),
    "a test's header in what is no test": ({JUDGE: '#include "tests/shared/data.h"\n'}, "must not know tests/"),
    "sources from bench/": ({JUDGE_LIST: f"{JUDGE_MODULE})\n"
                             "add_executable(speed ${PROJECT_SOURCE_DIR}/bench/speed.cc)\n"}, "takes sources from bench/"),
    "a program in kcc/": ({JUDGE: "int main(int argc, char** argv) {}\n"}, f"{JUDGE}: is a program"),
    "a source that is too long": ({"kcc/judge/private.h": "\n" * 501}, "kcc/judge/private.h: has 501 lines, more than 500"),
    "a test that is too long": ({"tests/shared/x_test.cc": "\n" * 501}, "tests/shared/x_test.cc: has 501 lines"),
    "a library from a folder that may not": ({JUDGE: "#include <openssl/sha.h>\n"},
                                             "openssl/sha.h may be included from kcc/base, kcc/plane, kcc/statement only"),
    "a library that nobody listed": ({JUDGE: "#include <folly/Uri.h>\n"}, "folly/Uri.h is of a library that is not"),
    "a test library in what is no test": ({JUDGE: "#include <gtest/gtest.h>\n"}, "gtest/gtest.h belongs into tests"),
    "output in a pure folder": ({JUDGE: '\n\nvoid F() { std::cout << "x"; }\n'}, f"{JUDGE}:3: kcc/judge is pure"),
    "files in a pure folder": ({JUDGE: '#include "kcc/base/file.h"\n'}, "this is input or output"),
    "the environment in a pure folder": ({JUDGE: 'auto x = std::getenv("X");\n'}, "this is the environment"),
    "a clock in a pure folder": ({JUDGE: "auto x = std::chrono::steady_clock::now();\n"}, "this is a clock"),
    "a quantity told by its id": ({JUDGE: '\nbool b = quantity.id == "kl";\n'},
                                  f'{JUDGE}:2: decides by the name of a quantity, and a column of kcc/metric/catalog.cc'),
    "by its id, the other way round": ({JUDGE: '// "\nbool b = "flip_rate" !=\n  id;\n'}, ': "flip_rate" !='),
    "a metric told by its name": ({JUDGE: 'bool b = name == "p99_kl";\n'}, ': == "p99_kl"'),
    "a metric of the train side": ({"apps/kcc/main.cc": 'bool b = name != "mean_train_kl";\n'}, ': != "mean_train_kl"'),
    "randomness in a pure folder": ({JUDGE: "std::random_device device;\n"}, "this is randomness"),
}  # fmt: skip


@pytest.mark.parametrize("name", VIOLATIONS)
def test_a_violation_is_found(tmp_path, name):
    changes, expected = VIOLATIONS[name]
    problems = problems_of(tmp_path, changes)
    assert len(problems) == 1 and expected in problems[0], problems
