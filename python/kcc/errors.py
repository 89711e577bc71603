"""What kcc raises. Every message says what is wrong, where, and what to do."""


class Error(Exception):
    """The base of everything kcc raises on purpose."""


class InvalidInput(Error, ValueError):
    """The caller's input is wrong: a contract, an option, a count."""


class ShapeError(InvalidInput):
    """Arrays do not fit each other."""


class DTypeError(InvalidInput, TypeError):
    """An array holds numbers of a kind that cannot stand there."""


class DeviceError(InvalidInput):
    """An array is on a device that this function does not read."""


class EvidenceError(Error):
    """The evidence is broken: NaN, a missing pair, wrong semantics."""


class FileError(Error, OSError):
    """A file or device failed."""


class InternalError(Error, RuntimeError):
    """Out of memory, or a fault of kcc itself."""
