"""One self-contained web page about a run, or about several next to each other: readable offline, nothing is loaded.

Examples:
  eigenview report runs/photos
  eigenview report runs/simclr runs/swav -o comparison.html
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from eigenview.cli.options import Word, positional
from eigenview.cli.output import Output
from eigenview.settings import Strict


class Options(Strict):
    runs: Annotated[tuple[Path, ...], positional("RUN ...")]  # run directories
    out: Annotated[Path | None, Word("FILE", "-o")] = None  # the page; RUN/report.html unless given


def run(options: Options, output: Output) -> None:
    from eigenview.report import write_report

    page = write_report(options.runs, options.out)
    output.say(f"{page} ({page.stat().st_size / 1e6:.1f} MB); open it in any browser")
