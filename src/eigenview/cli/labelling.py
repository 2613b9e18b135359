"""What the verbs about labels share: files that are not written over, how long the graph takes, the pictures."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from eigenview.cli.run_options import VECTORS, say_wait

if TYPE_CHECKING:
    from eigenview.cli.output import Output
    from eigenview.data import Source
    from eigenview.labels.suggesting import Suggestions
    from eigenview.search import Embeddings


def checked_places(out: Path | None, sheet: Path | None, *, overwrite: bool, has_head: bool = False) -> None:
    """Refuse before anything is computed what cannot be written."""
    from eigenview.labels.label_files import check_place
    from eigenview.labels.suggesting import HEAD, head_beside

    if out is not None:
        check_place(out, overwrite=overwrite)
    if out is not None and has_head:
        check_place(head_beside(out), overwrite=overwrite, suffixes=(HEAD,))
    if sheet is not None:
        check_place(sheet, overwrite=overwrite, suffixes=(".png",))


def table_place(out: Path | None, verb: str, stored: Embeddings, *, writes: bool) -> Path | None:
    """Where a verb's table goes: there, or ``VERB-NAME.csv``; None where nothing is to be written."""
    from eigenview.files import free_path
    from eigenview.search.contact import plain_name_of

    if out is not None or not writes:
        return out
    return free_path(f"{verb}-{plain_name_of(stored)}", ".csv")


def say_graph(output: Output, stored: Embeddings) -> None:
    """How long the graph will take, where it is not kept yet."""
    from eigenview.labels.kept import graph_seconds

    seconds = graph_seconds(stored)
    what = f"the graph of {len(stored):,} images (once; it is kept)"
    if seconds is None:
        output.say(f"{what} is sought approximately, by faiss: an exact one would take too long")
    else:
        say_wait(output, what, seconds)


@contextmanager
def graph_told(output: Output, stored: Embeddings) -> Iterator[None]:
    """How long the graph will take, and after what is done with it how many neighbours an approximate one knows."""
    from eigenview.labels.kept import kept_recall

    say_graph(output, stored)
    yield
    if (recall := kept_recall(stored)) is not None:
        output.say(str(recall), style="yellow")


def open_pictures_of(place: Path, source: str | None) -> Source | None:
    """The pictures behind a file of vectors; those of a run are found by their names."""
    from eigenview.search import open_pictures

    return None if source is None or place.suffix not in VECTORS else open_pictures(source)


def write_with_head(spread: Suggestions, out: Path, output: Output, *, overwrite: bool) -> None:
    """The table of labels, and beside it the head for later pictures."""
    from eigenview.labels.suggesting import head_beside

    say_labels(spread, spread.write(out, overwrite=overwrite), output)
    head = spread.labeller.save(head_beside(out), overwrite=overwrite)
    output.say(f"{head}: labels later pictures (eigenview predict {head} RUN --source SOURCE)", style="dim")


def say_labels(answers: Suggestions, out: Path, output: Output) -> None:
    """What was written, and how many pictures each class has."""
    said = int((answers.numbers >= 0).sum())
    left = len(answers.stored) - said
    output.say(
        f"{out}: {said:,} labels" + (f"; {left:,} left empty, less sure than {answers.certain:g}" if left else "")
    )
    for number, name in enumerate(answers.classes):
        chosen = answers.numbers == number
        if bool(chosen.any()):
            output.say(f"  {name}: {int(chosen.sum()):,}, probability {float(answers.probability[chosen].mean()):.2f}")
