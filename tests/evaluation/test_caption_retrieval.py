"""Recall between images and captions, by loops; ties count against; class names as prompts."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import normalize

from eigenview.errors import DataError, SettingError, ShapeError
from eigenview.evaluation.scores import Origin, mean_score
from eigenview.evaluation.words import by_image, caption_recall, class_vectors


def by_loops(images, texts, owner, k):
    similar = normalize(images) @ normalize(texts).T
    forth = [
        sum(similar[i, t] >= similar[owner[t], t] for i in range(len(images)) if i != owner[t]) < k
        for t in range(len(texts))
    ]
    back = []
    for i in range(len(images)):
        best = max(similar[i, t] for t in range(len(texts)) if owner[t] == i)
        back.append(sum(similar[i, t] >= best for t in range(len(texts)) if owner[t] != i) < k)
    return forth, back


@pytest.mark.parametrize("k", [1, 5])
def test_recall_is_that_of_loops(k):
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(12, 4, generator=generator, dtype=torch.float64)
    owner = torch.cat([torch.arange(12), torch.randint(12, (17,), generator=generator)])
    texts = images[owner] + 0.8 * torch.randn(29, 4, generator=generator, dtype=torch.float64)
    recall = caption_recall(images, texts, owner, k=[k])
    forth, back = by_loops(images, texts, owner.tolist(), k)
    assert recall.to_image[k].tolist() == [float(hit) for hit in forth]
    assert recall.to_text[k].tolist() == [float(hit) for hit in back]
    assert 0 < sum(forth) < len(forth)


def test_captions_that_repeat_bring_no_precision():
    """Five times the same caption of each image say what one says; the value is that over captions all the same."""
    generator = torch.Generator().manual_seed(0)
    hits = (torch.rand(200, generator=generator) < 0.4).double()
    owner = torch.arange(200)
    about = {"name": "text to image", "metric": "recall@1", "protocol": {}}
    means = [by_image(hits.repeat(times), owner.repeat(times)) for times in (1, 5)]
    once, five = (mean_score(items, Origin("run", {}), **about) for items in means)
    assert (once.value, once.interval) == (five.value, five.interval)
    unequal = torch.cat([owner, torch.arange(30)])
    seen = torch.cat([hits, torch.ones(30)]).double()
    assert float(by_image(seen, unequal).mean()) == pytest.approx(float(seen.mean()))


def test_constant_embeddings_find_nothing():
    recall = caption_recall(torch.ones(20, 3), torch.ones(40, 3), torch.arange(20).repeat(2))
    assert all(float(hits.sum()) == 0 for way in (recall.to_image, recall.to_text) for hits in way.values())


def test_perfect_embeddings_find_everything():
    rows = torch.eye(20)
    recall = caption_recall(rows, rows.repeat(2, 1), torch.arange(20).repeat(2))
    assert all(float(hits.min()) == 1 for way in (recall.to_image, recall.to_text) for hits in way.values())


def test_what_cannot_be_ranked_is_refused():
    rows = torch.eye(4)
    with pytest.raises(DataError, match="every image needs a caption"):
        caption_recall(rows, rows[:3], torch.arange(3))
    with pytest.raises(ShapeError, match="whose it is"):
        caption_recall(rows, rows, torch.arange(3))
    with pytest.raises(SettingError, match="k is a list of numbers from 1 on"):
        caption_recall(rows, rows, torch.arange(4), k=[0])


class Letters:
    """A tower whose vectors count letters."""

    def embed(self, texts):
        return normalize(torch.tensor([[float(text.count(letter)) + 0.1 for letter in "abcdef"] for text in texts]))


def test_class_vectors_are_the_mean_over_prompts():
    vectors = class_vectors(Letters(), ["bee_fed", "cab"], ["a {}", "{} ebb"])
    rows = Letters().embed(["a bee fed", "bee fed ebb", "a cab", "cab ebb"])
    torch.testing.assert_close(vectors, normalize(rows.view(2, 2, 6).mean(dim=1)))
    with pytest.raises(SettingError, match="a prompt has the class's place as"):
        class_vectors(Letters(), ["a"], ["a photo"])
