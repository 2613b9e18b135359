"""Images in: sources of any kind, and the loader that batches them."""

from eigenview.data.arrays import ArraySource
from eigenview.data.batch import Batch, Resize
from eigenview.data.binary import stl10_folds
from eigenview.data.checking import check
from eigenview.data.decode import EncodedImage, LazyImage, PixelImage, UnreadableImage
from eigenview.data.failures import Failure
from eigenview.data.folder import FolderSource
from eigenview.data.joining import joined
from eigenview.data.loader import Loader, LoaderState
from eigenview.data.memory import decoded, open_images
from eigenview.data.published import download, fetch
from eigenview.data.source import BatchSource, Item, Source, SourceInfo, StreamSource, Unannotated, subset
from eigenview.data.spec import open_source
from eigenview.data.stream import StreamLoader, StreamState

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
    "StreamLoader",
    "StreamSource",
    "StreamState",
    "Unannotated",
    "UnreadableImage",
    "check",
    "decoded",
    "download",
    "fetch",
    "joined",
    "open_images",
    "open_source",
    "stl10_folds",
    "subset",
]
