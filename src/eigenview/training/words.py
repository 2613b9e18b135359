"""What a run that learns from captions begins with: images that have some, and the tokens that they are read in."""

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import numpy as np
import torch

from eigenview.batches import AnySource
from eigenview.data import Item, Source, StreamSource, subset
from eigenview.data.source import Share, SourceInfo
from eigenview.distributed import from_first_process, refusing_together
from eigenview.errors import DataError
from eigenview.files import read_text
from eigenview.methods import find_method
from eigenview.names import printable
from eigenview.nn import TextEncoder, Tokenizer
from eigenview.nn.settings import TextSettings
from eigenview.nn.text import library_tokens, text_library
from eigenview.runs import RunDirectory, TrainConfig
from eigenview.training.processes import Processes

MOST_CAPTIONS = 1_000_000  # that a tokenizer learns from
COUNTED = 1000  # images of a stream, to say how many have no caption


def reads_captions(config: TrainConfig) -> TextSettings | None:
    """How the run's method reads captions; None of a method that has no use for them."""
    return find_method(config.method).text_settings(config.method_settings)


class CaptionedStream:
    """The items of a stream that have a caption, and what could not be read; the others are passed over."""

    def __init__(self, source: StreamSource) -> None:
        self._source = source

    @property
    def classes(self) -> tuple[str, ...] | None:
        return self._source.classes

    def describe(self) -> SourceInfo:
        return self._source.describe()

    def items(self, share: Share, *, shuffle: bool) -> Iterator[Item | Exception]:
        for item in self._source.items(share, shuffle=shuffle):
            if isinstance(item, Exception) or item.captions:
                yield item


def captioned(source: AnySource, told: Callable[[str], None] = lambda _: None) -> AnySource:
    """The items that have a caption; a stream's are sorted out as they come, and its first are counted."""
    place = source.describe().place
    if not isinstance(source, Source):
        first = islice(source.items(Share(seed=0, epoch=0), shuffle=False), COUNTED)
        has_caption = [isinstance(item, Exception) or bool(item.captions) for item in first]
        if not all(has_caption):
            without, count = has_caption.count(False), len(has_caption)
            told(f"{without:,} of the first {count:,} images have no caption, and all such are left out")
        return CaptionedStream(source)
    has_one = np.array([bool(source.captions(index)) for index in range(len(source))])
    if not has_one.any():
        raise DataError(
            f"{place} has no captions to learn from: a table wants a column captions (or text), a list one called "
            "caption; or choose a method that needs none (--method simclr)"
        )
    if has_one.all():
        return source
    told(f"{int((~has_one).sum()):,} of {len(source):,} images have no caption, and are left out")
    return subset(source, np.flatnonzero(has_one))


def begin_words(
    chosen: TextSettings, images: AnySource, directory: RunDirectory, processes: Processes, *, resume: bool
) -> tuple[Tokenizer, TextEncoder | None]:
    """The run's tokenizer, the same on every process: as it was, a file's, or learnt by the first; then kept.

    And a library's text encoder with its starting weights; None: the method builds its own. Where a run goes on, a
    checkpoint will fill the text encoder: no library's weights are asked for then. A collective call.
    """
    text = ""
    with refusing_together(processes.group, processes.device):
        if processes.is_first:
            text = directory.tokenizer.text if resume else _first(chosen, images).text
            directory.save_tokenizer(text)
    size = from_first_process(torch.tensor(len(text.encode()), device=processes.device), processes.group)
    data = torch.zeros(int(size), dtype=torch.uint8, device=processes.device)
    if processes.is_first:
        data = torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8).to(processes.device)
    tokenizer = Tokenizer(bytes(from_first_process(data, processes.group).cpu().numpy()).decode())
    if not text_library(chosen.name):
        return tokenizer, None
    before = directory.method_parts.text if resume else None
    with refusing_together(processes.group, processes.device):
        if before is not None:
            return tokenizer, chosen.build(tokenizer, config=before.config)
        return tokenizer, chosen.build(tokenizer, pretrained=chosen.pretrained)


def _first(chosen: TextSettings, images: AnySource) -> Tokenizer:
    if chosen.tokenizer is not None:
        tokenizer = Tokenizer(read_text(Path(chosen.tokenizer)), place=printable(chosen.tokenizer))
    elif text_library(chosen.name):
        tokenizer = library_tokens(chosen.name)
    else:
        tokenizer = Tokenizer.trained(captions_of(images), vocabulary=chosen.vocabulary)
    return tokenizer.reading(chosen.length or tokenizer.fitting_length(captions_of(images)))


def captions_of(images: AnySource) -> Iterator[str]:
    """Captions of a source, in its order, up to ``MOST_CAPTIONS``."""
    count = 0
    if isinstance(images, Source):
        each = (images.captions(index) for index in range(len(images)))
    else:
        items = images.items(Share(seed=0, epoch=0), shuffle=False)
        each = (item.captions for item in items if isinstance(item, Item))
    for captions in each:
        yield from captions
        count += len(captions)
        if count >= MOST_CAPTIONS:
            return
    if count == 0:
        raise DataError(f"{images.describe().place} has no captions to learn from")
