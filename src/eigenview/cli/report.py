"""One self-contained web page about a run, or about several next to each other: readable offline, nothing is loaded.

Examples:
  eigenview report runs/photos
  eigenview report runs/simclr runs/swav -o comparison.html
  eigenview report dinov2.parquet --source photos/
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from eigenview.cli.options import Word, positional
from eigenview.cli.output import Output
from eigenview.cli.run_options import VECTORS, EncoderOptions, vectors_folder


class Options(EncoderOptions):
    runs: Annotated[tuple[Path, ...], positional("RUN|FILE ...")]  # run directories, or files of vectors
    source: Annotated[str | None, Word("SOURCE")] = None  # the pictures behind a file of vectors, where it does not say
    out: Annotated[Path | None, Word("FILE", "-o")] = None  # the page; RUN/report.html unless given


def run(options: Options, output: Output) -> None:
    from eigenview.report import write_report

    page = write_report([_folder(options, given) for given in options.runs], options.out)
    output.say(f"{page} ({page.stat().st_size / 1e6:.1f} MB); open it in any browser")


def _folder(options: Options, given: Path) -> Path:
    """A run directory; of a file of vectors the one that is made of it, looked at once."""
    if given.suffix not in VECTORS:
        return given
    from eigenview.search import look_at_vectors, open_embeddings, open_pictures

    pictures = None if options.source is None else open_pictures(options.source)
    directory = vectors_folder(options, given, options.source)
    look_at_vectors(open_embeddings(given), directory, pictures)
    return directory.folder
