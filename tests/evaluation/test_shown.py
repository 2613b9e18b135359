"""How scores are called on a page: each protocol says it, and what nobody placed comes last under its own name."""

from __future__ import annotations

import pytest

from eigenview.evaluation.evaluating import shown_as


@pytest.mark.parametrize(
    ("name", "title", "kind"),
    [
        ("linear", "Linear probe", "linear"),
        ("knn k=1", "1 nearest neighbour", "knn"),
        ("knn k=200", "200 nearest neighbours", "knn"),
        ("1 labels a class", "1 label a class", "few labels"),
        ("1-NN, 5 labels a class", "1-NN, 5 labels a class", "few labels"),
        ("kmeans", "k-means clusters", "kmeans"),
        ("spectral clustering", "Spectral clustering", "spectral"),
        ("probe swav-linear", "Probe swav-linear", "probe"),
        ("fine-tuned 10%", "Fine-tuned 10%", "fine-tuned"),
    ],
)
def test_a_protocol_says_how_its_scores_are_shown(name, title, kind):
    assert (shown_as(name).title, shown_as(name).kind) == (title, kind)


def test_the_most_telling_score_comes_first():
    given = ["other", "retrieval", "knn k=5", "1 labels a class", "kmeans", "10 labels a class", "knn k=20", "probe x"]
    assert sorted([*given, "linear"], key=lambda name: shown_as(name).order) == ["linear", *reversed(given)]
