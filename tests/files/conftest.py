"""Inputs of every command that writes, the file layer with faults, and a bench for each output."""

import json
import os
import pathlib
import shutil
import subprocess

import outputs
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def inputs(kcc_path, made_once):
    def make(directory):
        def kcc(*words):
            return subprocess.run([kcc_path, *map(str, words)], check=True, capture_output=True, cwd=ROOT).stdout

        for side in ("train", "infer"):
            shutil.copytree(ROOT / "examples/traces" / side, directory / side)
        (directory / "one.jsonl").write_text((ROOT / "models/kcc-lab/eval.jsonl").read_text().splitlines()[0] + "\n")
        shutil.copy(ROOT / "examples/rl/tempered.npz", directory / "step.npz")
        # In place of `python -m kcc.tokens TOKENIZER IN OUT`: the ids do not matter here, and each trial starts it.
        tokens = directory / "tokens.sh"
        tokens.write_text('#!/bin/sh\nwhile read -r _; do echo "[1, 2]"; done < "$4" > "$5"\n')
        tokens.chmod(0o755)
        for variant in "ab":
            (directory / f"{variant}.prompts").write_text(f'{{"id": "{variant}", "prompt": "x", "output": "y"}}\n')
        subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", directory / "key.pem"], check=True)
        kcc("measure", directory / "train", directory / "infer", "-o", directory / "one.kccs")
        kcc("measure", directory / "infer", directory / "train", "-o", directory / "two.kccs")
        for variant in "ab":
            contract = directory / f"{variant}.yaml"
            contract.write_text(outputs.CONTRACT.replace("NAME", variant))
            sampled = outputs.CONTRACT.replace("NAME", variant).replace("max_kl", "max_abs_log_ratio")
            (directory / f"{variant}-sampled.yaml").write_text(sampled)
            kcc("judge", contract, directory / "one.kccs", "--report", directory / variant)
            shutil.copy(directory / variant / "report.json", directory / f"{variant}.json")
            kcc("register", "init", "--register", directory / f"{variant}.db")
            kcc("register", "add", "contract", contract, "--actor", "ann", "--time", "2026-11-18", "--register", directory / f"{variant}.db")

        kept = ["--register", directory / "kept.db"]
        kcc("register", "init", *kept)
        kcc("run", directory / "a.yaml", "--train", "lab:f32?threads=1", "--infer", "lab:bf16?threads=1", "--requests", directory / "one.jsonl",
            "--store", "full", "--store-sample", 1, "--actor", "ann", "--time", "2026-11-18", *kept)
        (entry,) = json.loads(kcc("register", "list", "requests", "--json", *kept))["entries"]
        kcc("register", "blob", entry["id"], "-o", directory / "stored.json", *kept)

    return made_once("file-inputs", make)


@pytest.fixture
def bench(inputs, kcc_path, tmp_path):
    """bench(name) -> outputs.Bench."""

    def make(name):
        (output,) = [output for output in outputs.table(inputs) if output.name == name]
        return outputs.Bench(output, kcc_path, tmp_path / "out")

    return make


@pytest.fixture(scope="session")
def faults(made_once):
    """faults(directory, kind, at, log) -> the environment in which that call below the directory fails."""

    def make(directory):
        source = ROOT / "tests/files/file_faults.c"
        command = ["cc", "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", source, "-o", directory / "file_faults.so", "-ldl"]
        subprocess.run(command, check=True)

    library = made_once("file-faults", make) / "file_faults.so"

    def environment(directory, kind="", at=0, log=os.devnull):
        return {"LD_PRELOAD": str(library), "KCC_FAULT_BELOW": str(directory), "KCC_FAULT": kind, "KCC_FAULT_AT": str(at),
                "KCC_FAULT_LOG": str(log)}  # fmt: skip

    return environment
