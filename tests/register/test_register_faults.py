"""What the world can do to a register: each with its message, and nothing lost."""

import json
import os
import shutil
import sqlite3
import subprocess
import tempfile

import pytest
from made_export import write_export

ROOT_ONLY = pytest.mark.skipif(os.getuid() != 0, reason="starts programs as another user")


@pytest.fixture
def file(tmp_path, kcc):
    path = tmp_path / "folder" / "register.db"
    path.parent.mkdir()
    assert kcc("register", "init", "--register", path).code == 0
    assert kcc("register", "add", "model", "m1", "--register", path).code == 0
    return path


def events_of(kcc, uri):
    check = kcc("register", "verify", "--json", "--register", uri)
    assert check.code == 0, check.out + check.err
    return check.json["events"]


def test_what_is_no_register(kcc, tmp_path, file):
    text = tmp_path / "text.db"
    text.write_text("this is not a database, only a text that is long enough to look at\n" * 20)
    other = tmp_path / "other.db"
    sqlite3.connect(other).executescript("CREATE TABLE a (b); PRAGMA journal_mode=DELETE;")
    empty = tmp_path / "empty.db"
    empty.touch()
    cases = [
        (tmp_path / "none.db", 4, "there is no register here; make one with `kcc register init`"),
        (text, 2, "is not a register: it is not an SQLite database"),
        (other, 2, "is not a register: an SQLite database of something else"),
        (empty, 2, "is not a register yet"),
        (tmp_path, 2, "is not a register: it is not a file"),
        ("mysql://h/d", 2, "'mysql' registers are not known"),
        ("", 2, "no register is named"),
    ]
    for uri, code, message in cases:
        done = kcc("register", "head", "--register", uri)
        assert (done.code, message in done.err) == (code, True), done.err
    for path in (text, other):  # init leaves what is another's as it is
        before = path.read_bytes()
        assert kcc("register", "init", "--register", path).code == 2
        assert path.read_bytes() == before
    assert not (tmp_path / "none.db").exists()


def test_other_versions(kcc, file):
    for version, message in ((0, "keep a copy, then bring it forward"), (7, "use a newer kcc")):
        database = sqlite3.connect(file)
        database.execute("UPDATE kcc_register SET version = ?", [version])
        database.commit()
        database.close()
        done = kcc("register", "head", "--register", file)
        assert done.code == 2
        assert f"the register has version {version}" in done.err
        assert message in done.err


def test_a_damaged_file_is_an_error(kcc, file):
    data = bytearray(file.read_bytes())
    data[4096:8192] = os.urandom(4096)
    file.write_bytes(data)
    done = kcc("register", "verify", "--register", file)
    assert done.code == 4
    assert "damaged" in done.err or "broken" in done.out


def preloaded(folder, code):
    """A library that stands before the system's calls."""
    source, library = folder / "faults.c", folder / "faults.so"
    headers = ("dlfcn", "errno", "fcntl", "stdarg", "stdlib", "sys/stat", "sys/types")
    source.write_text("#define _GNU_SOURCE\n" + "".join(f"#include <{name}.h>\n" for name in headers) + code)
    subprocess.run(["cc", "-shared", "-fPIC", source, "-o", library, "-ldl"], check=True)
    return library


# From the n-th on, no file and no folder can be made in the register's place: its file system has no more of them.
NO_MORE_FILES = """
static int refused(const char* path) {
  static long left = -1;
  if (left < 0) left = atol(getenv("FILES_LEFT"));
  if (strncmp(path, getenv("FILES_IN"), strlen(getenv("FILES_IN"))) != 0 || left-- > 0) return 0;
  left = 0;
  errno = ENOSPC;
  return 1;
}
int open64(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = va_arg(rest, mode_t);
  va_end(rest);
  int (*real)(const char*, int, ...) = dlsym(RTLD_NEXT, "open64");
  struct stat found;
  const int makes = (flags & O_TMPFILE) == O_TMPFILE || ((flags & O_CREAT) && stat(path, &found) != 0);
  return makes && refused(path) ? -1 : real(path, flags, mode);
}
int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = va_arg(rest, mode_t);
  va_end(rest);
  return open64(path, flags, mode);
}
int mkdir(const char* path, mode_t mode) {
  int (*real)(const char*, mode_t) = dlsym(RTLD_NEXT, "mkdir");
  return refused(path) ? -1 : real(path, mode);
}
"""


def test_init_on_a_full_disk_says_so(kcc, tmp_path):
    library = preloaded(tmp_path, "#include <string.h>\n" + NO_MORE_FILES)
    folder = tmp_path / "full"
    folder.mkdir()
    refused = []
    for left in range(10):
        path = folder / f"{left}.db"
        done = kcc("register", "init", "--register", path,
                   env={"LD_PRELOAD": str(library), "FILES_LEFT": str(left), "FILES_IN": str(folder)})  # fmt: skip
        assert done.code in (0, 4), done.err
        if done.code == 4:
            refused.append(left)
            assert "the disk is full" in done.err or "No space left on device" in done.err, done.err
            assert "No such file" not in done.err
        # It is there as a whole, if only what comes after had no room, or not at all.
        assert path.exists() or done.code == 4
        if path.exists():
            assert events_of(kcc, path) == 0
            path.unlink()
    assert refused == list(range(len(refused))) and 3 < len(refused) < 10, refused
    assert not any(path.name.endswith(".tmp") for path in folder.iterdir()), "nothing is left behind"


