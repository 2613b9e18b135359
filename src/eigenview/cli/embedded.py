"""Embeddings as the verbs after embed want them: from a file, from a run, or made now from a run's images."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from eigenview.errors import DataError

if TYPE_CHECKING:
    from eigenview.cli.output import Output
    from eigenview.search import Embeddings


def open_or_embed(place: Path, source: str | None, output: Output) -> Embeddings:
    """The embeddings at ``place``; a run without any embeds ``source``, or what it was trained on, first."""
    from eigenview.cli.sources import source_of_run
    from eigenview.search import embed, open_embeddings

    if not place.is_dir():
        return open_embeddings(place)
    if not (place / "config.json").is_file():
        raise DataError(f"{place} is no run directory (it has no config.json)")
    has_some = any((place / name).is_file() for name in ("embeddings.parquet", "embeddings.npy"))
    if source is not None or not has_some:
        spec = source or source_of_run(place)
        output.say(f"embedding {spec} (once; what is there already is kept)", style="dim")
        embed(place, spec)
    return open_embeddings(place)
