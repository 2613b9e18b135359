"""What Python can train beyond words: a module of one's own, a source that is open, a config as a whole."""

from __future__ import annotations

import signal

import numpy as np
import pytest
import torch
from torch import nn

import eigenview as ev
from eigenview.data import ArraySource, open_source
from eigenview.runs import RunDirectory
from eigenview.training import Listener
from tests.training.runs import weights

GIVEN = {"method": "simclr", "batch_size": 32, "log_every": 1, "workers": 0, "steps": 4}


def own_module() -> nn.Module:
    torch.manual_seed(5)
    return nn.Sequential(nn.Conv2d(1, 8, 3, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())


class StoppedAt(Listener):
    """Ctrl-C after a step."""

    def __init__(self, step: int) -> None:
        self.step = step

    def stepped(self, step: int, seconds: float) -> None:
        if step == self.step:
            signal.raise_signal(signal.SIGINT)


def test_a_module_of_ones_own_resumed_equals_uninterrupted(tmp_path):
    ev.train("digits", out=tmp_path / "whole", encoder=own_module(), listeners=[], **GIVEN)
    with pytest.raises(KeyboardInterrupt):
        ev.train("digits", out=tmp_path / "parts", encoder=own_module(), listeners=[StoppedAt(1)], **GIVEN)
    with pytest.raises(KeyboardInterrupt):
        ev.train(
            "digits", out=tmp_path / "parts", encoder=own_module(), resume=True, listeners=[StoppedAt(3)], workers=0
        )
    config = RunDirectory(tmp_path / "parts").config
    run = ev.train(config, encoder=own_module(), resume=True, listeners=[])
    expected, reached = weights(tmp_path / "whole"), weights(tmp_path / "parts")
    assert all(torch.equal(expected[name], reached[name]) for name in expected)
    assert run.opened.name == "parts"
    with pytest.raises(ev.EigenviewError, match="another encoder"):
        ev.train(out=tmp_path / "parts", steps=5, encoder="small", resume=True, listeners=[])
    with pytest.raises(ev.EigenviewError, match="trained a module of its user's: give encoder=, one like it"):
        ev.train(out=tmp_path / "parts", steps=5, resume=True, listeners=[])


def test_a_run_goes_on_by_its_folder_alone_and_is_not_looked_at_unless_asked(tmp_path):
    run = ev.train("digits", out=tmp_path / "run", encoder={"width": 0.25}, look=False, listeners=[], **GIVEN)
    assert run.directory.diagnosis() is None
    again = ev.train(out=tmp_path / "run", resume=True, steps=5, listeners=[])
    assert again.metrics[-1]["step"] == 5
    assert again.directory.diagnosis() is not None
    with pytest.raises(ev.EigenviewError, match="the images to learn from are missing"):
        ev.train(out=tmp_path / "other", steps=2, listeners=[])


def test_the_source_of_a_whole_config_is_given_open_or_named_once_more(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    code = "from eigenview.data import ArraySource, open_source\n\ndef few():\n    return open_source('digits')\n"
    (tmp_path / "own_digits.py").write_text(code)
    config = ev.read_config({"source": "own_digits:few", "out": "a", "encoder": {"width": 0.25}, **GIVEN})
    with pytest.raises(ev.EigenviewError, match="runs only if this very call names it"):
        ev.train(config, listeners=[])
    with pytest.raises(ev.EigenviewError, match="images are those of the source, own_digits:few, open or named once"):
        ev.train(config, images="digits", listeners=[])
    named = ev.train(config, images="own_digits:few", listeners=[])
    other = config.model_copy(update={"out": tmp_path / "b"})
    opened = ev.train(other, images=open_source("digits"), listeners=[])
    assert opened.directory.metrics.series("loss") == named.directory.metrics.series("loss")


def test_a_source_that_is_open_is_trained_on_as_it_is(tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (64, 16, 16, 3), dtype=np.uint8)
    source = ArraySource(images)
    given = {**GIVEN, "encoder": {"width": 0.25}, "listeners": [], "look": False}
    run = ev.train(source, out=tmp_path / "open", **given)
    np.savez(tmp_path / "same.npz", images=images)
    of_file = ev.train(tmp_path / "same.npz", out=tmp_path / "file", **given)
    assert run.directory.metrics.series("loss") == of_file.directory.metrics.series("loss")
    with pytest.raises(ev.EigenviewError, match="memory"):  # where it came from is no place to open again
        run.embed()
    assert len(run.embed(source)) == 64
    again = ev.train(source, out=tmp_path / "open", resume=True, steps=5, look=False, listeners=[])
    assert again.metrics[-1]["step"] == 5
    with pytest.raises(ev.EigenviewError, match="the source is open already: leave images out"):
        ev.train(source, images=source, out=tmp_path / "twice")
    with pytest.raises(
        ev.EigenviewError, match=r"open source, such as eigenview\.data\.ArraySource\(array\); got ndarray$"
    ):
        ev.train(images, out=tmp_path / "array")


@pytest.mark.parametrize("encoder", [own_module, nn.Identity, 3])
def test_what_is_no_encoder_is_refused_in_one_line(encoder, tmp_path):
    with pytest.raises(ev.EigenviewError, match=r"^an encoder is a module, a name or module:attribute; got .+$"):
        ev.train("digits", encoder=encoder, out=tmp_path / "run", listeners=[])
