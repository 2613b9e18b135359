"""What a verb says: text and tables for people, or JSON alone for scripts."""

import json
import os
import re
import sys
from collections.abc import Sequence
from typing import TypeAlias

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from eigenview.names import printable

JSON: TypeAlias = "str | int | float | bool | Sequence[JSON] | dict[str, JSON] | None"
NOT_ASCII = re.compile(r"[^\n -~]")
WIDE = 200  # columns of a table where there is no terminal to fit


class PipedConsole(Console):
    """Rich would end the process when nobody reads on; here the caller decides."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


class Output:
    """``as_json``: standard output holds the result as JSON and nothing else; what is said goes to standard error.

    Of several processes only the first speaks.
    """

    def __init__(self, *, as_json: bool = False) -> None:
        self.as_json = as_json
        is_first = os.environ.get("RANK", "0") == "0"
        self.console = PipedConsole(stderr=as_json, quiet=not is_first, highlight=False)
        if not self.console.is_terminal and "COLUMNS" not in os.environ:
            self.console.width = WIDE

    def say(self, text: str = "", *, style: str | None = None) -> None:
        self.console.print(clean(text), style=style, markup=False, soft_wrap=True)

    def table(
        self, columns: Sequence[str], rows: Sequence[Sequence[str]], *, title: str | None = None, stacks: bool = False
    ) -> None:
        """A plain table; the first column to the left, the others to the right.

        ``stacks``: where the terminal is too narrow, a line for each cell below the first of its row.
        """
        if stacks and _width(columns, rows) > self.console.width:
            width = max(map(len, columns[1:]))
            self.say(columns[0])
            for first, *cells in rows:
                self.say(first)
                for name, cell in zip(columns[1:], cells, strict=True):
                    self.say(f"  {name:<{width}}  {', '.join(cell.splitlines())}")
            return
        drawn = Table(
            box=SIMPLE_HEAD, title=None if title is None else _text(title), title_justify="left", pad_edge=False
        )
        for number, column in enumerate(columns):
            drawn.add_column(_text(column), justify="right" if number else "left", overflow="fold")
        for row in rows:
            drawn.add_row(*map(_text, row))
        self.console.print(drawn)

    def result(self, value: JSON) -> None:
        """The verb's answer, printed only as JSON."""
        if self.as_json and not self.console.quiet:
            text = json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False)
            spelled = NOT_ASCII.sub(lambda at: at[0] if at[0].isprintable() else json.dumps(at[0])[1:-1], text)
            sys.stdout.write(spelled + "\n")


def clean(text: str) -> str:
    """Text as a terminal may have it, whatever file names or tables from elsewhere put into it; its lines are kept."""
    return "\n".join(map(printable, text.split("\n")))


def _width(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> int:
    """Of a table whose cells are not broken into lines."""
    widest = [
        max(len(line) for cell in column for line in cell.split("\n")) for column in zip(columns, *rows, strict=True)
    ]
    return sum(widest) + 3 * (len(widest) - 1) + 2


def _text(cell: str) -> Text:
    return Text(clean(cell))
