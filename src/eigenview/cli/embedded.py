"""Embeddings as the verbs after embed want them: from a file, from a run, or made now from a run's images."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from eigenview.cli.output import Output
    from eigenview.search import Embeddings


def open_or_embed(place: Path, source: str | None, output: Output) -> Embeddings:
    """The embeddings at ``place``; a run without any embeds ``source``, or what it was trained on, first."""
    from eigenview.runs import RunDirectory
    from eigenview.search import embed, open_embeddings

    if not place.is_dir():
        return open_embeddings(place)
    directory = RunDirectory.existing(place)
    has_some = any((place / name).is_file() for name in ("embeddings.parquet", "embeddings.npy"))
    if source is not None or not has_some:
        spec = source or directory.config.source
        output.say(f"embedding {spec} (once; what is there already is kept)", style="dim")
        embed(place, spec, network=source is not None)  # an address in a run's settings is not fetched
    return open_embeddings(place)
