"""Where sources and views meet: the loader, and the one pass that encodes."""

from __future__ import annotations

from eigenview.batches.encode import (
    PROJECTION,
    EncodedBatch,
    EncodedRows,
    Extractor,
    Maps,
    encode_source,
    encoded_batches,
    evaluating,
)
from eigenview.batches.loader import BATCH, AnySource, SeenBatch, ViewLoader, first_shape, first_view

__all__ = [
    "BATCH",
    "PROJECTION",
    "AnySource",
    "EncodedBatch",
    "EncodedRows",
    "Extractor",
    "Maps",
    "SeenBatch",
    "ViewLoader",
    "encode_source",
    "encoded_batches",
    "evaluating",
    "first_shape",
    "first_view",
]
