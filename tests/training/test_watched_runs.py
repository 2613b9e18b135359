"""What a run keeps and tells beside its weights: best and earlier checkpoints, online kNN, facts, listeners."""

from __future__ import annotations

import io
import itertools
import json
import os
import signal
import sys
from multiprocessing import active_children
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from rich.console import Console
from safetensors.torch import load_file

from eigenview.batches import typical_shape
from eigenview.data import ArraySource, open_source
from eigenview.errors import DataError, SettingError
from eigenview.evaluation import knn_predict
from eigenview.runs import RunDirectory, open_run, read_config
from eigenview.training import Listener, shown_progress, train
from eigenview.training.watchdog import OnlineKnn
from eigenview.views import CentreView, centre_view
from tests.data.pictures import write_folder
from tests.training.runs import run_quietly, settings

EPOCHS = {"steps": None, "epochs": 4}


def weights(run, name):
    return load_file(run.folder / "checkpoints" / name / "weights.safetensors")


def same(a, b):
    return all(torch.equal(a[name], b[name]) for name in a)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return run_quietly(settings("simclr", tmp_path_factory.mktemp("run"), **EPOCHS, keep_every=2, tensorboard=True))


def test_best_is_the_epoch_of_the_lowest_mean_loss(run):
    ends = [line for line in run.metrics.lines if "epoch_loss" in line]
    by_hand = [
        np.mean([line["loss"] for line in run.metrics.lines if "loss" in line and line["epoch"] == epoch])
        for epoch in range(4)
    ]
    np.testing.assert_allclose([line["epoch_loss"] for line in ends], by_hand, rtol=1e-6)
    best = run.checkpoints.load("best").state["progress"]
    assert best["epoch"] == 1 + int(np.argmin(by_hand))
    assert best["best"] == pytest.approx(-min(by_hand))


def test_previous_is_one_epoch_behind_and_every_second_is_kept(run):
    assert run.checkpoints.names() == ["last", "previous", "best", "epoch-00002", "epoch-00004"]
    steps = {name: run.checkpoints.load(name).state["progress"]["step"] for name in run.checkpoints.names()}
    assert (steps["previous"], steps["last"], steps["epoch-00002"], steps["epoch-00004"]) == (9, 12, 6, 12)
    assert same(weights(run, "last"), weights(run, "epoch-00004"))


def test_a_damaged_last_checkpoint_gives_way_to_the_one_before(tmp_path):
    given = settings("simclr", tmp_path / "run", **EPOCHS)
    whole = run_quietly({**given, "out": str(tmp_path / "whole")})
    broken = run_quietly(given)
    file = broken.folder / "checkpoints" / "last" / "state.pt"
    damaged = file.read_bytes()[:-50]
    file.unlink()  # previous epochs may share the file
    file.write_bytes(damaged)
    with pytest.raises(DataError, match=r"cut short; take another one: previous, best \(--from previous\)"):
        train(read_config(given), resume=True, start="last")
    told = Told()
    run_quietly(given, resume=True, listeners=[told])
    assert "going on from previous" in told.messages[0]
    assert same(weights(broken, "last"), weights(whole, "last"))


def test_no_worker_outlives_the_training(tmp_path):
    alive = []

    class Ended(Listener):
        def ended(self) -> None:
            alive.append(active_children())

    write_folder(tmp_path / "photos", 40, size=(120, 100))
    given = settings("simclr", tmp_path / "run", source=str(tmp_path / "photos"), batch_size=8, steps=2, workers=1)
    run_quietly(given, listeners=[Ended()])
    assert alive == [[]]


def test_where_both_last_checkpoints_are_damaged_those_that_can_be_read_are_named(tmp_path):
    given = settings("simclr", tmp_path / "run", **EPOCHS)
    run = run_quietly(given)
    left = run.checkpoints.names()[2:]
    for name in ("last", "previous"):
        file = run.folder / "checkpoints" / name / "state.pt"
        damaged = file.read_bytes()[:-50]
        file.unlink()
        file.write_bytes(damaged)
    with pytest.raises(DataError) as caught:
        train(read_config(given), resume=True)
    told = f"cut short, nor can last; take another one: {', '.join(left)} (--from {left[0]})"
    assert str(caught.value).endswith(told)
    for name in left:
        (run.folder / "checkpoints" / name / "weights.safetensors").unlink()
    with pytest.raises(DataError, match=r"cut short, nor can last; none can be read$"):
        train(read_config(given), resume=True)


