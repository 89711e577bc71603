"""Exports that this code makes by itself, after docs/register.md: digests are computed a second time."""

import hashlib
import json


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def compact(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def write_export(directory, count, blobs=50):
    """An export of so many events, made by this code alone. -> its head."""
    (directory / "blobs").mkdir(parents=True)
    head, lines = "sha256:" + "0" * 64, []
    for sequence in range(1, count + 1):
        if sequence <= blobs:
            data = f"contract {sequence}".encode() * 50
            (directory / "blobs" / digest(data)[7:]).write_bytes(data)
            kind, body = "contract.added", {"contract": digest(data), "name": f"c{sequence}"}
        else:
            kind, body = "model.added", {"model": f"m{sequence}", "name": "é"}
        text = f'["kcc-register-event-1","{head}",{sequence},{1700000000000 + sequence},"ann","{kind}",{compact(body)}]'
        head = digest(text.encode())
        lines.append(json.dumps({"sequence": sequence, "time": 1700000000000 + sequence, "actor": "ann", "kind": kind,
                                 "body": body, "digest": head}))  # fmt: skip
    (directory / "events.jsonl").write_text("\n".join(lines) + "\n")
    (directory / "register.json").write_text(json.dumps({"format": 1, "head": f"{count}:{head}"}))
    return f"{count}:{head}"
