"""Names: as a terminal may show them, in tables that know what was meant, and of a user's own code."""

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from eigenview.errors import SettingError

Entry = TypeVar("Entry")

CODE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")  # module:attribute
LONGEST_REASON = 300  # letters; a library may quote half a file
_named: ContextVar[frozenset[str]] = ContextVar("code named in this call", default=frozenset())


def printable(text: str | Path) -> str:
    """Text that any terminal and log file takes in one line, whatever bytes it holds: control characters are spelt."""
    try:
        decoded = os.fsencode(text).decode("utf-8", "backslashreplace")
    except UnicodeEncodeError:  # half a character, as JSON can hold
        decoded = str(text).encode("utf-8", "surrogatepass").decode("utf-8", "backslashreplace")
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in decoded)


def reason_of(error: BaseException) -> str:
    """What went wrong, in one line of plain text, whatever a library put into its message."""
    if isinstance(error, OSError) and error.strerror:
        return printable(error.strerror)
    lines = str(error).strip().splitlines()
    return printable(lines[0][:LONGEST_REASON] if lines else type(error).__name__)


def first_mistake(error: ValidationError, known: Iterable[str] = ()) -> str:
    """Where pydantic saw the first mistake, and what it says of it, in our words; ``known`` tells what was meant."""
    problem = error.errors(include_url=False)[0]
    place, kind = ".".join(str(step) for step in problem["loc"]) or "all of it", problem["type"]
    if kind == "extra_forbidden":
        return f"no setting is called {place}{did_you_mean(str(problem['loc'][-1]), known)}"
    if kind == "missing":
        return f"{place} is missing"
    if kind == "value_error":  # by a rule of ours, which says what arrived
        return problem["msg"].removeprefix("Value error, ")
    given = problem["input"]
    choices = re.findall("'([^']*)'", problem["ctx"]["expected"]) if kind == "literal_error" else ()
    return f"{place}: {problem['msg']}; got {given!r:.80}{did_you_mean(str(given), choices)}"


def slug(text: str) -> str:
    """Text in letters that any file may be called by: words and ``.`` joined by ``-``."""
    return re.sub(r"[^\w.-]+", "-", text).strip("-.")


def counted(count: int, what: str) -> str:
    """``1 image``, ``1,200 images``: for nouns that end in s where there are several."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """``; did you mean X?`` where one of the known words is close, otherwise nothing."""
    by_lower = {name.lower(): name for name in known}
    close = get_close_matches(word.lower(), by_lower, n=1)
    return f"; did you mean {by_lower[close[0]]}?" if close else ""


class Table(dict[str, Entry]):
    """Everything of one kind that has a name: a dictionary whose :meth:`find` explains a miss.

    ``kind`` is what an entry is called in a message ("method", "encoder"); ``more`` adds to the list of names there,
    ``listed_by``, a command, stands in for a list that is too long for a line.
    """

    def __init__(self, kind: str, entries: Mapping[str, Entry], *, more: str = "", listed_by: str = "") -> None:
        super().__init__(entries)
        self.kind, self.more, self.listed_by = kind, more, listed_by

    def find(self, name: str) -> Entry:
        """The entry called ``name``; otherwise an error that lists the names and says which was probably meant."""
        if name not in self:
            names = f"{', '.join(self)}{self.more}"
            listed = f"those that `{self.listed_by}` names" if self.listed_by else names
            if meant := did_you_mean(str(name), self):  # before a list that may be long
                raise SettingError(f"{name!r} is no {self.kind}{meant} It must be one of {listed}")
            raise SettingError(f"{self.kind} must be one of {listed}; got {name!r}")
        return self[name]


def is_code(name: str) -> bool:
    """Whether a name has the form ``module:attribute`` of a user's own code."""
    return CODE.fullmatch(name) is not None


def is_named(name: str) -> bool:
    """Whether this very call has named the code ``module:attribute``, so that it may be imported."""
    return name in _named.get()


@contextmanager
def named_code(*names: object) -> Iterator[None]:
    """Within, :func:`own_code` may import these: whoever calls has written them in this very call.

    Texts count, also within lists and the values of mappings, each up to its ``?`` (a source's options). A name found
    in a file, such as a run's settings, must never come here: opening a file must not run code.
    """
    token = _named.set(_named.get() | {text.partition("?")[0] for text in _texts(names) if ":" in text})
    try:
        yield
    finally:
        _named.reset(token)


def _texts(given: object) -> Iterator[str]:
    if isinstance(given, str):
        yield given
    elif isinstance(given, (Mapping, list, tuple)):
        for each in given.values() if isinstance(given, Mapping) else given:
            yield from _texts(each)


def own_code(name: str, *, kind: str, known: Iterable[str] = ()) -> object:
    """The object ``module:attribute`` of a user's own, from the module path or the working directory.

    ``known``: what else could stand before the colon, and may have been meant.
    """
    if not is_named(name):
        raise SettingError(
            f"{kind} {name} is code of a user's own, which runs only if this very call names it: give {name} again"
        )
    module, _, attribute = name.partition(":")
    if os.getcwd() not in sys.path and "" not in sys.path:
        sys.path.append(os.getcwd())
    try:
        owner = import_module(module)
    except ImportError as error:
        raise SettingError(
            f"{kind} {name}: the module {module} cannot be imported ({error})"
            f"{did_you_mean(module, known) or '; is its folder here?'}"
        ) from None
    if not hasattr(owner, attribute):
        raise SettingError(f"{kind} {name}: {module} has no {attribute}{did_you_mean(attribute, dir(owner))}")
    return getattr(owner, attribute)
