"""The sample reports, written once a run by the program that the C++ tests share."""

import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def samples(tmp_path_factory):
    """A folder with <sample>/report.{json,html,md,txt,sarif}, <sample>/junit.xml and schema.json."""
    build = pathlib.Path(os.environ.get("KCC_BUILD", ROOT / "build" / "release"))
    program = build / "tests" / "kcc_report_sample_files"
    assert program.exists(), f"{program} is missing: cmake --build --preset release"
    folder = tmp_path_factory.mktemp("reports")
    subprocess.run([program, folder], check=True)
    return folder
