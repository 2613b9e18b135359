"""A source from one line of text, such as a user types: ``[kind:]place[?option=value&option=value]``.

=========================  =======================================================================
``photos/``                a folder, every picture in it
``photos/?labelled=yes``   the same, with classes from its sub-folders
``x.npy``, ``xy.npz``      arrays (``?labels=y.npy``)
``train.parquet``          a table; wildcards join several (``?label=fine_label&depth_scale=25.5``)
``list.csv``, ``.jsonl``   a list of paths with captions and labels (``?root=photos``)
``s-{000..099}.tar``       shards, also by http(s) (``?buffer=5000``)
``s3://bucket/x.csv``      any of these by address, where fsspec is installed
``digits``, ``shapes``     what needs no files (``shapes?count=50000&size=64&seed=1``)
``cifar10:/data/cifar``    a named set in a directory (``?split=test``)
``my_code:my_source``      a callable of one's own that returns a source
=========================  =======================================================================

The kind in front (folder, arrays, table, list, shards, or a set's name) is needed only where the place does not tell.
A ``Path`` object is taken as it is: nothing in it is read as a kind or an option.
"""

import inspect
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from eigenview.data.arrays import ArraySource
from eigenview.data.folder import FolderSource
from eigenview.data.listing import ListSource
from eigenview.data.named import DRAWN, STORED, data_root
from eigenview.data.places import file_system, is_address, matching
from eigenview.data.shards import ShardSource
from eigenview.data.source import Source, StreamSource
from eigenview.data.tables import TableSource
from eigenview.errors import DataError, SettingError
from eigenview.names import Table, did_you_mean, is_code, own_code, printable

Option = str | int | float | bool | Path | None
AnySource = Source | StreamSource

WRITTEN_AS = {"arrays": ".npy .npz", "table": ".parquet", "list": ".csv .tsv .jsonl", "shards": ".tar .tar.gz .tgz"}
BY_SUFFIX = {suffix: kind for kind, suffixes in WRITTEN_AS.items() for suffix in suffixes.split()}
READERS: Table[Callable[..., AnySource]] = Table(
    "kind of source",
    {
        "folder": FolderSource,
        "arrays": ArraySource.from_file,
        "table": TableSource,
        "list": ListSource,
        "shards": ShardSource,
    },
)
OPENERS: Table[Callable[..., AnySource]] = Table("kind of source", {**READERS, **DRAWN, **STORED})
YES_AND_NO = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}


def open_source(spec: str | Path, *, network: bool = True, **options: Option) -> AnySource:
    """The source that ``spec`` describes; ``options`` add to, and win over, those in the text.

    ``network=False`` refuses addresses: for a spec that a file names, such as a run's settings, and no user did.
    ``module:attribute`` of a user's own, a callable that returns a source, is imported only if this call names it.
    """
    kind, place, written = (None, str(spec), {}) if isinstance(spec, Path) else _parsed(spec)
    addresses = [text for text in (place, *written.values(), *options.values()) if "://" in str(text)]
    if addresses and not network:
        what = f"{printable(str(addresses[0]))} is an address that only a file names"
        raise DataError(f"{what}; give it yourself to have it fetched")
    if kind is None and is_code(place) and not os.path.exists(place):
        return _own_source(place, {**written, **options})
    kind = kind if kind is not None else _guessed(place)
    opener = OPENERS.find(kind)
    if kind in DRAWN and place:
        raise SettingError(f"{kind} comes with the library and takes no directory; got {place}")
    chosen = _chosen(opener, kind, written, options)
    if kind in DRAWN:
        return opener(**chosen)
    if kind in STORED:
        if is_address(place):
            raise DataError(f"{kind} is read from a folder of this machine; copy {printable(place)} to one")
        directory = Path(place) if place else data_root() / kind
        if not directory.exists():
            raise DataError(f"no such folder: {printable(directory)}; {kind} needs its published files there")
        return opener(directory, **chosen)
    return opener((matching(place) or [place]) if kind == "table" else place, **chosen)


