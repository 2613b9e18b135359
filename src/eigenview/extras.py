"""Libraries that only some users need: imported when asked for, named with their extra when missing."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from eigenview.errors import SettingError


def extra_module(name: str, *, extra: str, purpose: str) -> ModuleType:
    """The module ``name``; without it, an error that says what to install."""
    try:
        return import_module(name)
    except ImportError as error:
        library = name.split(".", 1)[0]
        raise SettingError(
            f"{purpose} needs {library}, which is not installed: pip install 'eigenview[{extra}]'"
        ) from error
