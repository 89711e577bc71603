"""The synthetic corpus: five skills, made from a seed, with a held-out half that training never sees.

A document is bos, user, the prompt's bytes, assistant, the answer's bytes, eos; a byte is its own
token id. Every answer follows from its prompt, so that one exact answer is right and a kernel that
writes another one is wrong:

  arithmetic  sums and one-digit products, worked digit by digit from the right
  json        a tool call against a schema: its fields in its order, its types, nothing else
  refusal     harmful requests are refused in one fixed sentence, the others are answered
  recall      numbered boxes named among prose, one of them asked for; any length
  copy        a string, repeated

Whether a document is held out is decided by a hash of its prompt, not by the seed that made it: the
two sets are disjoint whatever the seeds.

    python -m kcc.model.corpus DIRECTORY     writes eval.jsonl and eval-long.jsonl
"""

import dataclasses
import json
import pathlib
import random
import sys
import zlib

BOS, EOS, PAD, USER, ASSISTANT = 256, 257, 258, 259, 260
SPECIAL = {BOS: "<s>", EOS: "</s>", PAD: "<pad>", USER: "<user>", ASSISTANT: "<assistant>"}
HELD_OUT_SEED = 2026
REFUSAL = "I can't help with that."

# Share of documents of each skill in training.
SHARES = {"arithmetic": 0.40, "json": 0.24, "refusal": 0.10, "recall": 0.10, "copy": 0.16}

LETTERS = "abcdefghijklmnopqrstuvwxyz"
FIELDS = "city days name size user path count mode lang unit topic limit color level code date".split()
VERBS = "get set find add send open make read list check".split()
NOUNS = "rain timer song file mail note route price light event".split()
SAFE_VERBS = "paint clean repair bake draw plant measure carry build wash label store".split()
HARMFUL_VERBS = "hack forge steal poison sabotage hijack smuggle burn".split()
SAFE_OBJECTS = (
    "fence table bicycle window garden shelf lamp carpet boat kettle mirror basket jacket roof door "
    "piano chair bridge wagon bottle"
).split()
HARMFUL_OBJECTS = "bomb virus weapon explosive landmine nerve-gas".split()
ASKING = ("How do I {} a {}?", "Tell me how to {} a {}.", "I want to {} a {}.", "Please help me {} a {}.")
PROSE = (
    "The river is calm today.",
    "A cat sleeps on the wall.",
    "Rain fell all night.",
    "The market opens at dawn.",
    "Nobody saw the train leave.",
    "Bread is cheap in the village.",
    "The old clock has stopped.",
    "Snow covers the far hills.",
)


@dataclasses.dataclass(frozen=True)
class Document:
    skill: str
    prompt: str
    answer: str
    breaks: tuple = ()  # offsets into the prompt where unrelated text might stand

    @property
    def prompt_ids(self):
        return [BOS, USER, *self.prompt.encode(), ASSISTANT]

    @property
    def answer_ids(self):
        return [*self.answer.encode(), EOS]

    @property
    def held_out(self):
        return zlib.crc32(self.prompt.encode()) % 16 == 0


def word(rng, low, high):
    return "".join(rng.choices(LETTERS, k=rng.randint(low, high)))


def arithmetic(rng):
    """Digits from the right; each step states its digits, its sum or product and its carry."""
    if rng.random() < 0.6:
        a, b = (rng.randint(0, 10 ** rng.randint(1, 3) - 1) for _ in range(2))
        steps, carry = [], 0
        x, y = str(a)[::-1], str(b)[::-1]
        for place in range(max(len(x), len(y))):
            left, right = (int(digits[place]) if place < len(digits) else 0 for digits in (x, y))
            total = left + right + carry
            steps.append(f"{left}+{right}+{carry}={total}")
            carry = total // 10
        return Document("arithmetic", f"{a}+{b}", " ".join(steps) + f" so {a + b}")
    a, b = rng.randint(0, 10 ** rng.randint(1, 3) - 1), rng.randint(0, 9)
    steps, carry = [], 0
    for digit in str(a)[::-1]:
        total = int(digit) * b + carry
        steps.append(f"{digit}*{b}+{carry}={total}")
        carry = total // 10
    return Document("arithmetic", f"{a}*{b}", " ".join(steps) + f" so {a * b}")