def _own_source(name: str, options: Mapping[str, Option]) -> AnySource:
    """What a user's own callable makes of its options, which come as text from a command line."""
    make = own_code(name, kind="source")
    if not callable(make):
        raise SettingError(f"source {name} must be a class or a function that makes a source; it is {make!r:.60}")
    known = {name for name, each in inspect.signature(make).parameters.items() if each.kind is not each.VAR_KEYWORD}
    for option in options:
        if option not in known:
            raise SettingError(f"source {name} has no option {option!r}{did_you_mean(option, known)}")
    source = make(**options)
    if not isinstance(source, (Source, StreamSource)):
        raise SettingError(
            f"source {name} made a {type(source).__name__}, which is no source: inherit eigenview.data.Unannotated and "
            "give it __len__ and image"
        )
    return source


def _parsed(spec: str) -> tuple[str | None, str, dict[str, str]]:
    """Kind (None: not said), place, options as written."""
    place, _, query = (spec, "", "") if os.path.exists(spec) else spec.partition("?")
    try:
        plain = query.replace("+", "%2B")  # in addresses a plus means a space; here it means itself
        written = dict(parse_qsl(plain, strict_parsing=True, keep_blank_values=True)) if query else {}
    except ValueError:
        raise SettingError(f"options are written ?name=value&name=value; got ?{query}") from None
    kind, colon, rest = place.partition(":")
    if colon and kind in OPENERS:
        return kind, rest, written
    if not colon and (place in DRAWN or place in STORED) and not os.path.exists(place):
        return place, "", written
    return None, place, written


def _guessed(place: str) -> str:
    if not place:
        raise SettingError("a source needs a path or a name; got nothing")
    if os.path.isdir(place):
        return "folder"
    name = urlsplit(place).path.lower() if is_address(place) else place.lower()
    for suffix, kind in BY_SUFFIX.items():
        if name.endswith(suffix):
            return kind
    if is_address(place):  # what is neither table nor list nor shard is a folder, where the protocol has them
        if urlsplit(place).scheme in ("http", "https"):
            rule = f"{printable(place)} must be one of {' '.join(BY_SUFFIX)}"
            raise DataError(f"{rule}; a page of images must be fetched to a folder first")
        file_system(place)  # refuses it here and now where something must be installed first
        return "folder"
    if os.path.exists(place):
        raise DataError(
            f"{printable(place)} is a file, not a folder of images, and not one of {' '.join(BY_SUFFIX)}; "
            "say what it is, such as list:PATH"
        )
    kind, colon, _ = place.partition(":")
    meant = did_you_mean(kind, OPENERS if colon else (*DRAWN, *STORED)) or "; is the path right?"
    names = f"sets: {', '.join((*DRAWN, *STORED))}; kinds, before a colon: {', '.join(READERS)}"
    raise DataError(f"no such folder or file: {printable(place)}{meant} ({names})")


def _chosen(
    opener: Callable[..., AnySource], kind: str, written: Mapping[str, str], options: Mapping[str, Option]
) -> dict[str, Option]:
    """The options given; what is written as the type of its option's default, as text where there is none."""
    parameters = inspect.signature(opener).parameters
    settings = {name: each for name, each in parameters.items() if each.default is not each.empty and name != "kind"}
    for name in (*written, *options):
        if name not in settings:
            meant = did_you_mean(name, settings)
            raise SettingError(f"{kind} has no option {name!r}; it has {', '.join(settings)}{meant}")
    chosen: dict[str, Option] = {}
    for name, text in written.items():
        default = settings[name].default
        try:
            if isinstance(default, bool):
                chosen[name] = YES_AND_NO[text.lower()]
            elif isinstance(default, (int, float)):
                chosen[name] = type(default)(text)
            else:
                chosen[name] = text
        except (KeyError, ValueError):
            wanted = "yes or no" if isinstance(default, bool) else "a number"
            raise SettingError(f"{kind}'s option {name} is {wanted}; got {text!r}") from None
    return {**chosen, **options}
