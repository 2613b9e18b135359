"""From the words on the command line to a verb; and from what goes wrong to one line and an exit code.

0: done. 1: a bug, with its traceback. 2: a user's mistake, in one line. 130: Ctrl-C. 141: nobody reads on.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module

from eigenview.cli.verbs import BARE, VERBS, overview
from eigenview.errors import EigenviewError, SettingError

MISTAKE, INTERRUPTED, CLOSED_PIPE = 2, 130, 141


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        _run(given)
        sys.stdout.flush()
    except EigenviewError as error:
        return _say_mistake(str(error))
    except KeyboardInterrupt as stop:
        print(f"eigenview: {stop or 'stopped'}", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left to flush goes nowhere
        return CLOSED_PIPE
    except OSError as error:
        if error.filename is None:  # not about a file that the user named
            raise
        return _say_mistake(f"{error.filename}: {error.strerror}")
    return 0


def _say_mistake(message: str) -> int:
    print(f"eigenview: {' '.join(message.split())}", file=sys.stderr)
    return MISTAKE


def _run(given: list[str]) -> None:
    if not given or given[0] in ("-h", "--help", "help"):
        print(overview())
        return
    if given[0] in ("-V", "--version"):
        from eigenview import __version__

        print(f"eigenview {__version__}")
        return
    name, rest = find_verb(given)
    import_module(f"eigenview.cli.{VERBS[name].module}").run(rest)


def find_verb(given: Sequence[str]) -> tuple[str, list[str]]:
    """The verb that the words begin with, and the words after it."""
    for count in (2, 1):
        name = " ".join(given[:count])
        if name in VERBS:
            return name, list(given[count:])
    first, second = given[0], given[1] if len(given) > 1 else ""
    below = [name.split()[1] for name in VERBS if name.startswith(f"{first} ")]
    if below:
        if not second or second.startswith("-"):
            return BARE[first], list(given[1:])
        raise SettingError(f"after {first} comes one of {', '.join(below)}; got {second!r}{_meant(second, below)}")
    known = list(dict.fromkeys(name.split()[0] for name in VERBS))
    meant = _meant(first, known) or f"; the verbs are {', '.join(known)}"
    raise SettingError(f"no verb is called {first!r}{meant} (eigenview --help tells more)")


def _meant(word: str, known: Sequence[str]) -> str:
    close = get_close_matches(word, known, n=1)
    return f"; did you mean {close[0]}?" if close else ""
