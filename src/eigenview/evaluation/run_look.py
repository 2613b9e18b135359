"""Is a run any good, without labels: its encoder and head on views of its own recipe, diagnosed and sampled."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from eigenview.data import Source, subset
from eigenview.diagnostics import Diagnosis
from eigenview.diagnostics.diagnosis import diagnosed
from eigenview.errors import SettingError
from eigenview.evaluation.observation import Observed, diagnose_observation, features_only, observe
from eigenview.evaluation.sampling import save_sample
from eigenview.evaluation.words_look import modality_figures
from eigenview.files import check_writable
from eigenview.runs import OpenedRun

Where = Literal["projection", "features"]


def diagnose_run(
    run: OpenedRun,
    source: Source,
    *,
    items: int = 5000,
    where: Where = "projection",
    seed: int = 0,
    workers: int | str = "auto",
    keeps: bool = False,
) -> Diagnosis:
    """Figures and a verdict for a run's encoder and head on ``items`` images of ``source``, drawn by ``seed``.

    ``where``: what the loss saw (``projection``), or the features before the head. A run without a head has features
    only. ``keeps``: store the diagnosis and a sample of these images in the run, for the report.
    """
    if where not in ("projection", "features"):
        raise SettingError(f"where is projection or features; got {where!r}")
    if keeps:
        check_writable(run.folder)
    name = f"the checkpoint {run.checkpoint} of {run.folder}"
    observation = observe(Observed.of_run(run), source, items=items, seed=seed, workers=workers, name=name)
    judged = features_only(observation) if where == "features" else observation
    prototypes = run.prototypes if judged.has_head else ()
    diagnosis = diagnose_observation(judged, prototypes=prototypes, progress=run.directory.progress())
    words = modality_figures(run, subset(source, observation.index), judged)
    if words is not None:
        diagnosis = diagnosed(replace(diagnosis.figures, modalities=words), seed=diagnosis.seed)
    if keeps:
        run.directory.save_diagnosis(diagnosis)
        save_sample(run, source, observation)
    return diagnosis
