"""Where sources and views meet: the loader, and the one pass that encodes."""

from eigenview.batches.encode import PROJECTION, Extractor, encode_source, encoded_batches, evaluating
from eigenview.batches.loader import AnySource, LockedSource, ViewLoader, first_view
from eigenview.batches.looks import image_statistics, typical_shape

__all__ = [
    "PROJECTION",
    "AnySource",
    "Extractor",
    "LockedSource",
    "ViewLoader",
    "encode_source",
    "encoded_batches",
    "evaluating",
    "first_view",
    "image_statistics",
    "typical_shape",
]
