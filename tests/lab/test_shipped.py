"""The lab's model and contract come with the program: found from any folder, in the build tree and installed."""

import pathlib
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHIPPED = ROOT / "models" / "kcc-lab"

# Each needs the model, its requests or the contract, and names none of them.
COMMANDS = {
    "attribute": ["attribute", "--train", "lab:f32", "--infer", "lab:custom?kv=e4m3", "--max-requests", "1",
                  "--quantity", "kl"],
    "first divergence": ["attribute", "lab:f32", "lab:custom?kv=e4m3", "--first-divergence", "--max-requests", "1"],
    "score": ["score", "lab:f32", "--requests", "one.jsonl", "-o", "trace"],
    "e1": ["lab", "e1", "--quick", "--max-requests", "1", "-o", "out"],
    "e2": ["lab", "e2", "--quick", "--max-requests", "1", "--engine", "bf16", "--length", "0", "-o", "out"],
}  # fmt: skip


def run(program, arguments, folder):
    return subprocess.run([program, *map(str, arguments)], cwd=folder, capture_output=True, text=True, timeout=300,
                          check=False)  # fmt: skip


@pytest.fixture
def empty(tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "one.jsonl").write_text((SHIPPED / "eval.jsonl").read_text().splitlines()[0] + "\n")
    return folder


@pytest.fixture(scope="module")
def installed(kcc_path, tmp_path_factory):
    """The program in a prefix of its own, as `cmake --install` puts it there."""
    build = kcc_path.parents[2]
    if not (build / "cmake_install.cmake").exists():
        pytest.skip("the program under test does not lie in its build tree")
    prefix = tmp_path_factory.mktemp("prefix")
    command = ["cmake", "--install", build, "--prefix", prefix, "--component", "program"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return prefix / "bin" / "kcc"


@pytest.fixture
def copied(kcc_path, tmp_path):
    """The program alone, copied away from its data."""
    (tmp_path / "copy").mkdir()
    return pathlib.Path(shutil.copy(kcc_path, tmp_path / "copy" / "kcc"))


@pytest.mark.parametrize("name", COMMANDS)
def test_the_built_program_works_in_an_empty_folder(kcc_path, empty, name):
    done = run(kcc_path, COMMANDS[name], empty)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", COMMANDS)
def test_the_installed_program_works_in_an_empty_folder(installed, empty, name):
    done = run(installed, COMMANDS[name], empty)
    assert done.returncode == 0, done.stderr


def test_what_is_installed_needs_no_checkout(installed):
    shipped = installed.parents[1] / "share" / "kcc"
    assert not [path for path in shipped.rglob("*") if path.is_symlink()]
    assert (shipped / "models/kcc-lab/model.safetensors").read_bytes() == (SHIPPED / "model.safetensors").read_bytes()
    assert (shipped / "contracts/lab.yaml").read_bytes() == (ROOT / "contracts/lab.yaml").read_bytes()


@pytest.mark.parametrize("name, missing, instead", [
    ("attribute", "models/kcc-lab", "lab:NAME?model=DIR"),
    ("score", "models/kcc-lab", "lab:NAME?model=DIR"),
    ("e1", "contracts/lab.yaml", "--contract FILE"),
])  # fmt: skip
def test_a_program_without_its_data_says_where_it_looked_and_what_to_do(copied, empty, name, missing, instead):
    done = run(copied, COMMANDS[name], empty)
    assert done.returncode == 4
    beside = copied.parents[1] / "share" / "kcc" / missing
    assert f"there is no {beside}, nor {missing}." in done.stderr
    assert instead in done.stderr and "cmake --install" in done.stderr


def test_a_copied_program_finds_what_lies_in_the_current_folder(copied, empty):
    for folder in ("models", "contracts"):
        (empty / folder).symlink_to(ROOT / folder)
    for name in ("attribute", "e1"):
        done = run(copied, COMMANDS[name], empty)
        assert done.returncode == 0, done.stderr


def test_the_data_beside_the_program_comes_before_the_current_folder(kcc_path, empty):
    """A folder that holds another model of the same name does not change what a command means."""
    (empty / "models" / "kcc-lab").mkdir(parents=True)
    (empty / "models" / "kcc-lab" / "config.json").write_text("{}")
    (empty / "contracts").mkdir()
    (empty / "contracts" / "lab.yaml").write_text("no contract")
    for name in ("attribute", "e1"):
        done = run(kcc_path, COMMANDS[name], empty)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("arguments", [
    ["score", "lab:f32?model=nowhere", "--requests", "one.jsonl", "-o", "trace"],
    ["attribute", "lab:f32?model=nowhere", "lab:bf16?model=nowhere"],
    ["attribute", "lab:f32", "lab:bf16", "--requests", "nowhere"],
    ["lab", "e1", "--model", "nowhere", "-o", "out"],
    ["lab", "e1", "--requests", "nowhere", "-o", "out"],
    ["lab", "e1", "--contract", "nowhere", "-o", "out"],
], ids=" ".join)  # fmt: skip
def test_a_path_that_is_given_always_counts(kcc_path, empty, arguments):
    done = run(kcc_path, arguments, empty)
    assert done.returncode == 4
    assert "nowhere" in done.stderr and "share/kcc" not in done.stderr
    assert not (empty / "out").exists() and not (empty / "trace").exists()


def test_an_empty_model_is_not_the_shipped_one(kcc_path, empty):
    done = run(kcc_path, ["score", "lab:f32?model=", "--requests", "one.jsonl", "-o", "trace"], empty)
    assert done.returncode == 2
    assert "names no model" in done.stderr
