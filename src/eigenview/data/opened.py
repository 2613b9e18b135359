"""The way every verb opens its images: once, and small ones decoded once."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, overload

from eigenview.data.memory import kept_if_small
from eigenview.data.source import Source, StreamSource
from eigenview.data.spec import AnySource, open_source
from eigenview.errors import DataError, SettingError
from eigenview.names import printable

Spec = str | Path | AnySource


@overload
def open_images(
    spec: Spec,
    *,
    needs_index: Literal[True],
    workers: int | str = "auto",
    log: Path | None = None,
    network: bool = True,
) -> Source: ...


@overload
def open_images(
    spec: Spec, *, needs_index: bool = False, workers: int | str = "auto", log: Path | None = None, network: bool = True
) -> AnySource: ...


def open_images(
    spec: Spec, *, needs_index: bool = False, workers: int | str = "auto", log: Path | None = None, network: bool = True
) -> AnySource:
    """The source that ``spec`` describes, or is, ready to be read again and again.

    Small images of one size are kept decoded (:func:`eigenview.data.memory.kept_if_small`). ``needs_index`` refuses
    streams, which can only be read in order; ``network=False`` addresses (:func:`open_source`).
    """
    source = open_source(spec, network=network) if isinstance(spec, (str, Path)) else spec
    place = printable(spec) if isinstance(spec, (str, Path)) else source.describe().place
    if not isinstance(source, Source):
        if needs_index and isinstance(source, StreamSource):
            raise SettingError(f"{place} is a stream and can only be read in order; this needs an indexed source")
        return source
    if len(source) == 0:
        raise DataError(f"no images in {place}")
    return kept_if_small(source, workers=workers, log=log)
