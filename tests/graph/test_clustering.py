"""Spherical k-means against loops and scikit-learn, its limits, and real processes."""

from __future__ import annotations

import math
from collections import defaultdict

import numpy as np
import pytest
import torch
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score
from torch import Tensor

from eigenview.errors import DataError, SettingError, ShapeError
from eigenview.graph import clustering
from eigenview.graph.clustering import spherical_kmeans
from tests.processes import run_processes


def normal(n: int, d: int, *, seed: int = 0) -> Tensor:
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def unit(rows: Tensor) -> Tensor:
    return torch.nn.functional.normalize(rows, dim=1)


def blobs(centres: int, each: int, *, d: int = 16, spread: float = 0.05) -> tuple[Tensor, Tensor]:
    labels = torch.arange(centres).repeat(each)
    middle = unit(normal(centres, d, seed=1))
    return middle[labels] + spread * normal(len(labels), d, seed=2), labels


def kmeans_by_loops(rows: Tensor, start: Tensor, iterations: int, empty: str) -> tuple[Tensor, list[int], float]:
    points = unit(rows).tolist()
    centroids = unit(start).tolist()

    def cosine(point: list[float], centroid: list[float]) -> float:
        return sum(a * b for a, b in zip(point, centroid, strict=True))

    def assign() -> list[int]:
        return [max(range(len(centroids)), key=lambda k: cosine(point, centroids[k])) for point in points]

    for _ in range(iterations):
        labels = assign()
        far = sorted(range(len(points)), key=lambda i: cosine(points[i], centroids[labels[i]]))
        for k in range(len(centroids)):
            members = [points[i] for i in range(len(points)) if labels[i] == k]
            if members:
                total = [sum(values) for values in zip(*members, strict=True)]
                length = math.sqrt(sum(value * value for value in total))
                centroids[k] = [value / length for value in total]
            elif empty == "farthest":
                centroids[k] = points[far.pop(0)]
    labels = assign()
    score = sum(cosine(point, centroids[k]) for point, k in zip(points, labels, strict=True)) / len(points)
    return torch.tensor(centroids, dtype=torch.float64), labels, score


@pytest.mark.parametrize("iterations", [0, 1, 4])
@pytest.mark.parametrize("empty", ["keep", "farthest"])
def test_equals_the_loop(iterations, empty):
    rows, start = 3 * normal(60, 5), normal(6, 5, seed=3)
    rows[:, 0], start[:4, 0] = 6 + rows[:, 0].abs(), 1 + start[:4, 0].abs()
    start[4:, 0] = -9  # on the other side of the sphere: no row is nearer to them, so both are empty
    clusters = spherical_kmeans(rows, 6, iterations=iterations, start=start, empty=empty)
    centroids, labels, score = kmeans_by_loops(rows, start, iterations, empty)
    assert (set(labels) <= {0, 1, 2, 3}) == (iterations == 0 or empty == "keep")
    torch.testing.assert_close(clusters.centroids, centroids, rtol=0, atol=1e-12)
    assert clusters.assignment.tolist() == labels
    assert clusters.counts.tolist() == np.bincount(labels, minlength=6).tolist()
    assert clusters.objective == pytest.approx(score, abs=1e-12)


@pytest.mark.parametrize("block", [1, 7, 1 << 20])
@pytest.mark.parametrize("clusters", [5, 300])  # 300: wide enough for the search in pieces, with padding
def test_blocks_of_any_size_give_one_answer(monkeypatch, block, clusters):
    rows = normal(320, 6)
    whole = spherical_kmeans(rows, clusters, iterations=3)
    cosines = unit(rows) @ whole.centroids.T
    assert torch.equal(whole.assignment, cosines.argmax(dim=1))
    assert whole.objective == pytest.approx(float(cosines.amax(dim=1).mean()), abs=1e-12)
    monkeypatch.setattr(clustering, "BLOCK_ELEMENTS", block)
    monkeypatch.setattr(clustering, "LARGEST_BLOCK", min(block, 1000))
    pieces = spherical_kmeans(rows, clusters, iterations=3)
    torch.testing.assert_close(pieces.centroids, whole.centroids, rtol=0, atol=1e-12)
    assert torch.equal(pieces.assignment, whole.assignment)


