"""What is doubtful about labelled pictures: labels that are probably wrong, odd ones out, copies; and leaks.

Labels come from class folders ('photos/?labelled=yes'), from a table's own column, or from --labels. Writes one table,
the worst first: kind (label, outlier, copy, leak), name, given, suggested, probability, other, cosine. --against names
another set, such as the pictures for testing: what it shares with this one, re-encoded, slightly cropped or brightened,
is found and confirmed on the pixels. Without labels all is looked for but wrong ones.

Examples:
  eigenview audit efficientnet-lite0 --source 'photos/?labelled=yes' -o audit.csv --sheet audit.png
  eigenview audit photos.parquet --labels labels.csv -o audit.csv
  eigenview audit runs/photos --source 'train/?labelled=yes' --against 'test/?labelled=yes'
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from eigenview.cli.options import AsJson, Word, positional
from eigenview.cli.output import Output
from eigenview.cli.run_options import VECTORS, RunOptions, open_with, say_wait
from eigenview.errors import SettingError

if TYPE_CHECKING:
    from eigenview.runs import OpenedRun
    from eigenview.search import Embeddings


class Options(RunOptions):
    place: Annotated[Path, positional("RUN|ENCODER|FILE")]  # a run directory, an encoder by name (with
    # --source), or embeddings as .parquet, .npy or .npz
    source: Annotated[str | None, Word("SOURCE")] = None  # the images, where they are not embedded yet; of a file of
    # vectors, the pictures they were made of
    labels: Annotated[tuple[Path, ...], Word("FILE ...")] = ()  # tables with name and label; the images' own unless
    # given
    column: Annotated[str | None, Word("NAME")] = None  # of the tables, that holds the labels; label unless given
    against: Annotated[str | None, Word("SOURCE|FILE")] = None  # another set: images, or embeddings of them by the same
    # encoder
    outliers: Annotated[int, Word("N")] = Field(20, ge=0)  # odd ones out to name
    copies: bool = True  # look for copies of one picture within the set
    out: Annotated[Path | None, Word("FILE", "-o")] = None  # .csv or .parquet; audit-NAME.csv unless given
    sheet: Annotated[Path | None, Word("FILE")] = None  # a contact sheet of all that was found, .png
    seed: int = Field(0, ge=0)  # of the folds
    engine: Literal["auto", "exact", "faiss"] = "auto"  # of the graph: exact, faiss (approximate, and says how many
    # neighbours it finds), or by the number of pictures
    overwrite: bool = False  # replace files that are there already
    as_json: AsJson = False  # print what was found as JSON, and write nothing unless -o says so


def run(options: Options, output: Output) -> None:
    from eigenview.cli import embedded
    from eigenview.labels import audit, own_labels, read_labels
    from eigenview.labels.audits import audit_seconds
    from eigenview.labels.sheets import keep_audit

    embedded.checked_places(options.out, options.sheet, overwrite=options.overwrite)
    stored, opened = embedded.open_or_embed(options.place, options.source, options, output)
    own = None if stored.labels is None else own_labels(stored)
    given = read_labels(options.labels, stored, column=options.column) if options.labels else own
    if given is None:
        remedy = "give them (--labels FILE), or embed images that have some, such as 'photos/?labelled=yes'"
        output.say(f"{options.place} has no labels, so none is doubted: {remedy}", style="yellow")
    else:
        output.say(str(given))
    source = embedded.open_pictures_of(options.place, options.source)
    against = None if options.against is None else _other_set(options, opened, stored, output)
    embedded.say_graph(output, stored, options.engine)
    seconds = audit_seconds(stored, given, against=against, copies=options.copies, source=source)
    say_wait(output, f"the audit of {len(stored):,} images", seconds)
    audited = audit(
        stored,
        given,
        against=against,
        outliers=options.outliers,
        copies=options.copies,
        sources=(source, None),
        seed=options.seed,
        engine=options.engine,
    )
    embedded.say_recall(output, audited.recall)
    output.result(json.loads(audited.to_json()))
    out = embedded.table_place(options.out, "audit", stored, writes=not options.as_json)
    kept = embedded.report_folder(options, options.place, options.source, opened, writes=out is not None)
    if kept is not None:
        keep_audit(kept, audited, stored, source)
    if not options.as_json:
        output.say("\n".join(audited.lines()))
    if out is not None:
        output.say(f"{audited.write(out, overwrite=options.overwrite)}: all of it")
    if options.sheet is not None:
        audited.sheet(options.sheet, source=source, overwrite=options.overwrite)
        output.say(f"to look at: {options.sheet}")


def _other_set(options: Options, opened: OpenedRun | None, stored: Embeddings, output: Output) -> Embeddings:
    """Embeddings from a file, or made by the same encoder."""
    from eigenview.cli.embedded import embed_beside, holds_vectors
    from eigenview.search import open_embeddings

    given = Path(str(options.against))
    if given.suffix in VECTORS and given.is_file() and holds_vectors(given):
        return open_embeddings(given)
    if opened is None:
        folder = None if stored.about is None else stored.about.run_folder
        if folder is None or not Path(folder).is_dir():
            raise SettingError(
                f"to embed {options.against} the encoder is needed that made {options.place}, and its run is not at "
                "hand: give --against as a file of embeddings"
            )
        opened = open_with(options, folder, output)
    return open_embeddings(embed_beside(opened, str(options.against), output))
