"""Open and decode every image of a source, and say what is there: sizes, labels, what is broken, what repeats.

Examples:
  eigenview data check photos/
  eigenview data check 'photos/?labelled=yes'
  eigenview data check train.parquet --json
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from eigenview.cli.options import AsJson, Word, parse, positional
from eigenview.cli.output import JSON, Output
from eigenview.settings import Strict

if TYPE_CHECKING:
    from eigenview.data import CheckReport


class Options(Strict):
    source: Annotated[str, positional("SOURCE")]  # a folder, a table, shards, a list, arrays or a named set
    workers: Annotated[int | None, Word("N")] = Field(None, ge=0)  # processes that decode; automatic unless given
    as_json: AsJson = False  # print the findings as JSON


def run(arguments: list[str]) -> None:
    options = parse(Options, arguments, verb="data check", about=__doc__)
    from eigenview.data import check

    output = Output(as_json=options.as_json)
    found = check(options.source, workers="auto" if options.workers is None else options.workers)
    output.result(_as_json(found))
    if not options.as_json:
        output.say(str(found))
        _advise(found, output)


def _advise(found: CheckReport, output: Output) -> None:
    if found.readable < 2:
        output.say("To learn from images takes more than one: add pictures, hundreds at least.")
    elif found.readable < 100:
        output.say(f"{found.readable} images are few: an encoder learns to tell images apart, so give it more.")
    if found.unreadable:
        output.say("Training passes over unreadable images and lists them in unreadable.jsonl.")


def _as_json(found: CheckReport) -> JSON:
    info = asdict(found.info)
    return {
        "source": {**info, "classes": None if info["classes"] is None else list(info["classes"])},
        "total": found.total,
        "readable": found.readable,
        "sizes": [{"width": w, "height": h, "count": n} for (w, h), n in found.sizes.most_common()],
        "stored_as": dict(found.modes),
        "labels": dict(found.labels),
        "captions": {str(number): count for number, count in found.captions.items()},
        "unreadable": [{"name": one.name, "reason": one.reason} for one in found.unreadable],
        "unreadable_folders": list(found.unreadable_folders),
        "duplicates": [list(group) for group in found.duplicates],
    }
