"""Captions in a batch: one drawn by chance, repeats never negatives, the two towers' ids."""

from __future__ import annotations

import math
from collections import Counter

import pytest
import torch
import torch.distributed as dist

from eigenview.errors import DataError, SettingError
from eigenview.losses import clip_loss
from eigenview.methods import MethodContext, ViewedBatch, find_method
from eigenview.methods.captions import CLIPSettings, drawn_captions, joined_ids, joined_vectors, word_count
from eigenview.names import named_code
from eigenview.nn import Tokenizer, wrap
from tests.processes import run_processes

THREE = ("the first of them", "the second of them", "the third of them")


def batch_of(captions, *, epoch=0, index=None):
    count = len(captions)
    images = torch.randn(count, 3, 2, 2, generator=torch.Generator().manual_seed(0)).double()
    places = torch.arange(count) if index is None else torch.tensor(index)
    return ViewedBatch((images,), count, places, None, epoch, 0, tuple(captions))


def small_encoder():
    return wrap(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12, 6)), feature_width=6, image_size=2)


def method_of(captions, name="clip", **options):
    tokens = Tokenizer.trained([text for several in captions for text in several], vocabulary=300).reading(8)
    torch.manual_seed(0)
    encoder = small_encoder()
    settings = find_method(name).settings_type(head="identity", text={"width": 8, "depth": 1}, **options)
    context = MethodContext(10, None, (1,), steps_per_epoch=1, tokenizer=tokens)
    return find_method(name)(encoder, settings, context).double()


def test_captions_are_drawn_uniformly_and_by_their_item_alone():
    drawn = drawn_captions(batch_of([THREE] * 3000), (1.0,), seed=0)
    counts = Counter(drawn)
    assert all(abs(counts[caption] - 1000) < 100 for caption in THREE)  # four deviations
    part = drawn_captions(batch_of([THREE] * 5, index=[7, 3, 2999, 0, 11]), (1.0,), seed=0)
    assert part == [drawn[place] for place in (7, 3, 2999, 0, 11)]
    assert drawn_captions(batch_of([THREE] * 3000, epoch=1), (1.0,), seed=0) != drawn


def test_weights_by_place_the_last_for_all_that_follow():
    drawn = drawn_captions(batch_of([THREE] * 3000), (2.0, 1.0), seed=0)
    counts = Counter(drawn)
    assert abs(counts[THREE[0]] - 1500) < 120
    assert abs(counts[THREE[2]] - 750) < 100
    assert set(drawn_captions(batch_of([THREE] * 100), (1.0, 0.0), seed=0)) == {THREE[0]}


def test_one_word_gives_way_to_the_first_caption():
    assert set(drawn_captions(batch_of([("a whole sentence", "word")] * 50), (1.0,), seed=0)) == {"a whole sentence"}


def test_captions_without_spaces_are_drawn_like_others():
    for captions in (("两只狗在沙滩上奔跑", "海边有两只狗"), ("สุนัขสองตัว", "หมาบนหาด"), ("犬が二匹いる", "浜辺の犬")):
        counts = Counter(drawn_captions(batch_of([captions] * 400), (1.0,), seed=0))
        assert min(counts[caption] for caption in captions) > 150  # five deviations
    assert set(drawn_captions(batch_of([("一只狗", "狗")] * 50), (1.0,), seed=0)) == {"一只狗"}
    assert [word_count(text) for text in ("a dog", "dog", "강아지", "狗", "小狗", "two 狗")] == [2, 1, 1, 1, 2, 2]


def test_a_blank_caption_keeps_its_weight_to_itself():
    """Of weights 1, 1, 4 the third set has its 4 also where the second is blank."""
    captions = (THREE[0], "", THREE[2])
    counts = Counter(drawn_captions(batch_of([captions] * 3000), (1.0, 1.0, 4.0), seed=0))
    assert abs(counts[THREE[2]] - 2400) < 100
    assert counts[THREE[0]] + counts[THREE[2]] == 3000
    assert set(drawn_captions(batch_of([("", *THREE[1:])] * 50), (1.0, 0.0), seed=0)) == {THREE[1]}


def test_ids_join_what_an_image_or_a_caption_joins():
    index = torch.tensor([5, 6, 5, 7, 8, 9])
    ids, is_first, repeats = joined_ids(index, ["a", "b", "c", "C", "d", None], None)
    assert ids.tolist() == [0, 1, 0, 0, 4, 5]  # 5 comes twice, and its second caption is that of 7
    assert is_first.tolist() == [True, True, False, False, True, True]
    assert repeats == 2


