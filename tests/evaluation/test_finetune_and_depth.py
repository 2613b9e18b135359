"""What trains more than a linear layer: fine-tuning, depth; and choices and tables over several encoders."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from eigenview.data import ArraySource, PixelImage, SourceInfo
from eigenview.data.decode import UnreadableImage
from eigenview.data.source import Unannotated
from eigenview.errors import DataError, SettingError
from eigenview.evaluation import (
    FINETUNES,
    DepthProtocol,
    FinetuneProtocol,
    Measuring,
    ProbeViews,
    Subject,
    Task,
    compare,
    evaluate,
    extract,
    finetune,
    finetune_scores,
    open_task,
    table,
)
from eigenview.evaluation.dense import depth_scores, predict_depth
from eigenview.evaluation.finetuning import Known, Tuned, draw_share, frozen_classifier
from eigenview.evaluation.linear import choose_encoder
from eigenview.evaluation.probe import view_probe_scores
from eigenview.evaluation.subjects import RawPixels
from eigenview.nn import build_encoder
from eigenview.views import CentreView
from tests.processes import run_processes

VIEW = CentreView(8, 8, (0.3,), (0.35,))
QUICK = replace(FINETUNES["swav-10%"], trunk_rate=0.1, head_rate=0.5, epochs=12, milestones=(8, 10), batch_size=50)


def digits(rows: slice, channels: int = 1) -> ArraySource:
    images, numbers = load_digits(return_X_y=True)
    pixels = np.repeat((images.reshape(-1, 8, 8, 1) * 15).astype(np.uint8)[rows], channels, axis=3)
    return ArraySource(pixels, labels=numbers[rows])


OURS = replace(FinetuneProtocol(), steps=10, batch_size=50)


def encoder(channels: int = 1):
    torch.manual_seed(0)
    return build_encoder("small", channels=channels, width=0.5)


ROWS = extract(encoder(), digits(slice(0, 100)), view=VIEW, title=None)
KNOWN = Known(digits(slice(0, 100)), ROWS.labelled, ROWS["pooled"], ROWS.index)


def test_finetuning_learns_and_leaves_the_given_encoder_alone():
    model = encoder()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    task = Task(digits(slice(0, 600)), digits(slice(600, 900)))
    mild = replace(QUICK, views=replace(QUICK.views, scale=(0.7, 1.0)))
    right = finetune(model, task, view=VIEW, protocol=mild)
    assert right.shape == (300,)
    assert right.mean() > 0.6
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
    assert torch.equal(right, finetune(model, task, view=VIEW, protocol=mild))


@pytest.mark.parametrize("flips", [True, False])
def test_what_a_run_never_mirrored_is_not_mirrored_in_finetuning(flips):
    subject, task = Subject("run", encoder(), VIEW, flips=flips), Task(digits(slice(0, 40)), digits(slice(300, 310)))
    frozen, tuned, scratch = islice(finetune_scores(subject, task, Measuring(shows_progress=False)), 3)
    assert [score.protocol["views"]["flip"] for score in (tuned, scratch)] == [0.5 if flips else 0.0] * 2
    assert "views" not in frozen.protocol


def test_frozen_finetuned_and_from_scratch_share_images_and_data():
    short = replace(QUICK, epochs=1, milestones=())
    subject, task = Subject("run", encoder(), VIEW), Task(digits(slice(0, 300)), digits(slice(300, 400)))
    made = finetune_scores(subject, task, Measuring(), protocols={0.1: short}, scratch=short, untrained=encoder())
    scores = list(made)
    assert [score.name for score in scores] == ["frozen 10%", "finetuned 10%", "from scratch 10%"]
    assert len({score.data_hash for score in scores}) == 1
    assert scores[1].value == scores[2].value  # the same start here


def frozen_and_tuned(protocol: FinetuneProtocol, share: float = 0.5):
    subject, task = Subject("run", encoder(), VIEW), Task(digits(slice(0, 400)), digits(slice(400, 600)))
    made = finetune_scores(subject, task, Measuring(), protocols={share: protocol})
    return next(made), next(made)


def test_before_any_step_the_network_is_the_frozen_logistic_regression():
    frozen, tuned = frozen_and_tuned(replace(OURS, trunk_rate=0.0, head_rate=0.0, statistics="kept"))
    assert frozen.items == tuned.items
    assert 0.5 < frozen.value < 1
    still = Tuned(encoder(), KNOWN, OURS, classes=10, seed=0, group=None)
    rows = extract(still.model, digits(slice(0, 100)), view=VIEW, title=None)["pooled"]
    wanted = frozen_classifier(KNOWN.rows, KNOWN.row_labels, seed=0).logits(rows)
    assert torch.allclose(still.head(rows), wanted, atol=1e-4)


def test_from_scratch_has_its_own_rates_and_the_same_length_and_views():
    upright = replace(OURS, steps=4, views=ProbeViews((0.7, 1.0), flip=0.0))
    subject, task = Subject("run", encoder(), VIEW), Task(digits(slice(0, 200)), digits(slice(200, 300)))
    _, tuned, scratch = finetune_scores(subject, task, Measuring(), protocols={1.0: upright})
    for field in ("steps", "epochs", "batch_size", "views"):
        assert scratch.protocol[field] == tuned.protocol[field], field
    assert (tuned.protocol["head"], scratch.protocol["head"]) == ("logistic", "random")
    assert scratch.protocol["trunk_rate"] == FINETUNES["scratch"].trunk_rate
    assert tuned.encoder != scratch.encoder


def test_steps_and_epochs_both_bound_the_length():
    def steps_taken(**length) -> int:
        tuned = Tuned(encoder(), KNOWN, replace(OURS, **length), classes=10, seed=0, group=None)
        tuned.train(VIEW, multiplier=1.0, share=1.0, title=None)
        return int(next(value for name, value in tuned.model.state_dict().items() if "tracked" in name))

    assert steps_taken(steps=3) == 3  # two batches of 50 an epoch
    assert steps_taken(steps=100, epochs=2) == 4
    assert steps_taken(steps=None, epochs=2) == 4


def test_kept_statistics_do_not_move_and_adapted_ones_do():
    def moved(statistics: str) -> bool:
        tuned = Tuned(encoder(), KNOWN, replace(OURS, steps=1, statistics=statistics), classes=10, seed=0, group=None)
        before = {name: value.clone() for name, value in tuned.model.named_buffers()}
        tuned.train(VIEW, multiplier=1.0, share=1.0, title=None)
        return any(not torch.equal(before[name], value) for name, value in tuned.model.named_buffers())

    assert moved("adapted")
    assert not moved("kept")


def test_rates_are_chosen_on_training_labels_where_there_are_plenty():
    tried = replace(OURS, steps=20, multipliers=(1e-6, 1.0), head="random")
    _, plenty = frozen_and_tuned(tried, share=1.0)
    assert plenty.note == "rates × 1, chosen on held-out training labels"
    _, few = frozen_and_tuned(tried, share=0.1)
    assert few.note == ""
    assert few.items == frozen_and_tuned(replace(tried, multipliers=(1e-6,)), share=0.1)[1].items
    with pytest.raises(SettingError, match="multipliers of the rates must be positive; got"):
        frozen_and_tuned(replace(tried, multipliers=(0.0, 1.0)))


def test_an_encoder_of_colours_is_finetuned_and_probed_on_grey_images():
    view, tuned, probed = CentreView(8, 8, (0.3,) * 3, (0.35,) * 3), [], []
    for channels in (1, 3):  # as they are, and with their grey in every colour
        task = Task(digits(slice(0, 100), channels), digits(slice(100, 150), channels))
        tuned.append(finetune(encoder(channels=3), task, view=view, protocol=replace(OURS, steps=2)).tolist())
        subject = Subject("run", encoder(channels=3), view)
        probed.append(next(view_probe_scores(subject, task, Measuring(), protocol="moco", epochs=1)).items)
    assert (tuned[0], probed[0]) == (tuned[1], probed[1])
    assert 5 < sum(tuned[0]) < 50  # chance is 5 of them


def test_baselines_are_measured_frozen_only():
    task = Task(digits(slice(0, 300)), digits(slice(300, 400)))
    pixels = Subject("raw pixels", RawPixels(8, channels=1), VIEW)
    assert [score.name for score in finetune_scores(pixels, task, Measuring())] == [
        "frozen 1%",
        "frozen 10%",
        "frozen 100%",
    ]


def finetuned_by_this_rank(rank, group):
    task = Task(digits(slice(0, 130)), digits(slice(130, 231)))
    mild = replace(OURS, steps=6, batch_size=51, multipliers=(1.0,))  # uneven shares, and a rest that is left out
    slow = replace(QUICK, epochs=3, milestones=(2,), batch_size=51)
    ways = (mild, slow)
    return [finetune(encoder(), task, view=VIEW, protocol=way, measuring=Measuring(group=group)) for way in ways]


def test_two_processes_finetune_as_one():
    alone = finetuned_by_this_rank(0, None)
    for answers in run_processes(2, finetuned_by_this_rank):
        for mine, wanted in zip(answers, alone, strict=True):
            assert mine.shape == (101,)
            assert (mine == wanted.numpy()).mean() >= 0.98  # rounding differs, and grows in training


def test_the_papers_rates_are_kept_by_name():
    rates = {name: (way.trunk_rate, way.head_rate) for name, way in FINETUNES.items() if name.startswith("swav")}
    assert rates == {"swav-10%": (0.01, 0.2), "swav-1%": (0.02, 5.0)}
    assert FINETUNES["swav-10%"].multipliers == FINETUNES["swav-1%"].multipliers == (1.0,)
    assert FINETUNES["ours"] == FinetuneProtocol()
    shorter = FINETUNES["swav-10%"].shortened(5)
    assert (shorter.milestones, shorter.steps, shorter.head) == ((3, 4), None, "random")


def test_the_papers_finetuning_is_a_protocol_by_name():
    subject, task = Subject("run", encoder(), VIEW), Task(digits(slice(0, 200)), digits(slice(200, 260)))
    scores = {score.name: score for score in evaluate(subject, task, protocols=["finetune-swav"])}
    titles = [f"{way} {share}" for share in ("1%", "10%") for way in ("frozen", "swav finetuned", "swav from scratch")]
    assert list(scores) == titles
    for share in ("1%", "10%"):
        protocol, published = scores[f"swav finetuned {share}"].protocol, FINETUNES[f"swav-{share}"]
        assert {name: protocol[name] for name in ("trunk_rate", "head_rate", "epochs", "steps")} == {
            name: getattr(published, name) for name in ("trunk_rate", "head_rate", "epochs", "steps")
        }


def test_running_statistics_arrive_in_few_steps():
    slow = encoder(3)
    norms = [norm for norm in slow.modules() if isinstance(norm, torch.nn.BatchNorm2d)]
    for norm in norms:
        norm.momentum = 0.001
        norm.running_var.fill_(1e4)  # far from what this network sees
    images = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (60, 16, 16, 3), dtype=np.uint8))
    source = ArraySource(images.numpy(), labels=np.arange(60) % 2)
    known = Known(source, torch.arange(60) % 2, torch.zeros(60, slow.feature_width), torch.arange(60))
    protocol = replace(FINETUNES["scratch"], steps=60, batch_size=30)
    tuned = Tuned(slow, known, protocol, classes=2, seed=0, group=None)
    tuned.train(CentreView(16, 16), multiplier=1.0, share=1.0, title=None)
    after = [norm for norm in tuned.model.modules() if isinstance(norm, torch.nn.BatchNorm2d)]
    assert all(float(norm.running_var.max()) < 1e3 for norm in after)
    assert all(norm.momentum == 0.001 for norm in norms)  # the encoder that was given stays as it is


def test_a_share_holds_every_class_in_proportion():
    labels = torch.tensor([0] * 100 + [1] * 50 + [2] * 3)
    assert labels[draw_share(labels, 0.1, seed=0)].bincount().tolist() == [10, 5, 1]
    assert torch.equal(draw_share(labels, 1.0, seed=0), torch.arange(153))
    with pytest.raises(SettingError, match=r"share of the labels must lie in \(0, 1\]; got 0"):
        draw_share(labels, 0, seed=0)


class Slopes(Unannotated):
    """Grey images whose depth is their brightness in metres."""

    def __init__(self, count: int, seed: int, *, has_depth: bool = True) -> None:
        random = np.random.default_rng(seed)
        corners = random.random((count, 2, 2, 1))
        grown = corners.repeat(12, axis=1).repeat(16, axis=2)
        self.images, self.has_depth = (grown * 255).astype(np.uint8).repeat(3, axis=3), has_depth

    def __len__(self) -> int:
        return len(self.images)

    def image(self, index: int) -> PixelImage:
        return PixelImage(self.images[index], name=f"slope {index}")

    def depth(self, index: int):
        return self.images[index, :, :, 0].astype(np.float32) / 25.5 if self.has_depth else None

    def describe(self) -> SourceInfo:
        return SourceInfo("slopes", "memory", len(self), has_depth=self.has_depth)


DEPTH = DepthProtocol(layer="conv2", size=16, output=16, width=32, epochs=15, batch_size=20)


def test_depth_is_read_from_frozen_maps_far_better_than_its_mean():
    model = encoder(3).train()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    depth = predict_depth(model, Slopes(120, 0), Slopes(40, 1), protocol=DEPTH)
    assert depth.errors.shape == (40,)
    assert depth.errors.mean() < 0.2 * depth.mean_errors.mean()
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
    assert model.training
    wanted = torch.from_numpy(np.stack([Slopes(120, 0).depth(item) for item in range(120)])).mean(dim=0)
    first = torch.from_numpy(Slopes(40, 1).depth(0))
    shrunk = torch.nn.functional.interpolate((wanted - first)[None, None], (16, 16), mode="bilinear", antialias=True)
    assert depth.mean_errors[0] == pytest.approx(float(shrunk.square().mean()), rel=1e-4)


class Damaged(Slopes):
    """The third image cannot be read."""

    def image(self, index: int) -> PixelImage:
        if index == 2:
            raise UnreadableImage("slope 2", "it is damaged")
        return super().image(index)


def test_an_image_that_cannot_be_read_is_left_out_of_depth():
    short = replace(DEPTH, epochs=2)
    depth = predict_depth(encoder(3), Damaged(30, 0), Damaged(20, 1), protocol=short)
    whole = predict_depth(encoder(3), Damaged(30, 0), Slopes(20, 1), protocol=short)
    assert torch.equal(depth.errors, whole.errors[torch.arange(20) != 2])


def test_the_border_is_cut_off_images_and_depth():
    framed = Slopes(30, 0)
    framed.images = np.pad(framed.images, ((0, 0), (3, 3), (3, 3), (0, 0)), constant_values=255)
    short, test = replace(DEPTH, epochs=2), Slopes(10, 1)
    plain = predict_depth(encoder(3), Slopes(30, 0), test, protocol=short)
    test.images = np.pad(test.images, ((0, 0), (3, 3), (3, 3), (0, 0)), constant_values=255)
    cut = predict_depth(encoder(3), framed, test, protocol=replace(short, border=3))
    assert torch.equal(cut.errors, plain.errors)


def test_depth_needs_no_labels_but_images_of_its_own_to_be_tested_on():
    task = open_task(Slopes(5, 0), Slopes(3, 1), protocols=["depth"])
    assert (len(task.train), len(task.test)) == (5, 3)
    with pytest.raises(SettingError, match="depth is measured on images of their own: give a test source"):
        open_task(Slopes(5, 0), protocols=["depth"])
    with pytest.raises(DataError, match="label"):
        open_task(Slopes(5, 0), Slopes(3, 1), protocols=["depth", "knn"])


def test_depth_scores_are_stored_by_layer_beside_the_training_mean():
    sources, view = (Slopes(60, 0), Slopes(20, 1)), CentreView(16, 16, (0.5,) * 3, (0.5,) * 3)
    short, how = replace(DEPTH, epochs=2), Measuring()
    subject, other, task = Subject("run", encoder(3), view), Subject("other", encoder(3), view), Task(*sources)
    scores = list(depth_scores(subject, task, how, layers=("conv1", "conv2"), protocol=short))
    assert [score.name for score in scores] == ["depth conv1", "depth conv2", "depth mean"]
    direct = predict_depth(encoder(3), *sources, protocol=replace(short, mean=view.mean, std=view.std))
    assert scores[1].value == pytest.approx(float(direct.errors.mean()), rel=1e-5)
    assert scores[2].value == pytest.approx(float(direct.mean_errors.mean()), rel=1e-5)
    assert not any(score.higher_is_better for score in scores)
    again = next(depth_scores(other, task, how, layers=("conv2",), protocol=short))
    assert compare(scores[1], again)[1].p_value == 1
    deeper = next(depth_scores(subject, Task(Slopes(60, 2), sources[1]), how, layers=("conv2",), protocol=short))
    with pytest.raises(SettingError, match="different data"):
        compare(scores[1], deeper)


def test_the_deepest_two_layers_with_positions_are_measured_unless_others_are_named():
    view, short = CentreView(16, 16, (0.5,) * 3, (0.5,) * 3), replace(DEPTH, epochs=1)
    subject = Subject("run", encoder(3), view)
    names = [layer for layer in subject.encoder.layer_names if layer != "pooled"][-2:]
    made = depth_scores(subject, Task(Slopes(20, 0), Slopes(8, 1), "slopes"), Measuring(), protocol=short)
    assert [(score.name, score.data_name) for score in made] == [
        *((f"depth {name}", "slopes") for name in names),
        ("depth mean", "slopes"),
    ]


def test_depth_refuses_what_it_cannot_use():
    with pytest.raises(DataError, match="these images have no depth"):
        predict_depth(encoder(3), Slopes(4, 0, has_depth=False), Slopes(4, 1), protocol=DEPTH)
    with pytest.raises(SettingError, match="layer 'pooled' has no positions"):
        predict_depth(encoder(3), Slopes(4, 0), Slopes(4, 1), protocol=replace(DEPTH, layer="pooled"))


def test_the_encoder_that_separates_the_classes_is_chosen():
    images, labels = (torch.from_numpy(array) for array in load_digits(return_X_y=True))
    noise = torch.randn(len(images), 16, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    choice = choose_encoder({"noise": noise, "pixels": images / 16}, labels, inverse_penalties=(0.01, 1.0))
    assert choice.name == "pixels"
    assert choice.accuracy["pixels"] > 0.9
    assert choice.accuracy["noise"] < 0.2
    with pytest.raises(SettingError, match="there is no encoder to choose from"):
        choose_encoder({}, labels)


def test_one_table_holds_several_sets_and_subjects():
    parts = digits(slice(0, 250)), digits(slice(250, 350))
    tasks = Task(*parts, "one"), Task(*reversed(parts), "two")
    pixels = Subject("raw pixels", RawPixels(8, channels=1), VIEW)
    scores = [score for task in tasks for score in evaluate(pixels, task, protocols=["knn"])]
    assert {score.data_name for score in scores} == {"one", "two"}
    more = evaluate(Subject("untrained", encoder(), VIEW), tasks[0], protocols=["knn"])
    lines = table([*scores, *more]).splitlines()
    assert lines[0] == "| protocol | untrained | raw pixels |"
    assert len(set(lines)) == 2 + 4 + 3  # k = 200 is too large for the smaller of the two banks
    first, second = (next(line for line in lines if line.startswith(f"| {name}: knn k=1, ")) for name in ("one", "two"))
    assert first.startswith("| one: knn k=1, accuracy (pooled) | 0.")
    assert second.startswith("| two: knn k=1, accuracy (pooled) | – | 0.")


def test_a_table_of_one_set_does_not_repeat_its_name():
    task = Task(digits(slice(0, 250)), digits(slice(250, 350)), "one")
    lines = table(list(evaluate(Subject("run", encoder(), VIEW), task, protocols=["knn"]))).splitlines()
    assert lines[2].startswith("| knn k=1, accuracy (pooled) | 0.")


def test_finetuning_refuses_unlabelled_images_and_new_classes():
    bare = ArraySource(np.zeros((6, 8, 8), np.uint8))
    with pytest.raises(DataError, match="the test images have no labels"):
        finetune(encoder(), Task(digits(slice(0, 50)), bare), view=VIEW)
    two = ArraySource(np.zeros((6, 8, 8), np.uint8), labels=[0, 1, 0, 1, 0, 1])
    with pytest.raises(DataError, match="never occur in training"):
        finetune(encoder(), Task(two, digits(slice(0, 50))), view=VIEW)