@ROOT_ONLY
def test_init_on_a_file_system_without_room(kcc_path, tmp_path):
    """The same on a real one, in a name space of its own: a folder, a file, and no place for a third."""
    script = 'mount -t tmpfs -o nr_inodes=3 none "$1" && exec "$2" register init --register "$1/r.db"'
    done = subprocess.run(["unshare", "-m", "sh", "-c", script, "sh", tmp_path, kcc_path], capture_output=True, text=True, check=False)
    if "mount:" in done.stderr or "unshare:" in done.stderr:
        pytest.skip("no file system can be mounted here")
    assert done.returncode == 4, done.stderr
    assert "the disk is full" in done.stderr or "No space left on device" in done.stderr, done.stderr


def test_a_full_disk_loses_nothing(kcc, file, tmp_path):
    """Every write from the n-th on fails for want of room."""
    library = preloaded(tmp_path, """
        static long left = -1;
        ssize_t pwrite64(int fd, const void* bytes, size_t count, off_t at) {
          if (left < 0) left = atol(getenv("WRITES_LEFT"));
          if (left-- <= 0) { left = 0; errno = ENOSPC; return -1; }
          ssize_t (*real)(int, const void*, size_t, off_t) = dlsym(RTLD_NEXT, "pwrite64");
          return real(fd, bytes, count, at);
        }
        ssize_t pwrite(int fd, const void* bytes, size_t count, off_t at) { return pwrite64(fd, bytes, count, at); }
        """)
    refused = 0
    for left in range(12):
        before = events_of(kcc, file)
        done = kcc("register", "add", "model", f"x{left}", "--register", file,
                   env={"LD_PRELOAD": str(library), "WRITES_LEFT": str(left)})  # fmt: skip
        assert done.code in (0, 4), done.err
        if done.code == 4:
            refused += 1
            assert "the disk is full; nothing of this step was written" in done.err
        assert events_of(kcc, file) == before + (1 if done.code == 0 else 0)
    assert refused > 2


@ROOT_ONLY
def test_a_file_that_cannot_be_written_can_be_read(kcc_path, file, tmp_path):
    shutil.copy(kcc_path, tmp_path / "kcc")
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == os.getuid() and folder.is_relative_to(tempfile.gettempdir()):
            folder.chmod(folder.stat().st_mode | 0o055)
    file.chmod(0o444)
    file.parent.chmod(0o555)

    def run(*arguments):
        return subprocess.run([tmp_path / "kcc", "register", *arguments, "--register", file], capture_output=True,
                              text=True, user="nobody", group="nogroup", check=False)  # fmt: skip

    read = run("verify")
    assert read.returncode == 0, read.stderr
    written = run("add", "model", "m2")
    assert written.returncode == 4
    assert "the register is read-only; nothing was written" in written.stderr
    file.parent.chmod(0o755)


@pytest.mark.slow  # waits for the lock for ten seconds
def test_a_locked_file(kcc, file):
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    done = kcc("register", "add", "model", "m2", "--register", file)
    assert done.code == 4
    assert "another process holds the register, for more than 10 seconds" in done.err
    other.execute("ROLLBACK")
    other.close()
    assert events_of(kcc, file) == 1


def test_a_password_is_never_shown(kcc, postgres):
    host = postgres.uri.split("host=")[1]
    secret = "correct-horse"
    for uri, message in [
        (f"postgresql://locked:{secret}@/kcc?host={host}", "refused the user or the password"),
        (f"postgresql://locked@/kcc?host={host}&password={secret}", "refused the user or the password"),
        (f"postgresql://locked:{secret}@nowhere.invalid/kcc?connect_timeout=2", "no connection to the server"),
        (f"postgresql://locked:{secret}@[oops/kcc", "the address of the server cannot be read"),
        (f"postgresql://kcc:{secret}@/nothing?host={host}", "no connection to the server"),
    ]:
        for command in (["head"], ["init", "--json"]):
            done = kcc("register", *command, "--register", uri)
            assert done.code in (2, 4)
            assert message in done.err, done.err
            assert secret not in done.err + done.out
    right = f"postgresql://locked:opensesame@/kcc?host={host}"
    assert "opensesame" not in kcc("register", "head", "--register", right).err


def test_a_server_that_goes_away(kcc, kcc_path, postgres, tmp_path):
    uri = postgres.new_schema()
    assert kcc("register", "init", "--register", uri).code == 0
    assert kcc("register", "add", "model", "m1", "--register", uri).code == 0
    assert postgres.tell("stop") == "stopped"
    done = kcc("register", "add", "model", "m2", "--register", uri)
    assert done.code == 4
    assert "no connection to the server" in done.err
    assert postgres.tell("start") == "started"
    assert events_of(kcc, uri) == 1
    # In the middle of a write.
    other = postgres.new_schema()
    assert kcc("register", "init", "--register", other).code == 0
    write_export(tmp_path / "export", 40_000)  # some seconds of writing
    writer = subprocess.Popen([kcc_path, "register", "import", tmp_path / "export", "--json", "--register", other],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # fmt: skip
    with pytest.raises(subprocess.TimeoutExpired):
        writer.wait(0.3)
    assert postgres.tell("stop") == "stopped"
    out, err = writer.communicate()
    assert writer.returncode == 4
    assert "the connection to the server was lost" in err
    assert "error" in json.loads(out)
    assert postgres.tell("start") == "started"
    assert events_of(kcc, other) == 0
