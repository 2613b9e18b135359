"""One self-contained web page about a run, or about several next to each other: readable offline, nothing is loaded.

Examples:
  eigenview report runs/photos
  eigenview report runs/simclr runs/swav -o comparison.html
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from eigenview.cli.output import Output
from eigenview.cli.parse import POSITIONAL, parse
from eigenview.errors import DataError


@dataclass(frozen=True)
class Options:
    runs: Annotated[tuple[Path, ...], POSITIONAL, tyro.conf.arg(metavar="RUN ...")]
    """run directories"""
    out: Annotated[Path | None, tyro.conf.arg(aliases=["-o"], metavar="FILE")] = None
    """the page; RUN/report.html unless given"""


def run(arguments: list[str]) -> None:
    options = parse(Options, arguments, verb="report", about=__doc__)
    from eigenview.report import write_report

    if not options.runs:
        raise DataError("report needs at least one run directory; got none")
    page = write_report(options.runs, options.out)
    Output().say(f"{page} ({page.stat().st_size / 1e6:.1f} MB); open it in any browser")
