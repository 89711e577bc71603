"""Contracts: the tolerated gap, read and validated."""

from __future__ import annotations

import json
import os
from typing import Any

from . import _library as c


class Contract(c.Owned):
    """A valid contract (docs/contract.md).

    >>> contract = Contract('''
    ... apiVersion: kcc/v1
    ... kind: KernelContract
    ... metadata: {name: demo, version: 1.0.0}
    ... spec:
    ...   numerical:
    ...     - {id: N-1, metric: mean_abs_log_ratio, atMost: 0.02, level: L3}
    ... ''')
    >>> contract.name, contract.clauses[0]["metric"]
    ('demo', 'mean_abs_log_ratio')
    """

    kind = "contract"

    def __init__(self, yaml: str, name: str = "contract"):
        text = c.utf8(yaml, "yaml")
        super().__init__(c.handle("kcc_contract_parse", text, len(text), c.encode(name, "name")))
        self._describe()

    @classmethod
    def read(cls, path: str | os.PathLike) -> Contract:
        """Reads a file. Raises InvalidInput with every error of the document."""
        contract = cls.__new__(cls)
        c.Owned.__init__(contract, c.handle("kcc_contract_read", c.path_bytes(path)))
        contract._describe()
        return contract

    def _describe(self) -> None:
        self._json = json.loads(c.text("kcc_contract_json", self))

    @property
    def name(self) -> str:
        return self._json["name"]

    @property
    def version(self) -> str:
        return self._json["version"]

    @property
    def digest(self) -> str:
        """SHA-256 of the canonical form: comments and order do not change it."""
        return self._json["digest"]

    @property
    def slices(self) -> list[str]:
        return list(self._json["slices"])

    @property
    def metrics(self) -> list[dict[str, Any]]:
        """The metrics that the contract defines itself (spec.metrics)."""
        return [dict(metric) for metric in self._json["metrics"]]

    @property
    def clauses(self) -> list[dict[str, Any]]:
        return [dict(clause) for clause in self._json["clauses"]]

    def __repr__(self) -> str:
        return f"<kcc.Contract {self.name} {self.version}, {len(self.clauses)} clauses>"


def check(yaml: str, name: str = "contract") -> dict[str, Any]:
    """Errors and warnings of a document, valid or not: {"valid": …, "diagnostics": […]}."""
    text = c.utf8(yaml, "yaml")
    return json.loads(c.text("kcc_contract_check", text, len(text), c.encode(name, "name")))