class Told(Listener):
    def __init__(self):
        self.messages, self.steps, self.plan, self.is_over = [], [], None, False

    def started(self, plan):
        self.plan = plan

    def stepped(self, step, seconds):
        self.steps.append(step)

    def told(self, message):
        self.messages.append(message)

    def ended(self):
        self.is_over = True


def test_the_run_directory_says_what_the_data_and_the_machine_were(run):
    facts = json.loads((run.folder / "data.json").read_text())
    assert facts["image"] == {"height": 24, "width": 24, "channels": 3}
    assert facts["source"]["count"] == 96
    assert [crop["size"] for crop in facts["recipe"]["crops"]] == [24]
    machine = json.loads((run.folder / "environment.json").read_text())
    assert machine["torch"] == torch.__version__
    assert machine["processes"] == 1
    opened = open_run(run.folder)  # no source needed
    assert opened.view == centre_view(read_config(settings("simclr", run.folder)).views.recipe((24, 24, 3)))
    assert same(
        opened.encoder.state_dict(), {k[8:]: v for k, v in weights(run, "last").items() if k.startswith("encoder.")}
    )


def test_what_was_automatic_is_written_as_decided(run):
    assert run.config.channels_last is True
    assert run.config.compile is False


def test_tensorboard_gets_every_figure(run):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(run.folder / "tensorboard")).Reload()
    written = [(event.step, event.value) for event in events.Scalars("loss")]
    expected = [(line["step"], line["loss"]) for line in run.metrics.lines if "loss" in line]
    np.testing.assert_allclose(written, expected, rtol=1e-6)
    assert [event.step for event in events.Scalars("knn_accuracy")] == [3, 6, 9, 12]


def test_online_knn_is_the_plain_vote_and_moves_nothing(run):
    source, opened = open_source("shapes?count=96&size=24"), open_run(run.folder)
    online = OnlineKnn(source, opened.view, seed=0, workers=0, group=None)
    before = {name: tensor.clone() for name, tensor in opened.encoder.state_dict().items()}
    opened.encoder.train()
    generator = torch.get_rng_state()
    accuracy = online(opened.encoder)
    assert opened.encoder.training
    assert torch.equal(generator, torch.get_rng_state())
    assert same(before, opened.encoder.state_dict())
    chosen = np.random.default_rng(0).permutation(96)
    asking, bank = np.sort(chosen[:19]), np.sort(chosen[19:])
    opened.encoder.eval()
    with torch.no_grad():
        rows = opened.encoder(opened.view(source.batch(np.arange(96))))
    labels = torch.as_tensor(source.labels)
    votes = knn_predict(rows[bank], labels[bank], rows[asking], k=[20], temperature=0.1)[20]
    assert accuracy == pytest.approx(float((votes == labels[asking]).double().mean()))
    assert [line["knn_accuracy"] for line in run.metrics.lines if "knn_accuracy" in line][-1] == pytest.approx(accuracy)


def test_labels_change_online_knn_and_nothing_else(tmp_path):
    random = np.random.default_rng(0)
    images = random.integers(0, 256, (96, 16, 16, 3), dtype=np.uint8)
    for name, labels in {"a": np.arange(96) % 3, "b": random.permutation(np.arange(96) % 3)}.items():
        np.savez(tmp_path / f"{name}.npz", images=images, labels=labels)
    runs = [
        run_quietly(settings("simclr", tmp_path / f"run-{name}", source=str(tmp_path / f"{name}.npz"), **EPOCHS))
        for name in "ab"
    ]
    assert same(weights(runs[0], "last"), weights(runs[1], "last"))
    seen = [[line["knn_accuracy"] for line in labelled.metrics.lines if "knn_accuracy" in line] for labelled in runs]
    assert len(seen[0]) == len(seen[1]) == 4
    assert seen[0] != seen[1]


def test_too_few_labels_give_no_online_knn():
    images = np.zeros((50, 8, 8, 3), dtype=np.uint8)
    labels = np.full(50, -1)
    labels[:30] = 0
    view = CentreView(8, 8)
    options = {"seed": 0, "workers": 0, "group": None}
    assert OnlineKnn.if_possible(ArraySource(images, labels=labels), view, **options) is None
    assert OnlineKnn.if_possible(ArraySource(images), view, **options) is None


