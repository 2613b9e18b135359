"""How many clusters, connectivity of the augmentation graph, prototypes in use."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from eigenview.diagnostics import cluster_count, connectivity, prototype_usage
from eigenview.diagnostics.clusters import clustered_rows
from eigenview.errors import DataError, SettingError, ShapeError
from tests.diagnostics.clouds import clustered, gaussian, nearest_by_loops, rotated


def islands_by_loops(views: list[Tensor], neighbours: int) -> tuple[float, int, float]:
    """(share of images that meet another, components, share of the largest) with sets of images merged one by one."""
    n = len(views[0])
    near = nearest_by_loops(torch.cat(views), neighbours)
    groups = [{i} for i in range(n)]
    meets = set()
    for view, measured in enumerate(near):
        for other in measured:
            if other % n != view % n:
                meets.add(view % n)
            first, second = (next(group for group in groups if image % n in group) for image in (view, other))
            if first is not second:
                groups.remove(second)
                first |= second
    return len(meets) / n, len(groups), max(len(group) for group in groups) / n


@pytest.mark.parametrize(("count", "neighbours"), [(2, None), (2, 3), (3, None), (3, 5)])
def test_connectivity_follows_the_views_from_image_to_image(count: int, neighbours: int | None):
    base = gaussian(40, 4)
    views = [base + 0.4 * gaussian(40, 4, seed=1 + view) for view in range(count)]
    meeting, components, largest = islands_by_loops(views, neighbours or count - 1)
    connected = connectivity(*views, neighbours=neighbours)
    assert (connected.meeting.value, connected.components) == (pytest.approx(meeting), components)
    assert connected.largest == pytest.approx(largest)


def test_identical_views_of_scattered_images_are_islands():
    rows = gaussian(60, 8)
    connected = connectivity(rows, rows + 1e-6 * gaussian(60, 8, seed=1))
    assert (connected.meeting.value, connected.components, connected.largest) == (0, 60, pytest.approx(1 / 60))


def test_collapsed_views_hang_together():
    connected = connectivity(torch.ones(50, 4), torch.ones(50, 4), neighbours=60)
    assert (connected.meeting.value, connected.components, connected.largest) == (1, 1, 1)


def test_a_cosine_turns_nearest_into_near_enough():
    rows = clustered(3, 20, 8)
    other = rows + 0.01 * gaussian(60, 8, seed=3)
    assert connectivity(rows, other, neighbours=59).components == 1
    assert connectivity(rows, other, neighbours=59, cosine=0.7).components == 3


def test_sampled_images_carry_an_interval():
    rows = gaussian(300, 3)
    other = rows + 0.3 * gaussian(300, 3, seed=1)
    exact = connectivity(rows, other)
    connected = connectivity(rows, other, images=100, anchors=120)
    assert (connected.images, connected.meeting.anchors) == (100, 60)
    assert connected.meeting.low < exact.meeting.value < connected.meeting.high


@pytest.mark.parametrize("clusters", [2, 5, 12])
def test_separate_clusters_are_counted(clusters: int):
    rows = clustered(clusters, 60, 16, noise=0.15)
    assert cluster_count(rows).clusters == clusters
    assert cluster_count(7 * rotated(rows)).clusters == clusters
    assert cluster_count(rows, nodes=400).nodes == min(400, 60 * clusters)


def test_one_cloud_is_one_cluster():
    for width in (4, 16, 64):
        count = cluster_count(gaussian(1200, width))
        assert (count.clusters, count.components, count.certainty) == (1, 1, "one cloud")
    assert cluster_count(gaussian(3, 2), neighbours=1).nodes == 3
    assert str(count).startswith("none: one cloud (two halves of the rows agree by ")


def test_rows_that_are_all_the_same_are_one_cluster():
    same = cluster_count(torch.ones(50, 4))
    assert (same.clusters, same.certainty) == (1, "one cloud")
    with pytest.raises(DataError, match="all 50 rows are the same: there are no 3 groups"):
        clustered_rows(torch.ones(50, 4), clusters=3)


def test_a_sample_is_clustered_and_numbered():
    rows = clustered(4, 100, 16, noise=0.15)
    count, chosen, member = clustered_rows(rows, nodes=200)
    assert (count.clusters, count.certainty, len(chosen), len(member)) == (4, "clear", 200, 200)
    assert chosen.tolist() == sorted(set(chosen.tolist()))
    for group in range(4):
        assert len({int(row) // 100 for row in chosen[member == group]}) == 1
    sizes = member.bincount().tolist()
    assert sizes == sorted(sizes, reverse=True)
    given, _, member = clustered_rows(rows, clusters=2)
    assert (given.clusters, given.certainty, int(member.max())) == (2, "given", 1)


def test_usage_is_the_entropy_of_assignments():
    assignment = torch.tensor([0, 0, 0, 1, 1, 3])
    entropy = -sum(share * math.log(share) for share in (3 / 6, 2 / 6, 1 / 6))
    usage = prototype_usage(assignment, 5)
    assert usage.entropy == pytest.approx(entropy / math.log(5))
    assert usage.perplexity == pytest.approx(math.exp(entropy))
    assert usage.unused == 2
    assert prototype_usage(torch.arange(8), 8).entropy == pytest.approx(1)
    assert prototype_usage(torch.zeros(8, dtype=torch.long), 8).entropy == 0


def test_few_samples_cannot_use_many_prototypes_and_need_not():
    assert prototype_usage(torch.arange(8), 1000).entropy == pytest.approx(1)
    assert prototype_usage(torch.zeros(1, dtype=torch.long), 1000).entropy == 0


def test_bad_input_is_refused():
    rows = gaussian(6, 3)
    with pytest.raises(ShapeError, match="two or more views of the same images; got 1"):
        connectivity(rows)
    with pytest.raises(ShapeError, match=r"view 0 \(6, 3\), view 1 \(6, 2\)"):
        connectivity(rows, rows[:, :2])
    with pytest.raises(SettingError, match="neighbours and most must be at least 1; got 0 and 38"):
        cluster_count(rows, neighbours=0)
    with pytest.raises(DataError, match=r"embeddings must be finite; NaN or Inf in 1 of 6 rows, first 2"):
        cluster_count(rows.index_fill(0, torch.tensor([2]), torch.nan))
    with pytest.raises(ShapeError, match="at least 2 rows"):
        cluster_count(rows[:1])
    with pytest.raises(SettingError, match="from 0 to 2; they run from 0 to 3"):
        prototype_usage(torch.arange(4), 3)
    with pytest.raises(SettingError, match="at least two prototypes"):
        prototype_usage(torch.zeros(4, dtype=torch.long), 1)
    with pytest.raises(ShapeError, match="whole numbers"):
        prototype_usage(torch.zeros(4), 3)
