"""Images in: sources of any kind, and the loader that batches them."""

from __future__ import annotations

from eigenview.data.arrays import ArraySource
from eigenview.data.batch import Batch, Failure
from eigenview.data.decode import EncodedImage, LazyImage, PixelImage, UnreadableImage
from eigenview.data.folder import FolderSource
from eigenview.data.loader import Loader, LoaderState
from eigenview.data.resize import Resize
from eigenview.data.source import BatchSource, Item, Source, SourceInfo, StreamSource, subset

__all__ = [
    "ArraySource",
    "Batch",
    "BatchSource",
    "EncodedImage",
    "Failure",
    "FolderSource",
    "Item",
    "LazyImage",
    "Loader",
    "LoaderState",
    "PixelImage",
    "Resize",
    "Source",
    "SourceInfo",
    "StreamSource",
    "UnreadableImage",
    "subset",
]