def test_listeners_hear_the_plan_every_step_and_the_end(tmp_path):
    told = Told()
    run_with(settings("simclr", tmp_path), told)
    assert told.steps == [1, 2, 3]
    assert (told.plan.total_steps, told.plan.views, told.plan.items) == (3, 2, 96)
    assert told.plan.chance == pytest.approx(np.log(63))
    assert told.is_over


def run_with(given, *listeners):
    torch.set_num_threads(1)
    return train(read_config(given), looks_back=False, listeners=listeners)


@pytest.mark.parametrize("is_terminal", [True, False])
def test_progress_shows_the_figures(is_terminal, tmp_path):
    text = io.StringIO()
    console = Console(file=text, force_terminal=is_terminal, width=200, no_color=True)
    run = run_with(settings("simclr", tmp_path), shown_progress(console))
    loss = next(line["loss"] for line in reversed(run.metrics.lines) if "loss" in line)
    shown = text.getvalue()
    for word in (f"loss {loss:.3f}", "views/s", "align", "uniform", "rank", "kNN", "epoch 1", " left"):
        assert word in shown


def test_a_run_in_minutes_ends_in_time_with_its_rate_run_down(tmp_path, monkeypatch):
    ticks = itertools.count()
    clock = SimpleNamespace(monotonic=lambda: next(ticks) / 4)  # each look at it takes a quarter of a second
    for module in ("launch", "loop"):
        monkeypatch.setattr(f"eigenview.training.{module}.time", clock)
    run = run_quietly(settings("simclr", tmp_path, steps=None, minutes=0.5))
    lines = [line for line in run.metrics.lines if "loss" in line]
    assert lines[-1]["seconds"] == pytest.approx(30, abs=1)
    rates = [line["learning_rate"] for line in lines]
    assert rates[0] > 0.99e-3
    assert rates[-1] < 0.01e-3
    assert rates == sorted(rates, reverse=True)
    expected = [0.5e-3 * (1 + np.cos(np.pi * line["seconds"] / 30)) for line in lines]
    np.testing.assert_allclose(rates, expected, atol=0.06e-3)  # the rate is set a few looks before the line


def test_parts_have_learning_rates_of_their_own(tmp_path):
    given = settings("simclr", tmp_path, steps=1)
    given["optimizer"] = {"name": "sgd", "learning_rate": 0.5, "schedule": "constant", "learning_rates": {"head": 0.0}}
    run = run_quietly(given)
    torch.manual_seed(0)
    after, before = weights(run, "last"), open_run(run.folder).untrained().state_dict()
    assert not torch.equal(after["encoder." + next(iter(before))], next(iter(before.values())))
    rates = {group["lr"] for group in run.checkpoints.load("last").state["optimizer"]["param_groups"]}
    assert rates == {0.5, 0.0}


def test_a_run_starts_from_another_runs_encoder(run, tmp_path):
    given = settings("moco", tmp_path, steps=1)
    given["encoder"] = {"name": "small", "width": 0.25, "weights": str(run.folder)}
    given["optimizer"] = {"name": "sgd", "learning_rate": 0.0}
    started = weights(run_quietly(given), "last")
    kept = [name for name in started if name.startswith("encoder.") and name.endswith("weight")]
    assert kept
    assert all(torch.equal(started[name], weights(run, "last")[name]) for name in kept)


def test_a_module_of_ones_own_is_trained_and_opened_again(tmp_path):
    def module():
        return torch.nn.Sequential(
            torch.nn.Conv2d(3, 8, 3, stride=4), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.LazyLinear(12)
        )

    torch.manual_seed(3)
    mine = module()
    mine(torch.zeros(1, 3, 24, 24))
    given = settings("simclr", tmp_path)
    with pytest.raises(SettingError, match="leave the encoder settings out"):
        train(read_config(given), encoder=mine, looks_back=False)
    del given["encoder"]
    run = train(read_config(given), encoder=mine, looks_back=False)
    with pytest.raises(DataError, match="trained a module of its user's"):
        open_run(run.folder)
    again = module()
    again(torch.zeros(1, 3, 24, 24))
    opened = open_run(run.folder, encoder=again)
    images = torch.randn(4, 3, 24, 24)
    torch.testing.assert_close(opened.encoder(images), mine.eval()(images))
    assert not torch.allclose(opened.untrained()(images), opened.encoder(images))


