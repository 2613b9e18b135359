"""``compare`` without labels: measures of runs, encoders and files of vectors side by side, and what they are worth."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from eigenview.cli.output import JSON, Output
from eigenview.cli.run_options import VECTORS, RunOptions, open_with, say_wait, seconds_an_image
from eigenview.errors import SettingError
from eigenview.names import printable

TRUSTED = 0.7  # rank correlation from which on a measure may choose

if TYPE_CHECKING:
    from eigenview.diagnostics.label_free import LabelFree


def compare_unlabelled(
    options: RunOptions, given: Sequence[Path], spec: str | None, output: Output, *, seed: int, shows: bool
) -> None:
    """Measure all on the images of ``spec``, or on those that the first run was made for; ``shows`` a table."""
    from eigenview.diagnostics.label_free import MEASURED_ON, MEASURES, WORTH, best_by

    measured: dict[str, LabelFree] = {}
    called = Counter(place.stem if place.suffix in VECTORS else place.name for place in given)
    for place in given:
        is_file = place.suffix in VECTORS
        name = (place.stem if called[place.stem] == 1 else printable(place)) if is_file else place.name
        if name in measured:
            raise SettingError(f"runs are told apart by their folders' names; two are called {name}: rename one")
        measured[name], spec = _measured(options, place, spec, output, seed)
    best, by = best_by(measured)
    figures: dict[str, JSON] = {name: _as_json(figures) for name, figures in measured.items()}
    output.result({"best": best, "by": by, "worth": dict(WORTH), "measures": figures})
    if not shows:
        return
    rows = []
    for title, measure in MEASURES.items():
        cells = [_cell(getattr(some, measure.field)) for some in measured.values()]
        rows.append([f"{title} ({measure.rule})", *cells, f"{WORTH[title]:+.2f}"])
    output.table(["without labels", *measured, "worth"], rows)
    hint = "probably best" if WORTH[by] >= TRUSTED else "a hint, hardly better than a guess"
    output.say(f"{hint}: {best}, by {by}")
    output.say(
        f"worth: rank correlation with 20-NN accuracy over {MEASURED_ON}; 1 is always right, 0 a guess.", style="dim"
    )
    output.say("With a few hundred labels, --select SOURCE tells more than any of these.", style="dim")


def _measured(
    options: RunOptions, place: Path, spec: str | None, output: Output, seed: int
) -> tuple[LabelFree, str | None]:
    """The measures, and on which images; vectors are measured as they are."""
    from eigenview.data import open_images
    from eigenview.diagnostics.label_free import label_free
    from eigenview.evaluation.observation import ITEMS, VIEWED, VIEWS, measure_without_labels
    from eigenview.search import open_embeddings

    if place.suffix in VECTORS:
        return label_free(open_embeddings(place).vectors, seed=seed), spec
    run = open_with(options, place, output, spec)
    images = spec or run.directory.source
    source = open_images(images, needs_index=True, network=spec is not None)  # no address of settings is fetched
    seen = min(ITEMS, len(source)) + VIEWS * min(VIEWED, len(source))
    say_wait(output, f"{run.name}: {seen:,} images and views", seen * seconds_an_image(run, source))
    return measure_without_labels(run, source, seed=seed), images


def _cell(value: float | None) -> str:
    return "–" if value is None or math.isnan(value) else f"{value:.3g}"


def _as_json(figures: LabelFree) -> dict[str, JSON]:
    return {name: value if value is None or math.isfinite(value) else None for name, value in asdict(figures).items()}
