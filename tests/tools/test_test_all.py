"""tools/test_all.sh: two steps at a time, each after those whose builds it uses, and none that fails unseen. The steps' own
commands are stand-ins here. And tools/in_memory.sh, under which they run."""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Checkout:
    """A folder with the script, a Makefile that does what a test says, and stand-ins for all programs that steps start."""

    def __init__(self, folder):
        self.folder = folder
        self.steps = folder / "steps"  # a line for each begin and end, in their order
        tools = folder / "tools"
        tools.mkdir()
        for name in ("test_all.sh", "in_memory.sh"):
            shutil.copy(ROOT / "tools" / name, tools)
        self.stand_in(folder / "bin/cmake", "")
        self.stand_in(folder / "bin/ctest", self.noted("ctest"))
        for name in ("servers", "same_bytes", "check_wheel", "check_dist", "check_arm64"):
            self.stand_in(tools / f"{name}.sh", self.noted(name))
        self.stand_in(folder / "bin/make", f'target=${{@: -1}}\n{self.noted("$target")}')

    def stand_in(self, path, text):
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!{shutil.which('bash')}\n{text}\n")
        path.chmod(0o755)

    def noted(self, name):
        """Notes when it begins and ends; does what stands in the file of its name meanwhile."""
        return f"""cd {self.folder}
name={name}
echo "$name begins" >>steps
code=0
[ ! -e "$name.do" ] || . "./$name.do" || code=$?
echo "$name ends" >>steps
exit $code"""

    def do(self, name, text):
        (self.folder / f"{name}.do").write_text(text + "\n")

    def start(self, *steps, lanes=2):
        path = f"{self.folder}/bin:{pathlib.Path(shutil.which('bash')).parent}:/usr/bin:/bin"
        return subprocess.Popen([self.folder / "tools/test_all.sh", *steps], env={"PATH": path, "LANES": str(lanes)}, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip

    def run(self, *steps, lanes=2):
        process = self.start(*steps, lanes=lanes)
        out, err = process.communicate(timeout=60)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def order(self):
        return self.steps.read_text().splitlines()


@pytest.fixture
def checkout(tmp_path):
    return Checkout(tmp_path)


def wait_until(happened):
    end = time.monotonic() + 10
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.01)


# Waits until the other one has begun: with one lane neither would ever see the other.
MEET = "touch {0}.here; for _ in {{1..200}}; do [ -e {1}.here ] && return 0; sleep 0.05; done; return 1"


def test_two_steps_run_at_a_time(checkout):
    checkout.do("test-asan", MEET.format("asan", "tsan"))
    checkout.do("test-tsan", MEET.format("tsan", "asan"))
    done = checkout.run("asan", "tsan")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("2 passed, 0 failed\n")


def test_a_step_that_fails_is_named_and_stops_no_other(checkout):
    checkout.do("test-asan", "echo what went wrong; false")
    checkout.do("test", "false")
    done = checkout.run("test", "asan", "wheel", "lint")
    assert done.returncode == 1 and done.stdout.endswith("2 passed, 2 failed\n"), done.stdout
    table = dict(re.findall(r"^  (\w+) +(passed|FAILED) +\d+ min \d\d s, CPU +\d+ min \d\d s$", done.stdout, re.M))
    assert table == {"test": "FAILED", "asan": "FAILED", "wheel": "passed", "lint": "passed"}
    assert "\nwhat went wrong\n" in done.stdout
    assert (checkout.folder / "build/test-all/asan.log").read_text() == "what went wrong\n"


def test_no_step_runs_beside_one_whose_build_it_uses(checkout):
    done = checkout.run()
    assert done.returncode == 0 and done.stdout.endswith("13 passed, 0 failed\n"), done.stdout
    order = checkout.order()
    # `make test` and then the tests that measure time, with the machine for themselves.
    assert order[:4] == ["test begins", "test ends", "ctest begins", "ctest ends"]
    clang = next(line for line in done.stdout.splitlines() if re.match("test-all:  clang +passed", line))
    assert done.stdout.index(clang) < done.stdout.index("test-all: lint\n")
    assert done.stdout.index(clang) < done.stdout.index("test-all: same_bytes\n")
    assert order.index("servers ends") < order.index("test-slow-python begins")


def test_one_lane_runs_one_step_after_the_other(checkout):
    checkout.run("tsan", "asan", "lint", lanes=1)
    assert checkout.order() == [f"{name} {what}" for name in ("test-tsan", "test-asan", "lint") for what in ("begins", "ends")]


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_its_end_is_the_end_of_the_steps(checkout, how):
    checkout.do("test-asan", "echo $BASHPID > there.part; mv there.part there; sleep 60")
    script = checkout.start("asan", "lint")
    there = checkout.folder / "there"
    wait_until(there.exists)
    os.kill(script.pid, how)
    out, _ = script.communicate(timeout=10)
    assert script.returncode == 130 and "in all" not in out, out
    wait_until(lambda: not pathlib.Path("/proc", there.read_text().strip()).exists())


def test_what_was_skipped_is_repeated_at_the_end(checkout):
    checkout.do("check_arm64", "echo check_arm64: SKIPPED: no emulator")
    assert checkout.run("arm64").stdout.splitlines()[-2:] == ["check_arm64: SKIPPED: no emulator", "1 passed, 0 failed"]


def test_a_step_that_does_not_exist(checkout):
    done = checkout.run("asan", "nonsense")
    assert done.returncode == 2 and "no step 'nonsense'" in done.stderr
    assert not checkout.steps.exists(), "nothing was started"


def temporary_folder(**variables):
    """Where a command under tools/in_memory.sh has its temporary files."""
    command = [ROOT / "tools/in_memory.sh", "bash", "-c", 'echo ${TMPDIR:-none}; [ -z "${TMPDIR:-}" ] || touch "$TMPDIR/kcc-file"; exit 7']
    environment = {name: value for name, value in os.environ.items() if name != "TMPDIR"}
    done = subprocess.run(command, env=environment | variables, capture_output=True, text=True, check=False)
    assert done.returncode == 7, done.stderr
    return pathlib.Path(done.stdout.strip())


def test_temporary_files_in_memory_are_gone_with_the_command(tmp_path):
    assert temporary_folder(TMPDIR=str(tmp_path)) == tmp_path, "what the user says counts"
    assert (tmp_path / "kcc-file").exists()
    (tmp_path / "df").write_text("#!/bin/sh\necho Avail; echo 65536\n")  # 64 MB, as containers have
    (tmp_path / "df").chmod(0o755)
    assert temporary_folder(PATH=f"{tmp_path}:{os.environ['PATH']}") == pathlib.Path("none")
    if shutil.disk_usage("/dev/shm").free >= 4 << 30:
        folder = temporary_folder()
        assert folder.parent == pathlib.Path("/dev/shm") and not folder.exists()
