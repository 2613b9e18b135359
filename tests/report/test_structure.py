"""What the report computes from a sample, against slow loops."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

from eigenview.report import charts, galleries
from eigenview.report.structure import Structure, class_name, confusion, first_projection, structure_of
from eigenview.runs import RunDirectory, Sample
from tests.report.example_run import write_run


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Sample:
    measured = RunDirectory(write_run(tmp_path_factory.mktemp("run"), items=80)).sample()
    assert measured is not None
    return measured


@pytest.fixture(scope="module")
def structure(sample) -> Structure:
    return structure_of(sample)


def cosine(a, b) -> float:
    return float(a.astype(np.float64) @ b / np.linalg.norm(a.astype(np.float64)) / np.linalg.norm(b.astype(np.float64)))


def test_neighbours_are_those_of_a_plain_loop(sample, structure):
    for row in range(0, 80, 7):
        all_of_them = {
            other: cosine(sample.features[row], sample.features[other]) for other in range(80) if other != row
        }
        best = sorted(all_of_them.values(), reverse=True)[:10]
        assert np.allclose(structure.cosines[row], best, atol=1e-5)
        assert row not in structure.neighbours[row]
        assert np.allclose([all_of_them[int(near)] for near in structure.neighbours[row]], best, atol=1e-5)


def test_the_one_duplicated_pair_is_found(structure):
    assert [pair[:2] for pair in structure.duplicates] == [(1, 5)]
    assert structure.duplicates[0][2] == pytest.approx(1)


def test_four_groups_give_an_eigengap_after_four_and_a_clean_confusion(structure):
    assert structure.laplacian.clusters == 4
    assert structure.confusion.counts.sum() == 80
    assert structure.confusion.accuracy > 0.95
    assert (structure.confusion.counts.sum(axis=1) == 20).all()


def own_group_among_nearest(places, groups) -> float:
    """The mean share of a point's five nearest points on the map that belong to its group, by a plain loop."""
    shares = []
    for row, place in enumerate(places):
        distances = np.linalg.norm(places - place, axis=1)
        distances[row] = np.inf
        shares.append(np.mean(groups[np.argsort(distances)[:5]] == groups[row]))
    return float(np.mean(shares))


def test_maps_tell_four_groups_apart_and_random_maps_do_not(sample, structure):
    assert [projection.name for projection in structure.projections][-2:] == ["spectral", "PCA"]
    for projection in structure.projections:
        assert own_group_among_nearest(projection.places, sample.clusters) > 0.85, projection.name
    random = np.random.default_rng(0)
    assert all(own_group_among_nearest(random.normal(size=(80, 2)), sample.clusters) < 0.5 for _ in range(20))


def test_pca_is_the_plane_of_largest_variance(sample, structure):
    unit = sample.features / np.linalg.norm(sample.features, axis=1, keepdims=True)
    variances = np.linalg.eigvalsh(np.cov(unit.T.astype(np.float64), bias=True))[::-1][:2]
    assert np.allclose(structure.projections[-1].places.var(axis=0), variances, rtol=1e-4)


def test_the_worst_queries_have_the_fewest_neighbours_of_their_class(sample, structure):
    share = [
        np.mean([sample.labels[n] == sample.labels[row] for n in structure.neighbours[row]])
        for row in range(len(sample.names))
    ]
    worst = galleries.worst_queries(sample, structure)
    assert sorted(worst) == list(range(80))
    assert np.array_equal([share[row] for row in worst], sorted(share))


def test_without_labels_the_most_isolated_are_worst(sample, structure):
    worst = galleries.worst_queries(replace(sample, labels=None), structure)
    assert np.array_equal(structure.cosines[worst, 0], np.sort(structure.cosines[:, 0]))


def test_labels_that_are_missing_rare_or_alone_give_no_confusion(sample):
    features = torch.from_numpy(sample.features)
    assert confusion(features, replace(sample, labels=None)) is None
    assert confusion(features, replace(sample, labels=np.zeros(80, dtype=np.int64))) is None
    some = np.where(np.arange(80) % 4 == 0, -1, sample.labels)
    some[1] = 3 + 4  # a class of one
    left = confusion(features, replace(sample, labels=some))
    assert left.items == 59
    assert left.classes == ("dog", "frog", "ship")
    assert class_name(sample, -1) == "no label"
    assert class_name(sample, 9) == "class 9"


def test_the_map_packs_places_and_groups_that_unpack_again(sample, structure):
    import base64

    packed = charts.map_data(sample, structure)
    places = np.frombuffer(base64.b64decode(packed["maps"][0]["places"]), dtype="<u2").reshape(-1, 2)
    given = structure.projections[0].places
    span = np.ptp(given, axis=0).max()
    assert np.allclose(np.diff(places.astype(float), axis=0) / 65000, np.diff(given, axis=0) / span, atol=1e-4)
    groups = np.frombuffer(base64.b64decode(packed["colourings"][0]["of"]), dtype="<u2")
    assert np.array_equal(groups, sample.labels)
    assert packed["colourings"][0]["counts"] == [20, 20, 20, 20]


def test_long_curves_are_thinned_and_keep_their_ends():
    steps, values = charts.thinned([(float(step), float(step) ** 2) for step in range(5000)])
    assert len(steps) == charts.POINTS
    assert (steps[0], values[0]) == (0, 0)
    assert (steps[-1], values[-1]) == (4999, pytest.approx(4999**2, rel=1e-4))
    assert steps == sorted(steps)
    short = [(1.0, 2.0), (2.0, 3.0)]
    assert charts.thinned(short) == ([1, 2], [2, 3])


def test_a_umap_that_breaks_on_import_gives_way_to_t_sne(tmp_path, monkeypatch):
    (tmp_path / "umap.py").write_text("raise RuntimeError('compiled for another numba')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "umap", raising=False)
    rows = torch.randn(40, 6, generator=torch.Generator().manual_seed(0))
    projection = first_projection(rows)
    assert projection.name == "t-SNE"
    assert np.ptp(projection.places, axis=0).min() > 0
