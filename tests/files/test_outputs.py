"""What -o may name: regular files are replaced in one step, FIFOs and character devices are written through, the rest is refused."""

import fcntl
import os
import resource
import signal
import socket
import stat
import subprocess
import threading

import outputs
import pytest


@pytest.fixture
def commands(inputs):
    """Name -> the command line, less the output."""
    return {
        "measure": ["measure", inputs / "train", inputs / "infer", "-o"],
        "merge": ["merge", inputs / "one.kccs", "-o"],
        "run": ["run", inputs / "a.yaml", "--train", inputs / "train", "--infer", inputs / "infer", "--summary"],
        "author": ["author", "--reward-max", "1", "--reward-drift", "0.02", "-o"],
        "rl": ["rl", "correct", outputs.ROOT / "examples/rl/step.safetensors", "--rule", '{"weight": {"mode": "truncate", "high": 2}}', "-o"],
    }


NAMES = ["measure", "merge", "run", "author", "rl"]


@pytest.fixture
def node(tmp_path):
    """A null device of our own: the machine's must not be put at risk."""
    path = tmp_path / "null"
    try:
        os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        path.write_bytes(b"")
    except PermissionError:
        pytest.skip("device nodes cannot be made or opened here")
    return path


@pytest.mark.parametrize("name", NAMES)
def test_a_character_device_is_written_through(kcc, commands, node, name):
    before = node.lstat()
    done = kcc(*commands[name], node)
    assert done.code == 0, done.err
    after = node.lstat()
    assert stat.S_ISCHR(after.st_mode) and (after.st_ino, after.st_rdev) == (before.st_ino, before.st_rdev)
    assert os.listdir(node.parent) == ["null"]


def test_a_link_to_a_character_device_is_written_through(kcc, commands, node):
    link = node.parent / "link"
    link.symlink_to(node)
    assert kcc(*commands["measure"], link).code == 0
    assert link.is_symlink() and stat.S_ISCHR(node.lstat().st_mode)


@pytest.mark.parametrize("name", NAMES)
def test_a_fifo_is_written_through(kcc, commands, tmp_path, name):
    assert kcc(*commands[name], tmp_path / "file").code == 0
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    got = []
    reader = threading.Thread(target=lambda: got.append(fifo.read_bytes()), daemon=True)
    reader.start()
    done = kcc(*commands[name], fifo)
    assert done.code == 0, done.err
    assert stat.S_ISFIFO(fifo.lstat().st_mode)
    reader.join(10)
    assert got == [(tmp_path / "file").read_bytes()]