def test_repeats_are_positives():
    captions = [("two dogs",), ("a cat here",), ("two dogs",), ("the sea now",)]
    method, batch = method_of(captions), batch_of(captions)
    output = method(batch)
    image = method.encoder(batch.groups[0])
    text = method.text_head(method.text(method.tokenizer([several[0] for several in captions])))
    ids = torch.tensor([0, 1, 0, 3])
    torch.testing.assert_close(output.loss, clip_loss(image, text, image_ids=ids, text_ids=ids))
    assert output.logs["repeats"] == 1
    assert "belong together" in output.note


def test_repeats_left_out_leave_the_loss_of_the_others():
    captions = [("two dogs",), ("a cat here",), ("two dogs",), ("the sea now",)]
    method, batch = method_of(captions, repeats="left-out"), batch_of(captions)
    output = method(batch)
    kept = [0, 1, 3]
    image = method.encoder(batch.groups[0][kept])
    text = method.text_head(method.text(method.tokenizer([captions[row][0] for row in kept])))
    torch.testing.assert_close(output.loss, clip_loss(image, text))
    assert "count once" in output.note


def test_an_image_without_caption_is_only_a_candidate():
    captions = [("two dogs",), (), ("a cat here",)]
    method, batch = method_of(captions), batch_of(captions)
    image = method.encoder(batch.groups[0])
    text = method.text_head(method.text(method.tokenizer(["two dogs", "a cat here"])))
    expected = clip_loss(image, text, image_ids=torch.arange(3), text_ids=torch.tensor([0, 2]))
    torch.testing.assert_close(method(batch).loss, expected)


def test_the_scale_stays_between_1_and_100_and_is_not_decayed():
    method = method_of([THREE])
    for start, end in ((-3.0, 0.0), (9.0, 4.6052)):
        with torch.no_grad():
            method.objective.log_scale.fill_(start)
        method.after_update()
        assert method.objective.log_scale.item() == pytest.approx(end, abs=1e-4)
    assert method.undecayed_parts() == ("objective.log_scale",)


def test_a_kernel_takes_the_place_of_the_cosine_and_its_scale():
    captions = [("two dogs",), ("a cat here",), ("the sea now",)]
    method, batch = method_of(captions, kernel="Laplacian(0.3)"), batch_of(captions)
    image = method.encoder(batch.groups[0])
    text = method.text_head(method.text(method.tokenizer([several[0] for several in captions])))
    distance = torch.cdist(torch.nn.functional.normalize(image), torch.nn.functional.normalize(text))
    scores, right = -distance / 0.3, torch.arange(3)
    entropy = torch.nn.functional.cross_entropy
    torch.testing.assert_close(method(batch).loss, (entropy(scores, right) + entropy(scores.T, right)) / 2)
    assert method.undecayed_parts() == ()


def test_siglip_begins_at_a_scale_of_10_and_a_bias_of_minus_10():
    method = method_of([THREE], "siglip")
    learnt = {name: value.item() for name, value in method.objective.named_parameters()}
    assert learnt == pytest.approx({"log_scale": math.log(10), "bias": -10.0}, abs=1e-7)
    assert method.undecayed_parts() == ("objective.log_scale", "objective.bias")


def test_siglip_with_a_kernel_learns_its_bias():
    captions = [("two dogs",), ("a cat here",), ("the sea now",)]
    method, batch = method_of(captions, "siglip", kernel="Laplacian(learnable(0.3))", bias=-2.0), batch_of(captions)
    image = method.encoder(batch.groups[0])
    text = method.text_head(method.text(method.tokenizer([several[0] for several in captions])))
    distance = torch.cdist(torch.nn.functional.normalize(image), torch.nn.functional.normalize(text))
    signs = 2 * torch.eye(3).double() - 1
    output = method(batch)
    torch.testing.assert_close(output.loss, -torch.nn.functional.logsigmoid(signs * (-distance / 0.3 - 2)).sum() / 3)
    assert "scale" not in output.logs
    assert output.logs["bias"] == -2
    assert method.undecayed_parts() == ("objective.bias", "objective.settings.0")


@pytest.mark.parametrize("name", ["clip", "siglip"])
def test_a_method_says_which_scale_it_has_learnt(name):
    method = method_of([THREE], name, temperature=0.25)
    assert method.state_dict()[method.parts().log_scale].item() == pytest.approx(math.log(4), abs=1e-6)
    assert method_of([THREE], name, kernel="Laplacian(0.3)").parts().log_scale == ""


