"""tools/setup.sh: what it installs as root, and what it says to a user who may not. No package is installed here: dpkg,
apt and id are stand-ins on a PATH that holds nothing else."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SETUP = ROOT / "tools" / "setup.sh"
NEEDED = ["bash", "env", "dirname", "sed", "grep", "cat"]
DEBIAN = 'ID=debian\nVERSION_ID="12"\n'
UBUNTU_22 = 'ID=ubuntu\nVERSION_ID="22.04"\n'
UBUNTU_24 = 'ID=ubuntu\nVERSION_ID="24.04"\n'


class Machine:
    """A machine that lacks some packages, with one user and one release of a system."""

    def __init__(self, folder, lacks=(), user=0, release=DEBIAN, dpkg=True):
        self.folder = folder
        self.release = folder / "os-release"
        self.release.write_text(release)
        # A copy, which another user can read wherever the checkout lies: /root is closed.
        self.script = folder / "tools" / SETUP.name
        self.script.parent.mkdir()
        self.script.parent.chmod(0o755)
        shutil.copy(SETUP, self.script)
        for name in NEEDED:
            (folder / name).symlink_to(shutil.which(name))
        if dpkg:
            # As the real one: what is installed on standard output, the rest is a complaint and exit code 1.
            self.program("dpkg-query", f'for p in "${{@:3}}"; do case " {" ".join(lacks)} " in *" $p "*) '
                         'echo "no packages found matching $p" >&2;; *) echo "installed $p";; esac; done; exit 1')  # fmt: skip
        self.program("apt-get", f'echo "$*" >> {folder}/installed')
        self.program("id", f"echo {user}")

    def program(self, name, text):
        path = self.folder / name
        path.write_text(f"#!{shutil.which('bash')}\n{text}\n")
        path.chmod(0o755)

    def setup(self, *arguments, user=None, variables=None):
        environment = {"PATH": str(self.folder), "KCC_OS_RELEASE": str(self.release), **(variables or {})}
        return subprocess.run(["bash", self.script, *arguments], env=environment, capture_output=True, text=True, check=False,
                              user=user, executable=shutil.which("bash"))  # fmt: skip

    @property
    def installed(self):
        log = self.folder / "installed"
        return log.read_text().splitlines() if log.exists() else []


@pytest.fixture
def machine():
    """Readable to every user, which pytest's own directories are not."""
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        yield lambda **facts: Machine(pathlib.Path(name), **facts)


@pytest.mark.parametrize("user", [0, 1000])
def test_nothing_is_said_where_nothing_is_missing(machine, user):
    here = machine(user=user)
    for arguments in (["build"], ["--check"], ["--check", "build"]):
        done = here.setup(*arguments)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert here.installed == []


def test_root_installs_what_is_missing_and_nothing_else(machine):
    here = machine(lacks=["libhwy-dev", "librapidcheck-dev"])
    done = here.setup("build")
    assert done.returncode == 0, done.stderr
    assert here.installed == ["update -qq", "install -y -qq --no-install-recommends libhwy-dev librapidcheck-dev"]


@pytest.mark.parametrize("user, arguments", [(1000, ["build"]), (1000, []), (1000, ["--check"]), (0, ["--check", "build"])])
def test_who_may_not_install_is_told_the_packages_and_the_command(machine, user, arguments):
    here = machine(lacks=["libhwy-dev", "librapidcheck-dev"], user=user)
    done = here.setup(*arguments)
    assert done.returncode == 1
    assert "missing packages: libhwy-dev librapidcheck-dev\n" in done.stderr
    command = "apt-get update && apt-get install -y --no-install-recommends libhwy-dev librapidcheck-dev"
    assert f"as root, then run this again:\n  {command}\n" in done.stderr
    assert here.installed == []


def test_the_tests_need_more_than_the_build(machine):
    here = machine(lacks=["python3-venv"], user=1000)
    assert here.setup("--check", "build").returncode == 0
    assert "missing packages: python3-venv\n" in here.setup("--check").stderr


