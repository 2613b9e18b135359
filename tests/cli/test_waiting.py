"""How long something will take is said before it is done, and where it is computed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from eigenview.cli import main, run_options
from eigenview.cli.output import Output
from eigenview.cli.run_options import say_wait
from eigenview.cli.train import Announcement
from eigenview.devices import device_text, devices_here, find_device
from eigenview.errors import SettingError
from eigenview.search import candidates
from eigenview.training import Plan
from tests.cli.commands import PHOTOS, RUN


def plan(total: int | None, minutes: float | None = None) -> Plan:
    return Plan(Path("run"), "simclr", "small", 3000, 2, 64, 46, total, minutes, 0, None)


def test_a_long_run_is_announced_once_after_its_first_seconds(capsys: pytest.CaptureFixture[str]):
    listener = Announcement(Output(), looks_back=True)
    listener.started(plan(10_000))
    for step in range(1, 20):
        listener.stepped(step, 30 + step)  # the first step took 31 seconds, the others one each
    assert capsys.readouterr().out == "9,994 steps to go: about 2.8 hours; --minutes N bounds it\n"


def test_a_short_run_is_not_announced(capsys: pytest.CaptureFixture[str]):
    listener = Announcement(Output(), looks_back=True)
    listener.started(plan(10))
    for step in range(1, 11):
        listener.stepped(step, 1.0 * step)
    listener.ended()
    assert capsys.readouterr().out == ""


def test_what_comes_after_the_minutes_is_announced(capsys: pytest.CaptureFixture[str]):
    listener = Announcement(Output(), looks_back=True)
    listener.started(plan(None, 4.0))
    listener.measured({"views_per_second": 100.0})
    listener.stepped(500, 241.0)
    listener.ended()
    assert "on 2,000 images: about 60 seconds (--no-look" in capsys.readouterr().out


def test_nothing_is_announced_after_a_stop(capsys: pytest.CaptureFixture[str]):
    listener = Announcement(Output(), looks_back=True)
    listener.started(plan(None, 4.0))
    listener.measured({"views_per_second": 100.0})
    listener.stepped(5, 20.0)
    listener.ended()
    assert capsys.readouterr().out == ""


def test_a_wait_of_seconds_is_not_worth_a_word(capsys: pytest.CaptureFixture[str]):
    say_wait(Output(), "features", 9.0)
    say_wait(Output(), "features", 200.0)
    assert capsys.readouterr().out == "features: about 3 minutes\n"


@pytest.mark.parametrize("words", [["evaluate", RUN, f"{PHOTOS}?labelled=yes", "--protocol", "knn"], ["diagnose", RUN]])
def test_verbs_that_encode_say_how_long_and_where(words: list[str], shop, trained, monkeypatch, capsys):
    monkeypatch.chdir(shop)
    monkeypatch.setattr(run_options, "SHORT", 0.0)
    assert main(words) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0] == f"first run, checkpoint last, on {device_text(torch.device('cpu'))}"
    assert any(re.fullmatch(r".*images.*: about \d+ (second|minute)s?", line) for line in said[1:3])


def test_data_check_and_embed_say_how_long(shop, trained, monkeypatch, capsys):
    monkeypatch.chdir(shop)
    monkeypatch.setattr(run_options, "SHORT", 0.0)
    assert main(["data", "check", PHOTOS]) == 0
    assert re.match(r"49 images to open: about \d+ seconds?\n", capsys.readouterr().out)
    assert main(["embed", RUN, PHOTOS, "-o", "waited.npy"]) == 0
    assert re.search(r"^49 images: about \d+ seconds?$", capsys.readouterr().out, re.MULTILINE)


def test_duplicates_says_how_long_its_vectors_and_pictures_take(shop, trained, monkeypatch, capsys):
    monkeypatch.chdir(shop)
    monkeypatch.setattr(run_options, "SHORT", 0.0)
    monkeypatch.setattr(candidates, "TRIED_VECTORS", 20)
    assert main(["embed", RUN, PHOTOS, "-o", "many.parquet"]) == 0
    assert main(["duplicates", "many.parquet"]) == 0
    assert re.search(r"^49 images, each with those like it: about \d+ seconds?$", capsys.readouterr().out, re.MULTILINE)


def test_a_device_that_is_not_here_is_refused():
    assert devices_here()[-1] == "cpu"
    assert find_device("cpu") == torch.device("cpu")
    assert find_device("auto").type == devices_here()[0]
    missing = next(name for name in ("cuda", "mps") if name not in devices_here())
    with pytest.raises(SettingError, match=rf"one of this machine's \(.*cpu\); got '{missing}'"):
        find_device(missing)
