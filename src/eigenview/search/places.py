"""Where a run keeps the embeddings of images: of its own, and of others beside them."""

from pathlib import Path

from eigenview.files import free_path
from eigenview.runs import EMBEDDINGS, OpenedRun, folder_for
from eigenview.search.formats import stored_about
from eigenview.search.makers import anchored


def place_beside(run: OpenedRun, source: str) -> Path:
    """``RUN/embeddings.parquet``, or where that is of other images ``embeddings-NAME.parquet``, numbered if need be."""
    own, spec = run.folder / EMBEDDINGS[0], anchored(source)
    if _is_of(own, spec) if own.is_file() else spec == anchored(run.directory.source):
        return own
    name = run.folder / f"embeddings-{folder_for('', source).name}"
    return free_path(str(name), ".parquet", is_free=lambda place: not place.exists() or _is_of(place, spec))


def _is_of(file: Path, spec: str) -> bool:
    """Whether a file holds embeddings of what ``spec`` opens, as far as it can be read."""
    try:
        about, *_ = stored_about(file)
    except (OSError, ValueError, KeyError, AttributeError):
        return False
    return about is not None and about.spec == spec
