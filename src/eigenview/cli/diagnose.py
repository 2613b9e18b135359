"""Is a representation healthy? Figures and a verdict in plain words, with what to try; no labels needed.

Of a run: its embeddings of two views of each image (of the images it was trained on, unless a source is given). Of a
file: the rows of an .npy file, or the vectors of a Parquet file that embed wrote.

Examples:
  eigenview diagnose runs/photos
  eigenview diagnose runs/photos other-photos/
  eigenview diagnose embeddings.npy --second other-view.npy --labels labels.npy --json
"""

import json
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from eigenview.cli.options import AsJson, Word, positional
from eigenview.cli.output import Output
from eigenview.cli.run_options import PASSES, VECTORS, RunOptions, open_with, say_wait, seconds_an_image
from eigenview.errors import DataError, SettingError
from eigenview.names import printable


class Options(RunOptions):
    subject: Annotated[Path, positional("RUN|ENCODER|FILE")]  # a run directory, an encoder by name, or
    # embeddings as .npy, .npz or .parquet
    source: Annotated[str | None, positional("[SOURCE]")] = None  # images to diagnose a run on; those of its training
    # unless given
    second: Annotated[Path | None, Word("FILE")] = None  # embeddings of another view of the same items, row by row
    labels: Annotated[Path | None, Word("FILE")] = None  # one whole number a row (.npy)
    where: Literal["projection", "features"] = "projection"  # of a run: what the loss saw, or what stands before the
    # head
    items: int = Field(5000, ge=2)  # images of a run's source, drawn by the seed
    seed: int = Field(0, ge=0)  # of the draw
    as_json: AsJson = False  # print the diagnosis as JSON


def run(options: Options, output: Output) -> None:
    from eigenview.diagnostics import diagnose
    from eigenview.diagnostics.rows import check_same_shape, open_rows

    if options.subject.suffix in VECTORS:
        if options.source is not None:
            raise SettingError(f"a file of embeddings needs no images; leave out {options.source}")
        labels = None if options.labels is None else _rows(options.labels)
        given = [file for file in (options.subject, options.second) if file is not None]
        views = {printable(file): open_rows(_rows(file), name=printable(file), least=2) for file in given}
        check_same_shape(views)
        first, *second = (views[printable(file)] for file in given)
        diagnosis = diagnose(first, second[0] if second else None, labels)
    else:
        from eigenview.data import open_images
        from eigenview.evaluation import diagnose_run

        if options.second is not None or options.labels is not None:
            raise SettingError("--second and --labels belong to a file of embeddings; a run makes its own views")
        opening = cache(lambda: open_images(str(options.source), needs_index=True))
        run = open_with(options, options.subject, output, options.source, opening)
        if options.source is not None:
            source = opening()
        else:  # an address in a run's settings is not fetched
            source = open_images(run.directory.source, needs_index=True, network=False)
        images = min(options.items, len(source))
        say_wait(output, f"{PASSES} views of {images:,} images", PASSES * images * seconds_an_image(run, source))
        diagnosis = diagnose_run(run, source, items=options.items, where=options.where, seed=options.seed, keeps=True)
    output.result(json.loads(diagnosis.to_json()))
    if not options.as_json:
        output.say("\n".join(diagnosis.lines()))


def _rows(file: Path) -> Any:
    """Embeddings or labels in a file; a large .npy is read only as far as it is needed."""
    if not file.exists():
        raise DataError(f"no such run or file: {file}; is the path right?")
    if file.suffix == ".npy":
        from eigenview.data.arrays import read_arrays

        return read_arrays(file, rows=())["rows"]
    if file.suffix in VECTORS:
        from eigenview.search import open_embeddings

        return open_embeddings(file).vectors
    raise DataError(f"embeddings are read from a run directory, .npy, .npz or .parquet; got {file}")
