"""Measures a large evaluation on a Ray cluster.

Each task runs ``kcc measure --shard i/n`` on one part of the pair of traces, and ``kcc merge`` puts
the parts together. Summaries are exact, so the result has the same bytes as one process would give,
whatever the number of shards and the order in which they finish.

The traces, the contract and the ``kcc`` program must be visible to every node (a shared file
system); only the summaries, which are small, travel through Ray. Ray itself is optional:
``pip install ray``.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import tempfile

from . import errors


class KccError(errors.Error, RuntimeError):
    """A kcc command failed. `returncode` is its exit code, `stderr` what it said."""

    def __init__(self, command: list[str], returncode: int, stderr: str):
        self.command = command
        self.returncode = returncode
        self.stderr = stderr
        super().__init__(f"`{' '.join(command)}` exited with {returncode}:\n{stderr.strip()}")

    def __reduce__(self):  # exceptions cross process borders by pickle
        return (KccError, (self.command, self.returncode, self.stderr))


def measure_command(
    kcc_binary: str,
    train: str,
    infer: str,
    output: str,
    contract: str | None = None,
    shard: tuple[int, int] | None = None,
    threads: int = 1,
) -> list[str]:
    """The command line that measures one part; `shard` is (index from 1, count)."""
    command = [kcc_binary, "measure", train, infer, "--threads", str(threads), "-o", output]
    if contract is not None:
        command += ["--contract", contract]
    if shard is not None:
        index, count = shard
        if not 1 <= index <= count:
            raise errors.InvalidInput(f"shard {index}/{count}: the index counts from 1 to {count}")
        command += ["--shard", f"{index}/{count}"]
    return command


def run_command(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise KccError(command, done.returncode, done.stderr)


def measure_shard(
    kcc_binary: str, train: str, infer: str, contract: str | None, index: int, count: int, threads: int
) -> bytes:
    """Measures one part and returns its summary. This is what a task does."""
    with tempfile.TemporaryDirectory(prefix="kcc-") as scratch:
        output = os.path.join(scratch, "part.kccs")
        run_command(
            measure_command(kcc_binary, train, infer, output, contract, (index, count), threads)
        )
        return pathlib.Path(output).read_bytes()


def merge_parts(kcc_binary: str, parts: list[bytes], output: str) -> None:
    """Merges summaries into `output`, which appears whole or not at all."""
    with tempfile.TemporaryDirectory(prefix="kcc-") as scratch:
        paths = []
        for index, part in enumerate(parts):
            path = os.path.join(scratch, f"part-{index:05d}.kccs")
            pathlib.Path(path).write_bytes(part)
            paths.append(path)
        run_command([kcc_binary, "merge", *paths, "-o", output])


def measure(
    train: str | os.PathLike,
    infer: str | os.PathLike,
    contract: str | os.PathLike | None = None,
    *,
    output: str | os.PathLike,
    shards: int = 4,
    threads: int = 1,
    kcc_binary: str = "kcc",
) -> pathlib.Path:
    """Measures `train` against `infer` in `shards` Ray tasks and writes the summary to `output`.

    Uses the running Ray session, or starts a local one. Each task reserves `threads` CPUs. Raises
    KccError with kcc's own words if a part fails; nothing is written then.
    """
    if shards < 1:
        raise errors.InvalidInput("shards: at least 1")
    try:
        import ray
    except ImportError as error:
        raise ImportError("kcc.ray needs Ray: pip install ray") from error
    if not ray.is_initialized():
        ray.init(include_dashboard=False, log_to_driver=False)
    arguments = (
        kcc_binary,
        os.path.abspath(train),
        os.path.abspath(infer),
        None if contract is None else os.path.abspath(contract),
    )
    # Workers get this module with the task, so that they need nothing but the kcc program.
    for module in (errors, sys.modules[__name__]):
        ray.cloudpickle.register_pickle_by_value(module)
    task = ray.remote(num_cpus=threads)(measure_shard)
    waiting = [task.remote(*arguments, index, shards, threads) for index in range(1, shards + 1)]
    try:
        parts = ray.get(waiting)
    except ray.exceptions.RayTaskError as error:
        cause = error.as_instanceof_cause()
        raise cause if isinstance(cause, KccError) else error
    finally:
        for reference in waiting:
            ray.cancel(reference, force=False)
    merge_parts(kcc_binary, parts, str(output))
    return pathlib.Path(output)
