"""Verdicts on clouds made to deserve them, and what a diagnosis keeps."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from eigenview.diagnostics import (
    Diagnosis,
    RunProgress,
    Sampling,
    Thresholds,
    alignment_figure,
    diagnose,
    diagnosed,
    effective_rank,
    hubness,
    prototype_usage,
    tolerance,
    uniformity_figure,
)
from eigenview.diagnostics.figures import VERSION, late_fall
from eigenview.errors import DataError, SettingError, ShapeError
from tests.diagnostics.clouds import clustered, gaussian, rotated


def names(diagnosis: Diagnosis) -> list[str]:
    return [finding.name for finding in diagnosis.findings]


def two_views(rows: Tensor, noise: float) -> tuple[Tensor, Tensor]:
    return rows, rows + noise * gaussian(*rows.shape, seed=77)


def test_a_diagnosis_holds_the_figures_of_the_functions():
    a, b = two_views(gaussian(300, 16), 0.4)
    labels = torch.arange(300) % 7
    figures = diagnose(a, b, labels).figures
    assert figures.effective_rank == pytest.approx(effective_rank(a))
    assert figures.uniformity == uniformity_figure(a)
    assert figures.hubness == hubness(a)
    assert figures.tolerance == tolerance(a, labels)
    assert figures.views.alignment == alignment_figure(a, b)


@pytest.mark.parametrize(
    "rows",
    [gaussian(500, 8), gaussian(200, 128), gaussian(30, 64), clustered(10, 40, 32, noise=0.15)],
    ids=["low", "high", "fewer rows than dimensions", "clustered"],
)
def test_spread_embeddings_are_healthy(rows: Tensor):
    assert diagnose(*two_views(rows, 0.3 * float(rows.std()))).verdict == "healthy"
    assert diagnose(3 * rotated(rows)).verdict == "healthy"


def test_constant_and_nearly_constant_rows_are_a_full_collapse():
    for noise in (0, 1e-6, 1e-2):
        rows = torch.ones(200, 32) + noise * gaussian(200, 32)
        assert names(diagnose(*two_views(rows, noise))) == ["full collapse"]


@pytest.mark.parametrize("rank", [1, 2, 4])
def test_rows_in_a_few_directions_are_a_dimensional_collapse(rank: int):
    rows = rotated(torch.cat([gaussian(600, rank), 1e-4 * gaussian(600, 64 - rank)], dim=1))
    assert diagnose(rows).verdict == "dimensional collapse"


def test_a_cone_is_crowded():
    assert names(diagnose(gaussian(400, 32) + 3)) == ["crowded"]


def test_repeated_rows_are_duplicated_data():
    rows = gaussian(300, 32)
    diagnosis = diagnose(torch.cat([rows, rows[:30]]))
    assert names(diagnosis) == ["duplicated data"]
    assert (0, 300) in diagnosis.figures.duplicate_pairs


def test_a_dense_surface_is_not_duplicated_data():
    latent = torch.rand(4000, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    surface = torch.cos(4 * latent @ gaussian(2, 48) + 6 * gaussian(1, 48, seed=1))
    assert "duplicated data" not in names(diagnose(surface))
    repeated = diagnose(torch.cat([surface, surface[:2000]]))
    assert "duplicated data" in names(repeated)


def test_shuffled_and_identical_views_are_told():
    rows = gaussian(300, 32)
    assert diagnose(rows, rows.roll(1, dims=0)).verdict == "views disagree"
    assert diagnose(*two_views(rows, 1e-3)).verdict == "views identical"


def test_a_loss_at_its_chance_level_is_told():
    rows, chance = gaussian(300, 32), math.log(511)
    assert diagnose(rows, loss=chance, chance=chance).verdict == "at chance"
    assert diagnose(rows, loss=0.8 * chance, chance=chance).verdict == "healthy"
    assert diagnose(rows, loss=99.0).verdict == "healthy"


def test_dead_dimensions_unused_prototypes_and_hubs_are_told():
    rows = gaussian(300, 32)
    rows[:, ::4] = 0
    assert diagnose(rows).verdict == "dead dimensions"
    usage = prototype_usage(torch.arange(300) % 3, 100)
    assert diagnose(gaussian(300, 32), usage=usage).verdict == "prototypes unused"
    spokes = torch.linalg.qr(gaussian(400, 400))[0]
    near_all = spokes.sum(dim=0) / 20 + 0.01 * gaussian(10, 400, seed=2)
    assert "hubs" in names(diagnose(torch.cat([spokes, near_all])))


def test_centred_features_are_judged_as_their_differences_are():
    rows = gaussian(400, 32)
    a, b = two_views(rows, 0.4)
    apart, shifted = diagnose(a, b), diagnose(a + 3, b + 3, centred=True)
    assert diagnose(a + 3, b + 3).verdict == "crowded"
    assert shifted.verdict == "healthy"
    assert shifted.figures.is_centred
    centred = (a - a.mean(dim=0), b - b.mean(dim=0))
    assert shifted.figures.uniformity.value == pytest.approx(uniformity_figure(centred[0]).value)
    assert shifted.figures.views.alignment == pytest.approx(alignment_figure(*centred))
    assert shifted.figures.mean_cosine == pytest.approx(diagnose(a + 3).figures.mean_cosine)
    assert shifted.figures.effective_rank_centred == pytest.approx(apart.figures.effective_rank_centred)


def test_collapsed_rows_are_not_centred_into_health():
    rows = torch.ones(200, 32, dtype=torch.float64)
    for noise in (0, 1e-8, 1e-3):
        diagnosis = diagnose(*two_views(rows + noise * gaussian(200, 32), noise), centred=True)
        assert (diagnosis.verdict, diagnosis.figures.is_centred) == ("full collapse", False)


def test_a_file_is_centred_as_the_tensor_it_holds(tmp_path):
    rows = gaussian(300, 16) + 2
    np.save(tmp_path / "rows.npy", rows.numpy())
    assert diagnose(tmp_path / "rows.npy", centred=True) == diagnose(rows, centred=True)


def test_groups_are_counted_among_the_unaugmented():
    generator = torch.Generator().manual_seed(0)
    groups = torch.nn.functional.normalize(torch.randn(4, 16, generator=generator), dim=1).repeat(50, 1)
    items = groups + 0.05 * torch.randn(200, 16, generator=generator)
    view = torch.randn(200, 16, generator=generator)
    assert diagnose(view, unaugmented=items).figures.clusters.clusters == 4
    assert diagnose(view).figures.clusters.clusters != 4


def test_duplicates_are_sought_among_the_unaugmented():
    items = gaussian(300, 32)
    items[270:] = items[:30]
    a, b = items + 0.3 * gaussian(300, 32, seed=5), items + 0.3 * gaussian(300, 32, seed=6)
    assert diagnose(a, b).verdict == "healthy"
    diagnosis = diagnose(a, b, unaugmented=items)
    assert diagnosis.verdict == "duplicated data"
    assert (0, 270) in diagnosis.figures.duplicate_pairs
    with pytest.raises(ShapeError, match=r"z_a \(300, 32\), unaugmented \(299, 32\)"):
        diagnose(a, unaugmented=items[:299])


def test_a_run_that_ended_in_nan_has_diverged():
    diagnosis = diagnose(gaussian(300, 32), progress=RunProgress(has_diverged=True))
    assert diagnosis.verdict == "diverged"
    assert Diagnosis.from_json(diagnosis.to_json()) == diagnosis
    assert diagnosed(diagnosis.figures) == diagnosis


BEGINNING = RunProgress(loss=4.8, chance=6.2, steps=80, epochs=2.5, share=1.0)


def test_a_run_that_has_barely_begun_is_called_that_not_healthy():
    a, b = two_views(gaussian(300, 8), 1.4)
    assert diagnose(a, b).figures.views.matched.value < 0.5
    diagnosis = diagnose(a, b, progress=BEGINNING)
    assert diagnosis.verdict == "barely begun"
    assert (diagnosis.figures.loss, diagnosis.figures.chance, diagnosis.figures.progress) == (4.8, 6.2, BEGINNING)
    assert "the run has made 80 steps, 2.5 epochs" in diagnosis.findings[0].reasons[0]
    assert diagnosis.findings[0].advice.startswith("train longer: eigenview train --resume --out RUN --epochs 70.")
    assert "80 steps, 2.5 epochs" in diagnosis.lines()[-1]
    assert Diagnosis.from_json(diagnosis.to_json()) == diagnosis
    assert diagnose(a, b).verdict == "healthy"  # of embeddings alone nobody knows


@pytest.mark.parametrize(
    ("progress", "verdict"),
    [
        ({"steps": 499, "epochs": 100}, "barely begun"),
        ({"steps": 500, "epochs": 10}, "healthy"),
        ({"steps": 1999, "epochs": 9}, "barely begun"),
        ({"steps": 2000, "epochs": 0}, "healthy"),  # an epoch of many images
        ({"steps": 2000, "epochs": None}, "healthy"),
        ({"steps": 1999, "epochs": None}, "barely begun"),  # a stream
        ({"steps": 9000, "epochs": 20, "share": 0.09}, "barely begun"),
        ({"steps": 9000, "epochs": 20, "share": 0.1}, "healthy"),
        ({"steps": None, "epochs": 1}, "healthy"),  # of another's run
    ],
)
def test_begun_is_a_matter_of_steps_epochs_and_the_plan(progress, verdict):
    a, b = two_views(gaussian(300, 8), 1.4)
    assert diagnose(a, b, progress=replace(RunProgress(), **progress)).verdict == verdict


def test_views_that_find_each_other_show_that_a_short_run_went_on_from_something():
    a, b = two_views(gaussian(300, 32), 0.3)
    diagnosis = diagnose(a, b, progress=BEGINNING)
    assert diagnosis.figures.views.matched.value > 0.9
    assert diagnosis.verdict == "healthy"


def test_what_is_wrong_is_graver_than_that_a_run_has_barely_begun():
    diagnosis = diagnose(torch.ones(200, 32), torch.ones(200, 32), progress=BEGINNING)
    assert names(diagnosis) == ["full collapse", "barely begun"]


def test_the_end_of_the_curve_is_said():
    a, b = two_views(gaussian(300, 8), 1.4)
    falling = replace(BEGINNING, late_fall=late_fall([9.0, 8, 7, 6, 5, 4, 3, 2]))
    reasons = diagnose(a, b, progress=falling).findings[0].reasons
    assert reasons[-1] == "the loss still falls: 33% of its fall was in the last quarter of the run"
    assert late_fall([9.0, 9, 5, 5, 3, 3, 3, 3]) == 0
    noisy = replace(BEGINNING, late_fall=2.03)  # it was higher in the third quarter than in the first
    reasons = " ".join(diagnose(a, b, progress=noisy).findings[0].reasons)
    assert "the loss still falls: after a rise, it fell in the last quarter of the run" in reasons
    assert "203" not in reasons
    assert late_fall([9.0, 9, 8, 8, 6, 6, 3, 3, 3]) == pytest.approx(((6 + 6) / 2 - 3) / (9 - 3))
    assert late_fall([3.0, 2, 1]) is None
    assert late_fall([1.0] * 9) is None


def test_the_gravest_finding_comes_first_and_hides_what_it_explains():
    constant = torch.ones(200, 32)
    diagnosis = diagnose(constant, constant, loss=6.0, chance=6.0)
    assert names(diagnosis) == ["full collapse", "at chance"]
    assert all(finding.reasons and finding.advice for finding in diagnosis.findings)


def test_advice_names_verbs_of_the_command_line_not_functions():
    items = gaussian(300, 32)
    items[270:] = items[:30]
    findings = [
        *diagnose(items).findings,
        *diagnose(gaussian(300, 32), thresholds=Thresholds(crowding=-1)).findings,
    ]
    advice = {finding.name: finding.advice for finding in findings}
    assert "eigenview duplicates" in advice["duplicated data"]
    assert "eigenview diagnose RUN --where features" in advice["crowded"]
    assert not re.search(r"\w\(|=True", " ".join(advice.values()))


def test_thresholds_can_be_replaced():
    assert diagnose(gaussian(300, 32), thresholds=Thresholds(crowding=-1)).verdict == "crowded"


@pytest.mark.parametrize("n", [2, 3, 5])
@pytest.mark.parametrize("d", [1, 2, 64])
def test_the_smallest_inputs_have_a_diagnosis(n: int, d: int):
    diagnosis = diagnose(*two_views(gaussian(n, d), 0.1))
    assert Diagnosis.from_json(diagnosis.to_json()) == diagnosis


def test_few_sampled_rows_are_enough_for_a_diagnosis():
    diagnosis = diagnose(*two_views(gaussian(50, 8), 0.1), sampling=Sampling(anchors=2, nodes=4, counted=4)).figures
    assert (diagnosis.clusters.nodes, diagnosis.uniformity.anchors) == (4, 2)


def test_json_comes_back_the_same():
    a, b = two_views(gaussian(300, 16), 0.4)
    usage = prototype_usage(torch.arange(300) % 7, 9)
    diagnosis = diagnose(a, b, torch.arange(300) % 7, loss=6, chance=6.1, usage=usage, sampling=Sampling(anchors=50))
    assert diagnosis.figures.uniformity.anchors == 50
    assert Diagnosis.from_json(diagnosis.to_json()) == diagnosis
    assert json.loads(diagnosis.to_json())["verdict"] == diagnosis.verdict


def test_a_diagnosis_of_an_earlier_or_a_later_version_opens():
    diagnosis = diagnose(gaussian(30, 4))
    assert json.loads(diagnosis.to_json())["version"] == diagnosis.version == VERSION
    earlier, later = json.loads(diagnosis.to_json()), json.loads(diagnosis.to_json())
    del earlier["version"], earlier["figures"]["has_diverged"], earlier["figures"]["is_centred"]
    assert Diagnosis.from_json(json.dumps(earlier)) == replace(diagnosis, version=1)
    later |= {"version": VERSION + 1, "mood": "sunny"}
    later["figures"]["uniformity"]["median"] = 0.5
    assert Diagnosis.from_json(json.dumps(later)) == replace(diagnosis, version=VERSION + 1)


def test_json_that_is_no_diagnosis_is_refused_by_its_path():
    stored = json.loads(diagnose(gaussian(30, 4)).to_json())
    with pytest.raises(DataError, match=r"run/diagnosis\.json is not JSON"):
        Diagnosis.from_json("{", "run/diagnosis.json")
    with pytest.raises(DataError, match="a stored diagnosis is no Diagnosis: verdict is missing"):
        Diagnosis.from_json("{}")
    stored["figures"]["uniformity"]["low"] = "low"
    with pytest.raises(DataError, match=r"figures\.uniformity\.low: Input should be a valid number"):
        Diagnosis.from_json(json.dumps(stored))


def test_lines_name_the_verdict_its_reasons_and_the_intervals():
    a, b = two_views(gaussian(400, 32) + 3, 0.4)
    lines = diagnose(a, b, sampling=Sampling(anchors=100)).lines()
    assert lines[0] == "crowded: 400 embeddings of 32 dimensions"
    assert any(line.startswith("    because uniformity is -0.") for line in lines)
    assert any(line.startswith("    try: rows cover a small part") for line in lines)
    assert any(line.startswith("  uniformity  ") and " -0." in line and "[" in line for line in lines)


def test_a_file_is_diagnosed_as_the_tensor_it_holds(tmp_path):
    rows = gaussian(300, 16)
    np.save(tmp_path / "rows.npy", rows.numpy())
    assert diagnose(tmp_path / "rows.npy") == diagnose(rows)


def test_bad_input_is_refused():
    rows = gaussian(20, 4)
    with pytest.raises(ShapeError, match="z_a must have at least 2 rows here; got 1"):
        diagnose(rows[:1])
    with pytest.raises(DataError, match="z_a must be finite; NaN or Inf in 1 of 20 rows, first 7"):
        diagnose(rows.index_fill(0, torch.tensor([7]), math.nan))
    with pytest.raises(ShapeError, match=r"z_a \(20, 4\), z_b \(19, 4\)"):
        diagnose(rows, rows[:19])
    with pytest.raises(ShapeError, match=r"z_a must be floating point; got torch.int64"):
        diagnose(torch.ones(4, 4, dtype=torch.long))
    with pytest.raises(ShapeError, match=r"labels must have shape \(20,\)"):
        diagnose(rows, labels=torch.zeros(3, dtype=torch.long))
    with pytest.raises(SettingError, match="loss must be finite; got nan"):
        diagnose(rows, loss=math.nan)
