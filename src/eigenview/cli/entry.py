"""From the words on the command line to a verb; and from what goes wrong to one line and an exit code.

0: done. 1: a bug, with its traceback. 2: a user's mistake, in one line. 130: Ctrl-C. 141: nobody reads on.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from importlib import import_module
from io import TextIOWrapper

from eigenview.cli.verbs import BARE, VERBS, overview
from eigenview.errors import EigenviewError, SettingError
from eigenview.names import Table, did_you_mean, named_code, printable

MISTAKE, INTERRUPTED, CLOSED_PIPE = 2, 130, 141


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit code. A user's own code runs only if these very words name it."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if arguments is None:
        _spell_what_the_terminal_lacks()
    try:
        with named_code(*code_among(given)):
            _run(given)
        sys.stdout.flush()
    except EigenviewError as error:
        if "eigenview.runs.unused" in sys.modules:
            sys.modules["eigenview.runs.unused"].remove_unused()
        return _say(str(error), MISTAKE)
    except KeyboardInterrupt as stop:
        return _say(str(stop) or _stopped(given), INTERRUPTED)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left to flush goes nowhere
        return CLOSED_PIPE
    except OSError as error:
        if error.filename is None:  # not about a file that the user named
            raise
        return _say(f"{error.filename}: {error.strerror}", MISTAKE)
    return 0


def _spell_what_the_terminal_lacks() -> None:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _say(message: str, code: int) -> int:
    print(f"eigenview: {printable(' '.join(message.split()))}", file=sys.stderr)
    return code


def _run(given: list[str]) -> None:
    if not given or given[0] in ("-h", "--help", "help"):
        print(overview())
        return
    if given[0] in ("-V", "--version"):
        from eigenview import __version__

        print(f"eigenview {__version__}")
        return
    name, rest = find_verb(given)
    module = import_module(f"eigenview.cli.{VERBS[name].module}")
    from eigenview.cli.options import parse
    from eigenview.cli.output import Output

    read = getattr(module, "read", partial(parse, module.Options))
    options = read(rest, verb=name, about=module.__doc__)
    module.run(options, Output(as_json=getattr(options, "as_json", False)))


def find_verb(given: Sequence[str]) -> tuple[str, list[str]]:
    """The verb that the words begin with, and the words after it."""
    for count in (2, 1):
        name = " ".join(given[:count])
        if name in VERBS:
            return name, list(given[count:])
    first, second = given[0], given[1] if len(given) > 1 else ""
    below = {name.split()[1]: name for name in VERBS if name.startswith(f"{first} ")}
    if below and (not second or second.startswith("-")):
        return BARE[first], list(given[1:])
    if below:
        return Table(f"the word after {first}", below).find(second), list(given[2:])
    known = list(dict.fromkeys(name.split()[0] for name in VERBS))
    meant = did_you_mean(first, known) or f"; the verbs are {', '.join(known)}"
    raise SettingError(f"no verb is called {first!r}{meant} (eigenview --help tells more)")


def code_among(given: Sequence[str]) -> Iterator[str]:
    """The words, values after ``=`` and between commas, that may name code of a user's own or a library's encoder."""
    return (piece for word in given for piece in (word, *re.split("[=,]", word)) if ":" in piece)


def _stopped(given: Sequence[str]) -> str:
    """What Ctrl-C leaves behind, where the verb itself has not said it."""
    name, _ = find_verb(given)  # it was found before, or nothing could have been stopped
    return f"{name} was stopped; {VERBS[name].when_stopped}"
