# The two commands a newcomer needs are `make demo` and `make test`. Both set the machine up first: as root they
# install what is missing, as another user they name it and stop (tools/setup.sh).
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := build
JOBS ?= $(shell nproc)
# Temporary files lie in memory; TMPDIR=/tmp make test tries a disk.
CTEST := tools/in_memory.sh ctest --output-on-failure --no-tests=error -j $(JOBS)
# A file is one worker's, for its fixtures; which file is first stands in tests/conftest.py. One worker more than cores:
# for a third of their time tests wait for a process, a timeout or a browser.
PYTEST := tools/in_memory.sh .venv/bin/python -m pytest -q -n $(shell echo $$(($(JOBS) + 1))) --dist loadfile --no-loadscope-reorder \
  --max-worker-restart=0 -o tmp_path_retention_policy=failed

.PHONY: program build setup demo gateway-demo results test test-all fuzz faults bench bench-gateway soak dist dist-arm64 format lint clean configure-% build-%

setup:
	@tools/setup.sh

build-setup:
	@tools/setup.sh build

configure-%:
	@test -f build/$*/build.ninja || cmake --preset $* >/dev/null

# The program alone, without tests and benchmarks, at build/kcc.
program: build-setup configure-release
	@cmake --build --preset release -j $(JOBS) --target kcc
	@ln -sfn release/apps/kcc/kcc build/kcc

# Everything.
build: program
	@cmake --build --preset release -j $(JOBS)

demo: program
	@tools/demo.sh

# Three kernels of the lab behind a gateway, a fault on one slice, and the way back; STAY=1 leaves it running.
gateway-demo: setup program
	@.venv/bin/python tools/gateway_demo.py $(if $(STAY),--stay)

# The experiments of the paper on the lab, a few minutes; their pages stay in build/results. Of E3 it is the selection
# that `kcc lab e3 --list` prints, about three CPU minutes, from the beginning: runs that are there may be of another program.
results: program
	@build/kcc lab e1 -o build/results >/dev/null
	@build/kcc lab e2 -o build/results >/dev/null
	@rm -rf build/results/runs
	@build/kcc lab e3 -o build/results >/dev/null
	@cp build/results/e1.md build/results/e2.md build/results/e3.md docs/results/

# A test of C++, or a file of pytest's, that passed is not run again while nothing that it depends on has changed; ctest
# lists it as skipped, pytest says how many. FRESH=1 runs all (tools/unless_passed.py, passed_before.py), and so does CI.
export FRESH

# What CI runs: the release build with every test, the modules that read what others wrote and their
# fuzz corpora under asan and ubsan, the layers, and the tests through the real program.
test: setup build
	@python3 tools/check_layers.py
	@$(CTEST) --test-dir build/release -LE slow
	@$(MAKE) --no-print-directory test-readers test-cuda
	@$(PYTEST) --unless-passed -m 'not slow' tests

empty :=
space := $(empty) $(empty)
any-of = ^($(subst $(space),|,$(strip $(1))))$$

READERS := format predicate contract trace summary monitor monitorlog statement kernel serve gateway plane rescore control rl capi
FUZZED := contract promotion predicate safetensors npy requests kld import import_files conform arrays summary report statement \
  register_import stored_request observation decision_log monitor_state capi capi_files capi_monitor exec_answers server_answers \
  serve_requests gateway_request gateway_stream gateway_answer plane_request json_schema
test-readers: configure-asan
	@cmake --build --preset asan -j $(JOBS) --target $(READERS:%=kcc_%_test) $(FUZZED:%=%_fuzz)
	@$(CTEST) --test-dir build/asan -LE slow -R '$(call any-of,$(READERS) $(FUZZED:%=fuzz-%))'

# The CUDA backend compiles without a GPU; its checks then say how many they skipped.
test-cuda:
	@if command -v nvcc >/dev/null; then \
	  test -f build/cuda/build.ninja || cmake --preset cuda >/dev/null; \
	  cmake --build --preset cuda -j $(JOBS) --target kcc_cuda gpu_verify; \
	  build/cuda/bench/gpu/gpu_verify --small || test $$? = 77; \
	else echo "CUDA backend: not compiled, since there is no nvcc"; fi

test-asan: configure-asan
	@cmake --build --preset asan -j $(JOBS)
	@$(CTEST) --test-dir build/asan -LE slow

# Threads live in few modules: the tests of those, and of what is built on them, are all that is
# built here. A monitor has none; its callers may.
TSAN_TESTS := numeric summary kernel lab serve gateway plane rescore control attribution experiment rl monitor monitorlog capi capi_monitor
# Left out: what reads one file thousands of times in one thread, minutes each under tsan.
test-tsan: configure-tsan
	@cmake --build --preset tsan -j $(JOBS) --target $(TSAN_TESTS:%=kcc_%_test)
	@GTEST_FILTER='-SummaryFile.*' $(CTEST) --test-dir build/tsan -R '$(call any-of,$(TSAN_TESTS))'

# The slow matrix, run before an issue is called resolved.
test-all: setup
	@tools/test_all.sh

test-slow-python:
	@$(PYTEST) --dist worksteal -m slow tests  # most of them are one file's

# The long fuzzing: every target for ten minutes, over two hours on two cores. `make test` replays what it found.
fuzz: setup
	@tools/fuzz.sh 600

# Every allocation of every command and C function fails in turn: hours. `make test` tries some, `make test-all` many.
faults: build
	@tools/faults.sh

bench: build
	@tools/bench.sh

# The gateway beside nginx (needs Debian's nginx-light), and half an hour in which everything around it goes wrong.
bench-gateway: build
	@.venv/bin/python bench/gateway/compare.py

SECONDS ?= 1800
soak: setup program
	@.venv/bin/python tools/soak.py --seconds $(SECONDS) --json build/soak/report.json

# What is handed out, in dist/: a wheel and a tarball for any Linux with glibc 2.31 or newer (docs/install.md).
dist: setup
	@tools/setup.sh dist
	@JOBS=$(JOBS) tools/dist.sh

dist-arm64: setup
	@tools/setup.sh arm64
	@JOBS=$(JOBS) tools/dist.sh arm64

SOURCES = $(shell git ls-files '*.h' '*.cc' '*.cu' '*.cuh')
format:
	@clang-format -i $(SOURCES)

# clang's build compiles every source by itself, so it knows how each is compiled and what it includes.
lint: setup
	@cmake --preset clang >/dev/null
	@clang-format --dry-run -Werror $(SOURCES)
	@python3 tools/check_layers.py
	@tools/check_headers.py build/clang
	@tools/tidy.py build/clang build/release

clean:
	rm -rf build
