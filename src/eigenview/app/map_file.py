"""Where each picture lies on the map: found once, kept in the session's folder."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import torch
from numpy.typing import NDArray

from eigenview.app.session import Session
from eigenview.errors import DataError
from eigenview.labels.kept import KeptGraph
from eigenview.search.approximate import content_digest
from eigenview.tensors import read_sealed, save_sealed

NAME = "map.safetensors"


def kept_places(session: Session, kept: KeptGraph) -> NDArray[np.uint16]:
    """(n, 2) within 0 … 65535; one of other vectors, or damaged, is made anew."""
    file, content = session.folder / NAME, content_digest(session.stored)
    with suppress(DataError, KeyError):
        tensors, notes = read_sealed(file)
        if notes.get("content") == content and tensors["places"].shape == (len(session.stored), 2):
            return tensors["places"].numpy().astype(np.uint16)
    from eigenview.report.charts import on_grid  # seconds of import, for what is done once
    from eigenview.report.structure import first_projection

    rows, near = kept.graph.rows, kept.graph.neighbours.index.numpy()
    places = on_grid(first_projection(rows, seed=session.seed, neighbours=near).places).astype(np.uint16)
    with suppress(DataError):
        save_sealed(file, {"places": torch.from_numpy(places.astype(np.int32))}, {"content": content})
    return places