@pytest.mark.parametrize("start", ["kmeans++", "random"])
@pytest.mark.parametrize("empty", ["keep", "farthest"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_objective_never_decreases(start, empty, seed):
    clusters = spherical_kmeans(normal(200, 4, seed=seed), 40, iterations=15, start=start, empty=empty, seed=seed)
    steps = np.diff(clusters.objectives)
    assert len(steps) == 15
    assert steps.min() >= -1e-14
    torch.testing.assert_close(clusters.centroids.norm(dim=1), torch.ones(40, dtype=torch.float64), rtol=0, atol=1e-12)


def test_the_scale_of_rows_does_not_matter():
    rows = normal(50, 4)
    scaled = rows * torch.linspace(0.1, 90, 50, dtype=torch.float64)[:, None]
    plain, other = spherical_kmeans(rows, 4), spherical_kmeans(scaled, 4)
    torch.testing.assert_close(plain.centroids, other.centroids, rtol=0, atol=1e-12)
    assert torch.equal(plain.assignment, other.assignment)


@pytest.mark.parametrize("start", ["kmeans++", "random"])
def test_a_seed_repeats_and_another_differs(start):
    rows = normal(80, 4)
    first, again = (spherical_kmeans(rows, 9, iterations=0, start=start, seed=4).centroids for _ in range(2))
    other = spherical_kmeans(rows, 9, iterations=0, start=start, seed=5).centroids
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_finds_what_scikit_learn_finds_on_separated_data():
    rows, labels = blobs(8, 40, spread=0.01)
    reference = KMeans(8, n_init=10, random_state=0).fit(unit(rows).numpy()).labels_
    for seed in range(5):
        measured = spherical_kmeans(rows, 8, seed=seed).assignment.numpy()
        assert adjusted_rand_score(reference, measured) == 1.0
        assert adjusted_rand_score(labels.numpy(), measured) == 1.0


def chosen_shares(rows: Tensor, clusters: int) -> np.ndarray:
    """How probably the published sampler, one row at a time, takes each row: summed exactly over all sets of rows."""
    distances = (1 - unit(rows) @ unit(rows).T).clamp_min(0).numpy()
    likely = {frozenset([row]): 1 / len(rows) for row in range(len(rows))}
    for _ in range(clusters - 1):
        larger: defaultdict[frozenset[int], float] = defaultdict(float)
        for chosen, probability in likely.items():
            nearest = distances[:, list(chosen)].min(axis=1)
            nearest[list(chosen)] = 0
            for row in set(range(len(rows))) - chosen:
                larger[chosen | {row}] += probability * nearest[row] / nearest.sum()
        likely = larger
    return np.array([sum(p for chosen, p in likely.items() if row in chosen) for row in range(len(rows))])


def test_batches_of_candidates_sample_as_one_at_a_time_does():
    """The frequency with which each row becomes a centroid, over many draws: within 4.5 standard errors."""
    rows, repeats = normal(12, 3, seed=7), 1500
    directions, taken = unit(rows), np.zeros(12)
    holder = clustering._UnitRows(rows, None)
    generator = torch.Generator().manual_seed(0)
    for _ in range(repeats):
        centroids = clustering._kmeans_plus_plus(holder, 6, generator)
        taken[(centroids @ directions.T).argmax(dim=1).numpy()] += 1
    share = chosen_shares(rows, 6)
    assert taken.sum() == 6 * repeats
    assert share.sum() == pytest.approx(6)
    assert np.ptp(share) > 0.2  # drawn evenly, each row would have a half
    assert (np.abs(taken / repeats - share) / np.sqrt(share * (1 - share) / repeats)).max() < 4.5


@pytest.mark.parametrize("start", ["kmeans++", "random"])
def test_fewer_distinct_rows_than_clusters(start):
    rows = unit(normal(3, 4)).repeat(5, 1)
    clusters = spherical_kmeans(rows, 7, start=start)
    assert int(clusters.counts.sum()) == 15
    assert bool(clusters.centroids.isfinite().all())
    if start == "kmeans++":  # a random start may take copies of one row only
        assert clusters.objective == pytest.approx(1.0, abs=1e-12)
        assert int((clusters.counts > 0).sum()) == 3


def test_an_empty_cluster_keeps_its_centroid_or_takes_the_farthest_row():
    rows = torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.1, 1.0]], dtype=torch.float64)
    start = torch.tensor([[1.0, 0.2], [-1.0, -1.0]], dtype=torch.float64)
    kept = spherical_kmeans(rows, 2, start=start, iterations=3)
    assert kept.counts.tolist() == [3, 0]
    torch.testing.assert_close(kept.centroids[1], unit(start)[1], rtol=0, atol=1e-15)
    moved = spherical_kmeans(rows, 2, start=start, iterations=3, empty="farthest")
    assert moved.assignment.tolist() == [0, 0, 1]
    assert moved.objective > kept.objective


def test_rows_that_cancel_out_keep_their_centroid():
    rows = torch.tensor([[1.0, 0.0], [-1.0, 0.0]], dtype=torch.float64)
    start = torch.tensor([[0.0, 1.0]], dtype=torch.float64)
    clusters = spherical_kmeans(rows, 1, start=start)
    torch.testing.assert_close(clusters.centroids, start, rtol=0, atol=0)