def json_call(rng):
    """The request names its values in any order and may name one that the schema does not have."""
    tool = f"{rng.choice(VERBS)}_{rng.choice(NOUNS)}"
    names = rng.sample(FIELDS, rng.randint(1, 3) + 1)
    kinds = {name: rng.choice(("string", "string", "integer", "boolean")) for name in names}
    make = {
        "string": lambda: word(rng, 3, 6),
        "integer": lambda: rng.randint(0, 9999),
        "boolean": lambda: rng.random() < 0.5,
    }
    values = {name: make[kinds[name]]() for name in names}
    wanted = names[:-1]
    given = names if rng.random() < 0.3 else list(wanted)
    rng.shuffle(given)
    schema = ", ".join(f"{name}: {kinds[name]}" for name in wanted)
    said = ", ".join(f"{name} {str(values[name]).lower()}" for name in given)
    call = {"tool": tool, "args": {name: values[name] for name in wanted}}
    return Document("json", f"{tool}({schema})\nUse {said}.", json.dumps(call, separators=(",", ":")))


def refusal(rng):
    kind = rng.random()
    verb = rng.choice(HARMFUL_VERBS if kind < 0.3 else SAFE_VERBS)
    thing = rng.choice(HARMFUL_OBJECTS if 0.3 <= kind < 0.5 else SAFE_OBJECTS)
    prompt = rng.choice(ASKING).format(verb, thing)
    harmful = verb in HARMFUL_VERBS or thing in HARMFUL_OBJECTS
    if rng.random() < 0.5:
        prompt = f"{rng.choice(PROSE)} {prompt}"
    return Document("refusal", prompt, REFUSAL if harmful else f"Sure. {verb.capitalize()} the {thing} slowly.")


def recall(rng, sentences=None):
    """Boxes among prose; positions may jump at any sentence, which is how short rows train long contexts."""
    count = rng.randint(2, 8) if sentences is None else min(24, max(8, sentences // 8))
    filler = rng.randint(0, 4) if sentences is None else sentences - count
    codes = {}
    while len(codes) < count:
        codes[word(rng, 4, 4)] = f"{rng.randint(0, 9999):04d}"
    lines = [f"Box {name}{code}." for name, code in codes.items()]
    lines += [rng.choice(PROSE) for _ in range(filler)]
    rng.shuffle(lines)
    name = rng.choice(list(codes))
    breaks, offset = [], 0
    for line in lines:
        offset += len(line) + 1
        breaks.append(offset)
    prompt = " ".join(lines) + f" Find {name}."
    return Document("recall", prompt, f"{name}{codes[name]}", tuple(breaks))


def copy(rng):
    alphabet = rng.choice((LETTERS, LETTERS + "  ", LETTERS.upper() + "0123456789-"))
    text = "".join(rng.choices(alphabet, k=rng.randint(4, 16))).strip()
    return Document("copy", f"Repeat: {text}", text)


MAKERS = {"arithmetic": arithmetic, "json": json_call, "refusal": refusal, "recall": recall, "copy": copy}


def documents(seed, held_out=False, skills=None):
    """An endless stream, drawn by SHARES."""
    rng = random.Random(seed)
    names = list(skills or SHARES)
    weights = [SHARES[name] for name in names]
    while True:
        document = MAKERS[rng.choices(names, weights)[0]](rng)
        if document.held_out == held_out:
            yield document


def held_out(skill, count, seed=HELD_OUT_SEED):
    """`count` different held-out documents of one skill."""
    found = {}
    for document in documents(f"{seed}/{skill}", held_out=True, skills=[skill]):
        found.setdefault(document.prompt, document)
        if len(found) == count:
            return list(found.values())


def long_recall(tokens, count, seed=HELD_OUT_SEED):
    """Held-out recall documents of at most `tokens` tokens, and close to it."""
    rng = random.Random(f"{seed}/long/{tokens}")
    found = []
    while len(found) < count:
        document = recall(rng, sentences=tokens // 29)
        size = len(document.prompt_ids) + len(document.answer_ids)
        if document.held_out and 0.8 * tokens < size <= tokens:
            found.append(document)
    return found


def request(name, document):
    """A line of a requests file."""
    return {
        "id": name,
        "prompt": document.prompt_ids,
        "output": document.answer_ids,
        "tags": [document.skill],
        "expected": document.answer,
        "gold": "output",
    }


def write_evaluation(directory):
    directory = pathlib.Path(directory)
    short = [(s, d) for s in MAKERS for d in held_out(s, 80)]
    long = [(f"recall-{size}", d) for size in (2048, 4096, 8192) for d in long_recall(size, 4)]
    for file, pairs in (("eval.jsonl", short), ("eval-long.jsonl", long)):
        counts, lines = {}, []
        for label, document in pairs:
            counts[label] = counts.get(label, 0) + 1
            line = request(f"{label}-{counts[label]:03d}", document)
            lines.append(json.dumps(line, separators=(",", ":")) + "\n")
        (directory / file).write_text("".join(lines))


if __name__ == "__main__":
    write_evaluation(sys.argv[1])
