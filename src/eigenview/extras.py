"""Libraries that only some users need: imported when asked for, named with their extra when missing."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

from eigenview.errors import MissingLibraryError
from eigenview.names import reason_of


def is_installed(name: str) -> bool:
    """Whether a library is there; it is not imported for that."""
    return find_spec(name) is not None


def optional_module(name: str) -> ModuleType | None:
    """The module ``name``; None where it is not there or does not import, and something slower serves."""
    try:
        return import_module(name)
    except Exception:  # as below
        return None


def extra_module(name: str, *, purpose: str, extra: str = "", package: str = "") -> ModuleType:
    """The module ``name``; without it, an error that says what to install: an extra of ours, or a package."""
    try:
        return import_module(name)
    except Exception as error:  # one that was built for another version of its neighbours raises nearly anything
        library = name.split(".", 1)[0]
        is_missing = isinstance(error, ModuleNotFoundError) and error.name == library
        why = "is not installed" if is_missing else f"does not import here ({reason_of(error)})"
        install = package or f"'eigenview[{extra}]'"
        raise MissingLibraryError(f"{purpose} needs {library}, which {why}: pip install {install}") from error


@contextmanager
def hidden(name: str) -> Iterator[None]:
    """While it is entered, the library is as if it were not installed, unless it was imported before."""
    if name in sys.modules:
        yield
        return
    sys.modules[name] = None  # type: ignore[assignment]  # as the import system has it
    try:
        yield
    finally:
        del sys.modules[name]