def test_a_tool_from_elsewhere_counts_and_a_library_must_be_a_package(machine):
    here = machine(lacks=["cmake", "ninja-build", "libssl-dev"], user=1000)
    assert "missing packages: cmake ninja-build libssl-dev\n" in here.setup("build").stderr
    here.program("cmake", "")
    here.program("ninja", "")
    here.program("libssl-dev", "")
    assert "missing packages: libssl-dev\n" in here.setup("build").stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_it_runs_as_a_real_user_without_rights(machine):
    here = machine(lacks=["libhwy-dev"])
    (here.folder / "id").unlink()
    (here.folder / "id").symlink_to(shutil.which("id"))
    done = here.setup("build", user=65534)
    assert (done.returncode, here.installed) == (1, []), done.stderr
    assert "missing packages: libhwy-dev\n" in done.stderr


def test_ubuntu_22_takes_cmake_from_pypi(machine):
    here = machine(lacks=["g++-12", "cmake", "chromium"], user=1000, release=UBUNTU_22)
    done = here.setup("--check")
    assert done.returncode == 1
    assert "missing packages: g++-12\n" in done.stderr  # its own names, and no package of cmake
    assert "verified on Debian 12 only; this is ubuntu 22.04" in done.stderr


@pytest.mark.parametrize("version, good", [("3.22.1", False), ("3.24.9", False), ("3.25.0", True), ("3.31.6", True),
                                           ("4.1.0", True)])  # fmt: skip
def test_ubuntu_22_says_when_cmake_is_too_old(machine, version, good):
    here = machine(user=1000, release=UBUNTU_22)
    here.program("cmake", f"echo cmake version {version}")
    done = here.setup("--check")
    assert done.returncode == (0 if good else 1)
    assert ("pip install --user 'cmake>=3.25'" in done.stderr) != good


def test_ubuntu_24_has_names_of_its_own(machine):
    here = machine(lacks=["libclang-rt-18-dev", "libclang-rt-14-dev"], user=1000, release=UBUNTU_24)
    assert "missing packages: libclang-rt-18-dev\n" in here.setup("--check").stderr


def test_without_dpkg_the_build_goes_on(machine):
    done = machine(user=1000, dpkg=False).setup("build")
    assert done.returncode == 0
    assert "packages are not checked" in done.stderr and "libhwy-dev" in done.stderr


@pytest.mark.parametrize("version, good", [("3.18.4", False), ("3.25.1", True), ("4.0.0", True)])
def test_a_cmake_that_is_too_old_is_named_on_any_system(machine, version, good):
    here = machine(user=1000)
    here.program("cmake", f"echo cmake version {version}")
    done = here.setup("--check", "build")
    assert done.returncode == (0 if good else 1)
    assert (f"missing, this is {version}" in done.stderr) != good


def test_root_without_apt_is_told_what_is_missing(machine):
    here = machine(lacks=["libhwy-dev"])
    (here.folder / "apt-get").unlink()
    done = here.setup("build")
    assert done.returncode == 1
    assert "no apt-get to install them with: libhwy-dev\n" in done.stderr


def test_another_system_is_told_to_use_a_container(machine):
    here = machine()
    done = here.setup("build", variables={"KCC_OSTYPE": "darwin23"})
    assert done.returncode == 1
    assert "built and run on Linux; this is darwin23" in done.stderr and "docker run" in done.stderr
    assert here.installed == []


@pytest.mark.parametrize("word, package", [("dist", "dpkg-dev"), ("arm64", "g++-aarch64-linux-gnu")])
def test_what_only_some_need_is_asked_for_by_its_word(machine, word, package):
    here = machine(lacks=[package], user=1000)
    assert here.setup("--check").returncode == 0
    assert f"missing packages: {package}\n" in here.setup("--check", word).stderr


def test_an_unknown_word_is_an_error(machine):
    assert machine().setup("everything").returncode == 2


def test_the_page_names_every_package():
    """docs/getting-started.md lists what the script asks for, in the same words."""
    script, page = SETUP.read_text(), (ROOT / "docs/getting-started.md").read_text()
    table = page.partition("## What the build needs")[2]
    blocks = [script.partition("packages=(\n")[2].partition("\n)")[0]] + re.findall(r"packages\+=\((.*)\)", script)
    assert len(blocks) == 4
    for block in blocks:
        for package in block.split():
            assert f"`{package}`" in table or f" {package} " in table.replace("`", " "), package
