"""Libraries that only some users need: imported when asked for, named with their extra when missing."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

from eigenview.errors import SettingError


def is_installed(name: str) -> bool:
    """Whether a library is there; it is not imported for that."""
    return find_spec(name) is not None


def optional_module(name: str) -> ModuleType | None:
    """The module ``name``; None where it is not there or does not import, and something slower serves."""
    try:
        return import_module(name)
    except ImportError:
        return None


def extra_module(name: str, *, extra: str, purpose: str) -> ModuleType:
    """The module ``name``; without it, an error that says what to install."""
    try:
        return import_module(name)
    except ImportError as error:
        library = name.split(".", 1)[0]
        raise SettingError(
            f"{purpose} needs {library}, which is not installed: pip install 'eigenview[{extra}]'"
        ) from error
