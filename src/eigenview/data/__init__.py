"""Images in: sources of any kind, and the loader that batches them."""

from __future__ import annotations

from eigenview.data.arrays import ArraySource
from eigenview.data.batch import Batch
from eigenview.data.binary import stl10_folds
from eigenview.data.checking import CheckReport, check
from eigenview.data.decode import EncodedImage, LazyImage, PixelImage, UnreadableImage
from eigenview.data.failures import Failure
from eigenview.data.folder import FolderSource
from eigenview.data.joining import JoinedSource, joined
from eigenview.data.listing import ListSource
from eigenview.data.loader import Loader, LoaderState
from eigenview.data.memory import DecodedSource, decoded, kept_if_small, open_images
from eigenview.data.published import download, fetch
from eigenview.data.resize import Resize
from eigenview.data.shapes import ShapesSource
from eigenview.data.shards import ShardSource
from eigenview.data.source import BatchSource, Item, Source, SourceInfo, StreamSource, Unannotated, subset
from eigenview.data.spec import open_source
from eigenview.data.stream import StreamLoader, StreamState
from eigenview.data.tables import TableSource

__all__ = [
    "ArraySource",
    "Batch",
    "BatchSource",
    "CheckReport",
    "DecodedSource",
    "EncodedImage",
    "Failure",
    "FolderSource",
    "Item",
    "JoinedSource",
    "LazyImage",
    "ListSource",
    "Loader",
    "LoaderState",
    "PixelImage",
    "Resize",
    "ShapesSource",
    "ShardSource",
    "Source",
    "SourceInfo",
    "StreamLoader",
    "StreamSource",
    "StreamState",
    "TableSource",
    "Unannotated",
    "UnreadableImage",
    "check",
    "decoded",
    "download",
    "fetch",
    "joined",
    "kept_if_small",
    "open_images",
    "open_source",
    "stl10_folds",
    "subset",
]