def letters(texts: list[str]) -> torch.Tensor:
    """How often each letter comes: a text encoder of a user's own, for soft targets."""
    return torch.tensor([[float(text.count(letter)) for letter in "abcdefgh"] for text in texts])


def test_soft_targets_by_an_encoder_that_is_given():
    captions = [("a cab",), ("a bad egg",), ("he had a bag",), ("bed",)]
    name = "tests.methods.test_captions:letters"
    with named_code(name):
        method = method_of(captions, soft_targets=True, target_encoder=name, target_temperature=0.3)
    batch = batch_of(captions)
    texts = method.text_head(method.text(method.tokenizer([first for first, *_ in captions])))
    about = torch.nn.functional.normalize(letters([first for first, *_ in captions]).double(), dim=1)
    expected = clip_loss(
        method.encoder(batch.groups[0]), texts, image_vectors=about, text_vectors=about, target_temperature=0.3
    )
    torch.testing.assert_close(method.step(batch).loss, expected, rtol=1e-6, atol=1e-6)
    assert "caption_map" not in method.state_dict()


@pytest.mark.parametrize("repeats", ["positives", "left-out"])
def test_an_image_that_comes_twice_is_alike_in_full_under_soft_targets(repeats):
    """Its two captions have no letter in common; both rows have the mean of them, or only the first counts."""
    captions = [("a cab",), ("he he",), ("he had a bag",), ("bed ebb",)]
    name = "tests.methods.test_captions:letters"
    with named_code(name):
        method = method_of(captions, soft_targets=True, target_encoder=name, repeats=repeats)
    batch = batch_of(captions, index=[4, 4, 6, 7])
    output = method.step(batch)
    about = torch.nn.functional.normalize(letters([first for first, *_ in captions]).double(), dim=1)
    kept = [0, 2, 3]
    if repeats == "positives":
        about[:2], kept = torch.nn.functional.normalize(about[0] + about[1], dim=0), [0, 1, 2, 3]
    texts = method.text_head(method.text(method.tokenizer([captions[row][0] for row in kept])))
    image = method.encoder(batch.groups[0][kept])
    expected = clip_loss(image, texts, image_vectors=about[kept], text_vectors=about[kept])
    torch.testing.assert_close(output.loss, expected, rtol=1e-6, atol=1e-6)
    said = {"positives": "have one soft target, are alike in full", "left-out": "count once"}[repeats]
    assert output.note == f"batches hold an image or a caption more than once: such rows {said}, and are no negatives"


ROWS = torch.tensor([[3.0, 4.0], [1.0, 0.0], [0.0, 1.0], [4.0, 3.0], [0.0, 2.0]]).double()
IDS = torch.tensor([0, 1, 0, 3, 1])


def joined_share(rank: int, group: dist.ProcessGroup) -> list[torch.Tensor]:
    own = slice(0, 2) if rank == 0 else slice(2, None)
    return [joined_vectors(ROWS[own], IDS[own], group)]


def test_two_processes_join_the_vectors_that_one_does():
    whole = joined_vectors(ROWS, IDS, None)
    sums = torch.stack([ROWS[0] + ROWS[2], ROWS[1] + ROWS[4], ROWS[3]])
    expected = (sums / sums.norm(dim=1, keepdim=True))[[0, 1, 0, 2, 1]]
    torch.testing.assert_close(whole, expected)
    shares = [torch.as_tensor(share[0]) for share in run_processes(2, joined_share)]
    torch.testing.assert_close(torch.cat(shares), expected)


def test_what_is_no_target_encoder_is_refused():
    captions = [("a cab",), ("a bad egg",)]
    with pytest.raises(SettingError, match="give soft_targets too"):
        method_of(captions, target_encoder="tests.methods.test_captions:letters")
    with (
        named_code("tests.methods.test_captions:THREE"),
        pytest.raises(SettingError, match="must turn a list of texts"),
    ):
        method_of(captions, soft_targets=True, target_encoder="tests.methods.test_captions:THREE")


def test_no_captions_are_refused():
    with pytest.raises(DataError, match="met a batch without any"):
        drawn_captions(batch_of([(), ()]), (1.0,), seed=0)
    with pytest.raises(SettingError, match="CLIP learns from captions; this source has none"):
        find_method("clip")(small_encoder(), CLIPSettings(), MethodContext(10, None, (1,), 1))
    with pytest.raises(ValueError, match="caption_weights are numbers from 0 on, the first above 0"):
        CLIPSettings(caption_weights=(0.0, 1.0))
