"""The examples of docs/python.md, run as they stand."""

import doctest
import pathlib
import re

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/python.md"


def test_examples_of_the_page():
    blocks = re.findall(r"```pycon\n(.*?)```", PAGE.read_text(), re.S)
    examples = doctest.DocTestParser().get_doctest("".join(blocks), {}, "docs/python.md", str(PAGE), 0)
    runner = doctest.DocTestRunner()
    assert len(examples.examples) > 15
    result = runner.run(examples)
    assert result.failed == 0
