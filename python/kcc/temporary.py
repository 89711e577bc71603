"""A directory that appears whole or not at all, by the rules of docs/outputs.md: made under another name, locked while its writer lives, renamed
at the end. What a killed writer left is removed by the next one in the same place."""

import contextlib
import fcntl
import os
import pathlib
import random
import re
import shutil

LETTERS = "abcdefghijklmnopqrstuvwxyz234567"
NAME = re.compile(r"\.kcc-[a-z2-7]{10}\.tmp")


@contextlib.contextmanager
def new_directory(target):
    """with new_directory("traces/a") as folder: what is written into `folder` is in traces/a afterwards. FileExistsError if that exists."""
    target = pathlib.Path(target)
    if os.path.lexists(target):
        raise FileExistsError(f"{target} exists already")
    target.parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers(target.parent)
    folder, lock = _make(target.parent)
    try:
        yield folder
        folder.rename(target)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    finally:
        os.close(lock)


def remove_leftovers(directory):
    for entry in list(os.scandir(directory)):
        if not NAME.fullmatch(entry.name) or entry.stat(follow_symlinks=False).st_uid != os.geteuid():
            continue
        if not entry.is_dir(follow_symlinks=False) and not entry.is_file(follow_symlinks=False):
            continue
        with contextlib.suppress(OSError):
            lock = os.open(entry.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                if _lock(lock, entry.path) == "taken":
                    (shutil.rmtree if entry.is_dir(follow_symlinks=False) else os.unlink)(entry.path)
            finally:
                os.close(lock)


def _lock(fd, path):
    """Takes the lock: "taken", "lost" or, where there are no locks, "unknown". It counts only if the name still means the locked file: else
    somebody removed or renamed it first."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        result = "taken"
    except BlockingIOError:
        return "lost"
    except OSError:
        result = "unknown"
    try:
        same = os.path.samestat(os.fstat(fd), os.stat(path, follow_symlinks=False))
    except FileNotFoundError:
        same = False
    return result if same else "lost"


def _make(parent):
    choose = random.SystemRandom()
    while True:
        folder = parent / f".kcc-{''.join(choose.choices(LETTERS, k=10))}.tmp"
        folder.mkdir()
        try:
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except FileNotFoundError:
            continue  # taken for a leftover before it had its lock
        if _lock(lock, folder) != "lost":
            return folder, lock
        os.close(lock)
