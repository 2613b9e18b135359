"""Groups of pictures without labels: how many there are and how sure that is, and the most typical pictures of each.

Writes a table (name,cluster,typicality) and a contact sheet with a row of typical pictures for each group, the largest
first. "clear": the groups are set apart; "about N, which run into each other": a few more or fewer would do as well.

Examples:
  eigenview clusters efficientnet-lite0 --source photos/
  eigenview clusters runs/photos --clusters 20 -o groups.csv --sheet groups.png
  eigenview clusters vectors.npz --source photos/ --json
"""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from eigenview.cli.options import AsJson, Word, positional
from eigenview.cli.output import Output
from eigenview.cli.run_options import RunOptions


class Options(RunOptions):
    place: Annotated[Path, positional("RUN|ENCODER|FILE")]  # a run directory, an encoder by name (with
    # --source), or embeddings as .parquet, .npy or .npz
    source: Annotated[str | None, Word("SOURCE")] = None  # the images, where they are not embedded yet; of a file of
    # vectors, the pictures they were made of
    clusters: Annotated[int | None, Word("N")] = Field(None, ge=1)  # how many groups; counted unless given
    out: Annotated[Path | None, Word("FILE", "-o")] = None  # .csv or .parquet; clusters-NAME.csv unless given
    sheet: Annotated[Path | None, Word("FILE")] = None  # the contact sheet; clusters-NAME.png unless given
    shown: int = Field(8, ge=1)  # pictures of each group on it
    seed: int = Field(0, ge=0)  # of the images that groups are found among
    engine: Literal["auto", "exact", "faiss"] = "auto"  # of the graph: exact, faiss (approximate, and says how many
    # neighbours it finds), or by the number of pictures
    overwrite: bool = False  # replace files that are there already
    as_json: AsJson = False  # print the groups as JSON, and write nothing unless -o or --sheet says so


def run(options: Options, output: Output) -> None:
    from eigenview.cli.embedded import (
        checked_places,
        open_or_embed,
        open_pictures_of,
        say_graph,
        say_recall,
        table_place,
    )
    from eigenview.files import free_path
    from eigenview.labels.clusters import cluster_images
    from eigenview.search.contact import plain_name_of
    from eigenview.search.pictures import Pictures

    checked_places(options.out, options.sheet, overwrite=options.overwrite)
    stored, _ = open_or_embed(options.place, options.source, options, output)
    has_sheet = options.sheet is not None or not options.as_json
    source = open_pictures_of(options.place, options.source) if has_sheet else None
    Pictures(stored, source)  # other pictures are refused before anything is written
    say_graph(output, stored, options.engine)
    groups = cluster_images(stored, options.clusters, seed=options.seed, engine=options.engine)
    say_recall(output, groups.recall)
    count = groups.count
    output.result(
        {
            "clusters": count.clusters,
            "certainty": count.certainty,
            "agreement": count.agreement,
            "sizes": list(groups.sizes),
            "typical": [
                [stored.paths[row] for row in groups.typical(group, options.shown)] for group in range(count.clusters)
            ],
            "cluster": (groups.member + 1).tolist(),
        }
    )
    for line in groups.lines():
        output.say(line)
    out = table_place(options.out, "clusters", stored, writes=not options.as_json)
    if out is not None:
        output.say(f"{groups.write(out, overwrite=options.overwrite)}: {len(stored):,} images with their groups")
    if has_sheet:
        sheet = options.sheet or free_path(f"clusters-{plain_name_of(stored)}", ".png")
        groups.sheet(sheet, source=source, shown=options.shown, overwrite=options.overwrite)
        output.say(f"to look at: {sheet}")