def test_standard_output_is_written_through(kcc, kcc_path, commands, tmp_path):
    """Through a link of our own: a program that replaces /dev/stdout breaks the machine of whoever runs the test."""
    assert kcc(*commands["measure"], tmp_path / "file").code == 0
    link = tmp_path / "stdout"
    link.symlink_to("/proc/self/fd/1")
    done = subprocess.run([kcc_path, *commands["measure"], link], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert link.is_symlink() and done.stdout.startswith((tmp_path / "file").read_bytes())


def test_a_reader_that_goes_away_is_an_error(kcc, tmp_path):
    """And not the end of the process by SIGPIPE. The page is larger than a pipe's buffer."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)

    def look():
        with open(fifo, "rb"):
            pass

    threading.Thread(target=look, daemon=True).start()
    done = kcc("rl", "replay", outputs.ROOT / "examples/rl/step.safetensors", "-o", fifo)
    assert done.code == 4 and "Broken pipe" in done.err and str(fifo) in done.err, done.err


def refused(kcc, words, path, what):
    before = {p.name: p.lstat() for p in path.parent.iterdir()}
    done = kcc(*words, path)
    assert done.code == 2 and str(path) in done.err and what in done.err and "name " in done.err, done.err
    assert {p.name: (p.lstat().st_mode, p.lstat().st_ino) for p in path.parent.iterdir()} == {
        name: (info.st_mode, info.st_ino) for name, info in before.items()}  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_the_rest_is_refused(kcc, commands, tmp_path, name):
    (tmp_path / "directory").mkdir()
    refused(kcc, commands[name], tmp_path / "directory", "a directory")
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to("file")
    refused(kcc, commands[name], tmp_path / "link", "link to 'file'")
    assert (tmp_path / "file").read_text() == "mine"
    (tmp_path / "dangling").symlink_to("nowhere")
    refused(kcc, commands[name], tmp_path / "dangling", "does not exist")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        refused(kcc, commands[name], tmp_path / "socket", "a socket")


def test_a_link_is_not_formatted_in_place(kcc, tmp_path):
    (tmp_path / "c.yaml").write_text(outputs.MESSY)
    (tmp_path / "link.yaml").symlink_to("c.yaml")
    done = kcc("fmt", "-i", tmp_path / "link.yaml")
    assert done.code == 2 and "name the file itself" in done.err
    assert (tmp_path / "link.yaml").is_symlink() and (tmp_path / "c.yaml").read_text() == outputs.MESSY


@pytest.mark.parametrize("words", [["score", "lab:f32", "--requests", "{}/one.jsonl"],
                                   ["import", "vllm", outputs.ROOT / "tests/data/import/vllm/generate.jsonl", "--vocab-size", "1000",
                                    "--fingerprint", "x"]], ids=["score", "import"])  # fmt: skip
def test_a_trace_takes_no_name_that_is_in_use(kcc, inputs, tmp_path, words):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "dangling").symlink_to("nowhere")
    for name in ("fifo", "dangling"):
        done = kcc(*(str(word).replace("{}", str(inputs)) for word in words), "-o", tmp_path / name)
        assert done.code == 2 and "exists already" in done.err, done.err
    assert sorted(os.listdir(tmp_path)) == ["dangling", "fifo"]


@pytest.mark.parametrize("mask", [0o022, 0o027, 0o077])
def test_modes_follow_the_umask_which_stays_as_it_is(commands, kcc_path, faults, tmp_path, mask):
    out, log = tmp_path / "out", tmp_path / "calls"
    out.mkdir()
    command = [kcc_path, *map(str, commands["measure"]), str(out / "s.kccs")]
    env = os.environ | faults(out, log=log)
    subprocess.run(command, check=True, capture_output=True, env=env, preexec_fn=lambda: os.umask(mask))
    assert stat.S_IMODE((out / "s.kccs").stat().st_mode) == 0o666 & ~mask
    (out / "s.kccs").chmod(0o640)
    subprocess.run(command, check=True, capture_output=True, env=env, preexec_fn=lambda: os.umask(mask))
    assert stat.S_IMODE((out / "s.kccs").stat().st_mode) == 0o640, "that of the file that it replaces"
    assert "umask" not in log.read_text().split(), "another thread may be making a file at that moment"


@pytest.mark.parametrize("name", [*["measure", "run", "import", "score"],
                                  *[pytest.param(name, marks=pytest.mark.slow) for name in outputs.NAMES
                                    if name not in ("attribute", "requests")]])  # fmt: skip
def test_a_file_beyond_the_limit_is_a_failed_write(bench, name):
    """ulimit -f: without care, SIGXFSZ ends the process and leaves its temporary. A requests file fails before, at its draft.

    So does what reads a register: SQLite's index of the write-ahead log is a file beyond the limit, and the register is named.
    """
    bench = bench(name)
    bench.begin()

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # which Python ignores, and children inherit
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))

    command = bench.output.command(bench.kcc_path, bench.directory, "b")
    done = subprocess.run(command, capture_output=True, text=True, preexec_fn=limit, cwd=outputs.ROOT, check=False)
    place = command[command.index("--register") + 1] if "--register" in command else bench.directory
    assert done.returncode == 4 and "File too large" in done.stderr and str(place) in done.stderr, (done.returncode, done.stderr)
    seen, left = outputs.read(bench.directory)
    assert left == [] and seen == ({} if bench.output.gone else bench.states["old"])


def test_a_live_writer_keeps_its_temporary(kcc, inputs, commands, tmp_path):
    """Known by the lock alone: neither a name nor an age makes it a leftover."""
    alive, dead = tmp_path / ".kcc-aaaaaaaaaa.tmp", tmp_path / ".kcc-bbbbbbbbbb.tmp"
    folder, other = tmp_path / ".kcc-cccccccccc.tmp", tmp_path / ".kcc-backup.tmp"
    for path in (alive, dead, other):
        path.write_text("x")
        os.utime(path, (0, 0))
    (folder / "below").mkdir(parents=True)
    with open(alive) as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert kcc(*commands["measure"], tmp_path / "s.kccs").code == 0
        assert sorted(os.listdir(tmp_path)) == [alive.name, other.name, "s.kccs"]
    assert kcc(*commands["measure"], tmp_path / "s.kccs").code == 0
    assert sorted(os.listdir(tmp_path)) == [other.name, "s.kccs"]
