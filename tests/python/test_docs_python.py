"""The Python examples of the README and of docs/python.md, run as they stand."""

import doctest
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name, least", [("README.md", 5), ("docs/python.md", 16)])
def test_examples_of_the_page(name, least, monkeypatch):
    monkeypatch.chdir(ROOT)
    page = ROOT / name
    blocks = re.findall(r"```pycon\n(.*?)```", page.read_text(), re.S)
    examples = doctest.DocTestParser().get_doctest("".join(blocks), {}, name, str(page), 0)
    runner = doctest.DocTestRunner()
    assert len(examples.examples) >= least
    result = runner.run(examples)
    assert result.failed == 0
