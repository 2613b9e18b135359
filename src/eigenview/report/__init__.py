"""A run directory becomes one self-contained HTML file: readable offline, by anyone, without this library."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from eigenview.diagnostics import diagnose
from eigenview.errors import EigenviewError, SettingError
from eigenview.files import check_writable, write_text
from eigenview.report.page import build_page
from eigenview.report.structure import outline_of, structure_of
from eigenview.report.sweep import sweep_page
from eigenview.runs.contents import RunContents
from eigenview.sweeps.results import is_sweep, read_results

__all__ = ["write_report"]

NAME = "report.html"


def write_report(runs: Sequence[str | Path], out: str | Path | None = None) -> Path:
    """One HTML file about a run, or one that compares several (the first is the reference); returns where it is.

    Made from the run directories alone: ``config.json`` must be there; ``metrics.jsonl``, ``data.json``,
    ``environment.json``, ``evaluation/``, ``diagnosis.json`` and ``sample/`` add their sections. ``out`` is a file, or
    a folder to put ``report.html`` into; without it, the (first) run's own folder. The folder of a sweep gives the
    sweep's page.
    """
    if isinstance(runs, str | Path) or not runs:
        raise SettingError("a report needs a list of at least one run directory")
    if len(runs) == 1 and is_sweep(runs[0]):
        place = Path(runs[0]) if out is None else Path(out)
        return write_text(_place(place, comparing=False), sweep_page(read_results(runs[0])))
    opened = [RunContents.of(folder) for folder in runs]
    file = _place(opened[0].directory.folder if out is None else Path(out), comparing=len(opened) > 1)
    if file.parent.is_dir():
        check_writable(file.parent)
    compute = structure_of if len(opened) == 1 else outline_of
    structures = {place: compute(run.sample) for place, run in enumerate(opened) if run.sample is not None}
    text = build_page([_diagnosed(run) for run in opened], structures)
    return write_text(file, text)


def _place(out: Path, *, comparing: bool) -> Path:
    if out.suffix.lower() in (".html", ".htm"):
        return out
    return out / ("comparison.html" if comparing else NAME)


def _diagnosed(run: RunContents) -> RunContents:
    """A run whose diagnosis is gone or cannot be read is diagnosed by its sample's projections."""
    sample = run.sample
    if run.diagnosis is not None or sample is None or sample.first_view is None:
        return run
    labels = None if sample.labels is None or (sample.labels < 0).all() else sample.labels
    try:
        diagnosis = diagnose(sample.first_view, sample.second_view, labels, progress=run.metrics.progress())
    except EigenviewError as error:
        return replace(run, problems=(*run.problems, f"the sample could not be diagnosed: {error}"))
    return replace(run, diagnosis=diagnosis)
