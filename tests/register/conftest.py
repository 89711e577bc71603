"""Registers to try things on: a file, and a schema of a PostgreSQL server that the tests start."""

import itertools
import pathlib
import shutil
import subprocess
import tempfile

import pytest

HERE = pathlib.Path(__file__).parent


class Server:
    """tests/register/postgres.sh: it stops when its standard input ends, however this process ends."""

    def __init__(self, folder):
        self.folder = folder
        self.process = subprocess.Popen([HERE / "postgres.sh", folder / "server"], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)  # fmt: skip
        self.uri = self.process.stdout.readline().strip()
        # Not skipped: a machine without the server has not tested what it says it did.
        assert self.uri, "no PostgreSQL server could be started; run tools/setup.sh"
        self.count = itertools.count(1)

    def new_schema(self):
        name = f"py{next(self.count)}"
        self.psql(f"CREATE SCHEMA {name}")
        return f"{self.uri}&options=-csearch_path%3D{name}"

    def psql(self, sql, uri=None):
        subprocess.run(["psql", "-q", "-v", "ON_ERROR_STOP=1", uri or self.uri, "-c", sql], check=True)

    def tell(self, word):
        """stop or start."""
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def close(self):
        self.process.stdin.close()
        self.process.wait()


@pytest.fixture(scope="session")
def postgres():
    # Not below pytest's own folder: the server is another user, and must get there.
    folder = pathlib.Path(tempfile.mkdtemp(prefix="kcc-pg-", dir="/tmp"))
    folder.chmod(0o755)
    server = Server(folder)
    yield server
    server.close()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(params=["sqlite", "postgres"])
def backend(request):
    return request.param


@pytest.fixture
def new_uri(backend, tmp_path, request):
    """new_uri() -> a place for a register."""
    count = itertools.count(1)

    def make():
        if backend == "sqlite":
            return str(tmp_path / f"register{next(count)}.db")
        return request.getfixturevalue("postgres").new_schema()

    return make


@pytest.fixture
def uri(new_uri, kcc):
    """A register, made."""
    place = new_uri()
    made = kcc("register", "init", "--register", place)
    assert made.code == 0, made.err
    return place
