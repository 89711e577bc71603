"""Token ids of texts by a tokenizer.json, with Hugging Face's `tokenizers`.

    python -m kcc.tokens TOKENIZER IN OUT

TOKENIZER is the file, or a folder that holds one of that name. Each line of IN is {"text": …, "begins": bool};
each line of OUT is the list of ids. A text that begins a sequence gets the special tokens that the tokenizer
puts before and after one, such as a begin-of-text token; the others get none. `kcc requests make` runs this.
"""

from __future__ import annotations

import json
import pathlib
import sys
from collections.abc import Iterable, Iterator


def encode(tokenizer: str | pathlib.Path, texts: Iterable[tuple[str, bool]]) -> Iterator[list[int]]:
    """The ids of each (text, begins a sequence)."""
    import tokenizers

    path = pathlib.Path(tokenizer)
    if path.is_dir():
        path = path / "tokenizer.json"
    read = tokenizers.Tokenizer.from_file(str(path))
    read.no_truncation()
    read.no_padding()
    for text, begins in texts:
        yield read.encode(text, add_special_tokens=begins).ids


def main(arguments: list[str]) -> int:
    if len(arguments) != 3:
        print("usage: python -m kcc.tokens TOKENIZER IN OUT", file=sys.stderr)
        return 2
    tokenizer, source, target = arguments
    try:
        with open(source, encoding="utf-8") as lines, open(target, "w", encoding="utf-8") as out:
            rows = (json.loads(line) for line in lines)
            for ids in encode(tokenizer, ((row["text"], row["begins"]) for row in rows)):
                out.write(json.dumps(ids) + "\n")
    except ModuleNotFoundError as error:
        print(f"{error}; install it with: {sys.executable} -m pip install tokenizers", file=sys.stderr)
        return 3
    except Exception as error:  # `tokenizers` raises plain Exception for a file that it cannot read
        print(f"{tokenizer}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
