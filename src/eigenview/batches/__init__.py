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
from eigenview.batches.loader import BATCH, AnySource, SeenBatch, ViewLoader, first_view
from eigenview.batches.locked import LockedSource
from eigenview.batches.looks import image_statistics, typical_shape

__all__ = [
    "BATCH",
    "PROJECTION",
    "AnySource",
    "EncodedBatch",
    "EncodedRows",
    "Extractor",
    "LockedSource",
    "Maps",
    "SeenBatch",
    "ViewLoader",
    "encode_source",
    "encoded_batches",
    "evaluating",
    "first_view",
    "image_statistics",
    "typical_shape",
]
