"""tools/make_tarball.sh: the same files give the same bytes, whoever packs them, when and where."""

import os
import pathlib
import subprocess
import tarfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
EPOCH = 1_700_000_000


def make_tree(folder, order, when, mode):
    """kcc-1 with a program, a link and a folder; files made in the order given, at a time, with a mask of modes."""
    tree = folder / "kcc-1"
    (tree / "bin").mkdir(parents=True)
    (tree / "lib").mkdir()
    for name in order:
        path = tree / name
        path.write_text(name)
        path.chmod(mode | (0o111 if name.startswith("bin") else 0))
    (tree / "lib" / "libkcc.so").symlink_to("libkcc.so.1")
    for path in tree.rglob("*"):
        os.utime(path, (when, when), follow_symlinks=False)
    return tree


def pack(tree, to, epoch=EPOCH):
    environment = dict(os.environ, SOURCE_DATE_EPOCH=str(epoch)) if epoch else {"PATH": os.environ["PATH"]}
    return subprocess.run([ROOT / "tools/make_tarball.sh", tree, to], env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def two(tmp_path):
    names = ["bin/kcc", "lib/libkcc.so.1", "LICENSE"]
    first = make_tree(tmp_path / "a", names, 1_000_000_000, 0o644)
    second = make_tree(tmp_path / "b", names[::-1], 1_600_000_000, 0o664)
    return first, second


def test_times_order_and_group_rights_do_not_count(two, tmp_path):
    files = []
    for number, tree in enumerate(two):
        files.append(tmp_path / f"{number}.tar.gz")
        done = pack(tree, files[-1])
        assert done.returncode == 0, done.stderr
    assert files[0].read_bytes() == files[1].read_bytes()
    with tarfile.open(files[0]) as packed:
        members = {member.name: member for member in packed}
    assert list(members) == sorted(members)
    assert {(m.uid, m.gid, m.mtime) for m in members.values()} == {(0, 0, EPOCH)}
    assert members["kcc-1/bin/kcc"].mode == 0o755 and members["kcc-1/LICENSE"].mode == 0o644
    assert members["kcc-1/lib/libkcc.so"].linkname == "libkcc.so.1"


def test_one_byte_more_is_another_tarball(two, tmp_path):
    pack(two[0], tmp_path / "0.tar.gz")
    (two[1] / "LICENSE").write_text("LICENSE!")
    pack(two[1], tmp_path / "1.tar.gz")
    assert (tmp_path / "0.tar.gz").read_bytes() != (tmp_path / "1.tar.gz").read_bytes()


def test_without_a_time_nothing_is_packed(two, tmp_path):
    done = pack(two[0], tmp_path / "0.tar.gz", epoch=None)
    assert done.returncode != 0 and "SOURCE_DATE_EPOCH" in done.stderr
    assert not list(tmp_path.glob("*.tar.gz*"))


def test_a_folder_that_is_not_there_leaves_no_tarball(tmp_path):
    assert pack(tmp_path / "nothing", tmp_path / "0.tar.gz").returncode != 0
    assert not (tmp_path / "0.tar.gz").exists()
