"""One self-contained web page about a run, or about several next to each other: readable offline, nothing is loaded.

Examples:
  eigenview report runs/photos
  eigenview report runs/simclr runs/swav -o comparison.html
  eigenview report efficientnet-lite0 --source photos/
  eigenview report dinov2.parquet --source photos/
"""

from pathlib import Path
from typing import Annotated

from eigenview.cli.options import Word, positional
from eigenview.cli.output import Output
from eigenview.cli.run_options import VECTORS, EncoderOptions, open_named, vectors_folder


class Options(EncoderOptions):
    runs: Annotated[tuple[Path, ...], positional("RUN|ENCODER|FILE ...")]  # run directories, encoders by name (with
    # --source), or files of vectors
    source: Annotated[str | None, Word("SOURCE")] = None  # images for an encoder by name; the pictures behind a file of
    # vectors, where it does not say
    out: Annotated[Path | None, Word("FILE", "-o")] = None  # the page; RUN/report.html unless given


def run(options: Options, output: Output) -> None:
    from eigenview.report import write_report

    page = write_report([_folder(options, given, output) for given in options.runs], options.out)
    output.say(f"{page} ({page.stat().st_size / 1e6:.1f} MB); open it in any browser")


def _folder(options: Options, given: Path, output: Output) -> Path:
    """A run directory; of an encoder by name or a file of vectors the one that is made of it, looked at once."""
    from eigenview.runs import is_run

    if given.suffix not in VECTORS and (is_run(given) or given.exists()):
        return given  # what is no run is refused as it is read
    from eigenview.cli.look import look_shown
    from eigenview.data import open_images
    from eigenview.search import look_at_vectors, open_embeddings, open_pictures

    if given.suffix in VECTORS:
        pictures = None if options.source is None else open_pictures(options.source)
        directory = vectors_folder(options, given, options.source)
        look_at_vectors(open_embeddings(given), directory, pictures)
        return directory.folder
    source = None if options.source is None else open_images(options.source, needs_index=True)
    opened = open_named(options, str(given), output, options.source, source)  # refused without one
    if source is not None and (opened.directory.sample() is None or opened.directory.diagnosis() is None):
        look_shown(opened, source, str(options.source), output)
    return opened.folder
