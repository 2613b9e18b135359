"""Open and decode every image of a source, and say what is there: sizes, labels, what is broken, what repeats.

Examples:
  eigenview data check photos/
  eigenview data check 'photos/?labelled=yes'
  eigenview data check train.parquet --json
"""

import time
from contextlib import suppress
from dataclasses import asdict
from typing import Annotated

from pydantic import Field

from eigenview.cli.options import AsJson, Word, positional
from eigenview.cli.output import Output
from eigenview.cli.run_options import TRIED, say_wait
from eigenview.settings import Strict


class Options(Strict):
    source: Annotated[str, positional("SOURCE")]  # a folder, a table, shards, a list, arrays or a named set
    workers: Annotated[int | None, Word("N")] = Field(None, ge=0)  # processes that decode; automatic unless given
    as_json: AsJson = False  # print the findings as JSON


def run(options: Options, output: Output) -> None:
    from eigenview.data import Source, UnreadableImage, check, open_source
    from eigenview.data.workers import worker_count

    workers = "auto" if options.workers is None else options.workers
    source = open_source(options.source)
    if isinstance(source, Source):
        places, start = range(0, len(source), max(1, len(source) // TRIED)), time.monotonic()
        for place in places:
            with suppress(UnreadableImage):  # what cannot be read is soon done with
                source.image(place).pixels()
        each = (time.monotonic() - start) / max(1, len(places)) / max(1, worker_count(workers))
        say_wait(output, f"{len(source):,} images to open", len(source) * each)
    report = check(source, workers=workers)
    info = asdict(report.info)
    output.result(
        {
            "source": {**info, "classes": None if info["classes"] is None else list(info["classes"])},
            "total": report.total,
            "readable": report.readable,
            "sizes": [{"width": w, "height": h, "count": n} for (w, h), n in report.sizes.most_common()],
            "stored_as": dict(report.modes),
            "labels": dict(report.labels),
            "captions": {str(number): count for number, count in report.captions.items()},
            "unreadable": [{"name": failure.name, "reason": failure.reason} for failure in report.unreadable],
            "unreadable_folders": list(report.unreadable_folders),
            "duplicates": [list(group) for group in report.duplicates],
        }
    )
    if not options.as_json:
        output.say(str(report))
        if report.readable < 2:
            output.say("To learn from images takes more than one: add pictures, hundreds at least.")
        elif report.readable < 100:
            output.say(f"{report.readable} images are few: an encoder learns to tell images apart, so give it more.")
        if report.unreadable:
            output.say("Training passes over unreadable images and lists them in unreadable.jsonl.")