def test_as_many_clusters_as_rows():
    clusters = spherical_kmeans(normal(9, 4), 9)
    assert clusters.counts.tolist() == [1] * 9
    assert clusters.objective == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_low_precision_is_computed_in_float32(dtype):
    rows, labels = blobs(5, 20)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        clusters = spherical_kmeans(rows.to(dtype).requires_grad_(), 5)
    assert clusters.centroids.dtype == torch.float32
    assert not clusters.centroids.requires_grad
    assert adjusted_rand_score(labels.numpy(), clusters.assignment.numpy()) == 1.0
    exact = spherical_kmeans(rows.to(dtype).double(), 5)
    torch.testing.assert_close(clusters.centroids.double(), exact.centroids, rtol=0, atol=1e-6)


def clusters_of_shard(rank, group, rows, sizes, clusters, options):
    mine = rows[sum(sizes[:rank]) : sum(sizes[: rank + 1])]
    measured = spherical_kmeans(mine, clusters, group=group, **options)
    return measured.centroids, measured.assignment, measured.counts, measured.objectives


@pytest.mark.parametrize(
    ("sizes", "clusters", "options"),
    [
        ([40, 40], 7, {}),
        ([13, 67], 30, {"start": "random", "empty": "farthest", "seed": 3}),
        ([50, 0, 30], 30, {"empty": "farthest", "seed": 1}),
    ],
)
def test_processes_equal_one(sizes, clusters, options):
    rows = normal(80, 3)
    rows[60:] = rows[:20]  # copies leave some clusters empty
    alone = spherical_kmeans(rows, clusters, **options)
    shards = run_processes(len(sizes), clusters_of_shard, rows, sizes, clusters, options)
    assert np.array_equal(np.concatenate([shard[1] for shard in shards]), alone.assignment.numpy())
    for centroids, _, counts, objectives in shards:
        np.testing.assert_allclose(centroids, alone.centroids.numpy(), rtol=0, atol=1e-12)
        assert counts.tolist() == alone.counts.tolist()
        np.testing.assert_allclose(objectives, alone.objectives, rtol=0, atol=1e-12)


def refusals_of_shard(rank, group):
    with pytest.raises(DataError) as zero_rows:
        spherical_kmeans(torch.zeros(3, 2) if rank else torch.ones(3, 2), 3, group=group)
    with pytest.raises(SettingError) as too_many:
        spherical_kmeans(torch.ones(3, 2), 7, group=group)
    return str(zero_rows.value), str(too_many.value)


def test_processes_refuse_together():
    first, second = run_processes(2, refusals_of_shard)
    assert "another process refused" in first[0]
    assert "row 0 is not" in second[0]
    assert "got 7 for 6 rows" in first[1]
    assert first[1] == second[1]


@pytest.mark.parametrize(
    ("rows", "kind", "message"),
    [
        (torch.ones(4), ShapeError, r"\(n, d\) matrix.*got \(4,\)"),
        (torch.ones(4, 2, dtype=torch.long), ShapeError, "floating"),
        (torch.ones(1, 2), SettingError, "at most the number of rows; got 2 for 1 rows"),
        (torch.tensor([[1.0, 0.0], [0.0, 0.0]]), DataError, "row 1 is not"),
        (torch.tensor([[torch.nan, 0.0], [1.0, 0.0]]), DataError, "finite and not zero.*row 0 is not"),
        (torch.tensor([[torch.inf, 0.0], [1.0, 0.0]]), DataError, "row 0 is not"),
    ],
)
def test_bad_rows_are_refused(rows, kind, message):
    with pytest.raises(kind, match=message):
        spherical_kmeans(rows, 2)


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"clusters": 0}, SettingError, "clusters must be a whole number of at least 1; got 0"),
        ({"iterations": -1}, SettingError, "iterations must be a whole number of at least 0; got -1"),
        ({"start": "best"}, SettingError, "start must be 'kmeans\\+\\+', 'random'.*got 'best'"),
        ({"start": torch.ones(3, 2)}, ShapeError, r"start must have shape \(2, 4\).*got \(3, 2\)"),
        ({"start": torch.zeros(2, 4)}, DataError, "rows of start must be finite and not zero"),
        ({"empty": "split"}, SettingError, "empty must be 'keep' or 'farthest'; got 'split'"),
    ],
)
def test_bad_settings_are_refused(options, kind, message):
    with pytest.raises(kind, match=message):
        spherical_kmeans(normal(6, 4), **{"clusters": 2, **options})