def test_the_loop_saves_between_steps_when_asked_to_stop(tmp_path):
    class Impatient(Listener):
        def stepped(self, step, seconds):
            if step == 2:
                os.kill(os.getpid(), signal.SIGTERM)

    given = settings("simclr", tmp_path / "stopped", steps=5)
    with pytest.raises(KeyboardInterrupt):
        run_with(given, Impatient())
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    stopped = RunDirectory(tmp_path / "stopped")
    assert stopped.checkpoints.load("last").state["progress"]["step"] in (2, 3)
    run_quietly(given, resume=True)
    whole = run_quietly({**given, "out": str(tmp_path / "whole")})
    assert same(weights(stopped, "last"), weights(whole, "last"))


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    import tarfile

    from PIL import Image

    folder = tmp_path_factory.mktemp("shards")
    random = np.random.default_rng(0)
    for shard in range(2):
        with tarfile.open(folder / f"part-{shard}.tar", "w") as tar:
            for number in range(24):
                data = io.BytesIO()
                Image.fromarray(random.integers(0, 256, (20, 20, 3), dtype=np.uint8)).save(data, "PNG")
                member = tarfile.TarInfo(f"{shard}{number:03d}.png")
                member.size = data.tell()
                data.seek(0)
                tar.addfile(member, data)
    return str(folder / "part-{0..1}.tar")


def test_a_stream_trains_and_resumes_bit_for_bit(shards, tmp_path):
    options = {"source": shards, "batch_size": 8, "steps_per_epoch": 4, **EPOCHS}
    given = settings("simclr", tmp_path / "whole", **options)
    whole = run_quietly(given)
    run_quietly(
        {
            **given,
            "out": str(tmp_path / "two"),
            "epochs": 2,
            "optimizer": {**given["optimizer"], "schedule": "constant"},
        }
    )
    again = {**given, "out": str(tmp_path / "two"), "optimizer": {**given["optimizer"], "schedule": "constant"}}
    resumed = run_quietly(again, resume=True)
    straight = run_quietly({**again, "out": str(tmp_path / "straight")})
    assert same(weights(resumed, "last"), weights(straight, "last"))
    assert not same(weights(resumed, "last"), weights(whole, "last"))
    assert [line["step"] for line in whole.metrics.lines if "epoch_loss" in line] == [4, 8, 12, 16]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"method": "deepcluster-v2", "steps_per_epoch": 4}, "remembers every image by its index; a stream has none"),
        ({"method": "supervised", "steps_per_epoch": 4}, "learns from labels; this source has none"),
        ({}, "nobody knows how long this stream is: give steps_per_epoch"),
    ],
)
def test_what_a_stream_cannot_give_is_told(shards, changes, message, tmp_path):
    given = settings(changes.get("method", "simclr"), tmp_path, source=shards, batch_size=8, **EPOCHS)
    with pytest.raises(SettingError, match=message):
        run_quietly({**given, **changes})


def test_an_indexed_source_has_its_own_epochs(tmp_path):
    with pytest.raises(SettingError, match="steps_per_epoch is for streams"):
        run_quietly(settings("simclr", tmp_path, steps_per_epoch=3))


def test_the_first_readable_image_gives_the_shape(tmp_path):
    from PIL import Image

    (tmp_path / "a.png").write_bytes(b"not a picture")
    Image.new("RGB", (30, 20)).save(tmp_path / "b.png")
    assert typical_shape(open_source(str(tmp_path))) == (20, 30, 3)
    (tmp_path / "b.png").unlink()
    with pytest.raises(DataError, match="none of the images can be read"):
        typical_shape(open_source(str(tmp_path)))


@pytest.mark.usefixtures("half_precision")
def test_mixed_precision_trains_close_to_single_precision(tmp_path):
    runs = {name: run_quietly(settings("simclr", tmp_path / name, precision=name)) for name in ("32", "bf16")}
    losses = [[line["loss"] for line in run.metrics.lines if "loss" in line] for run in runs.values()]
    assert losses[0] != losses[1]
    np.testing.assert_allclose(*losses, rtol=0.05)


def test_a_tensorboard_that_breaks_on_import_is_told_before_the_first_step(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboard.summary.writer.record_writer", None)
    with pytest.raises(
        SettingError, match=r"writing events needs tensorboard, which does not import here .*pip install"
    ):
        run_quietly(settings("simclr", tmp_path / "run", steps=1, tensorboard=True))
