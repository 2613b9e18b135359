"""Runs that learn from captions: tables good and bad, tokens kept, a locked encoder, words that find pictures."""

from __future__ import annotations

import io
import json
import tarfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image

from eigenview.data import open_images
from eigenview.data.source import Share
from eigenview.errors import DataError, SettingError
from eigenview.methods.captions import drawn_captions
from eigenview.runs import RunDirectory, open_run, read_config
from eigenview.search import embed
from eigenview.search.neighbour_search import text_neighbours
from eigenview.training import Listener
from eigenview.training.feed import Feed
from eigenview.training.start import prepare
from eigenview.training.words import captioned
from eigenview.views import preset
from tests.training.runs import assert_equal_runs, run_quietly, settings, weights

COLOURS = {"red": (220, 30, 30), "green": (30, 200, 30), "blue": (30, 30, 220), "yellow": (230, 220, 40)}
EPOCHS = {"steps": None, "epochs": 3}


class Heard(Listener):
    def __init__(self):
        self.messages = []

    def told(self, message):
        self.messages.append(message)


def picture(colour, seed):
    noise = np.random.default_rng(seed).integers(-25, 25, (24, 24, 3))
    file = io.BytesIO()
    Image.fromarray(np.clip(np.array(COLOURS[colour]) + noise, 0, 255).astype(np.uint8)).save(file, "PNG")
    return file.getvalue()


def table(place, *, captions=None, count=48, images=None):
    colours = [list(COLOURS)[number % 4] for number in range(count)]
    drawn = [{"bytes": picture(colour, seed), "path": None} for seed, colour in enumerate(colours)]
    columns = {"image": images or drawn}
    columns["captions"] = captions or [[f"a {colour} thing", f"it is {colour} all over"] for colour in colours]
    pq.write_table(pa.table({name: values for name, values in columns.items() if values != "none"}), place)
    return str(place)


def given(source, out, **changes):
    return settings("clip", out, source=source, batch_size=16, **changes)


def test_odd_captions_and_repeated_rows_are_learnt_from(tmp_path):
    plain = [["a red thing"], [], [""], None, ["🐶🐶 🐶"], ["שלום עולם"], ["word " * 10_000], ["a red thing"]]
    heard = Heard()
    source = table(tmp_path / "odd.parquet", captions=plain * 6)
    run = run_quietly(given(source, tmp_path / "run"), listeners=[heard])
    assert len(run.metrics.series("loss")) == 3
    assert "18 of 48 images have no caption, and are left out" in heard.messages
    assert len([message for message in heard.messages if "more than once" in message]) == 1


def test_a_blank_caption_does_not_move_the_weights_of_other_sets(tmp_path):
    """All weight is on the second set; where it is blank, the original stands in, and never the third."""
    columns = {"image": [{"bytes": picture("red", seed), "path": None} for seed in range(32)]}
    columns["caption"] = [f"original number {n}" for n in range(32)]
    columns["caption_2"] = [f"second number {n}" if n % 2 else " " for n in range(32)]
    columns["rewrites"] = [[f"third number {n}", f"fourth number {n}"] for n in range(32)]
    pq.write_table(pa.table(columns), tmp_path / "sets.parquet")
    place = str(tmp_path / "sets.parquet")
    config, recipe = read_config(given(place, tmp_path / "run")), preset("laclip", size=24)
    feed = Feed(config, open_images(place), recipe, channels=3, group=None)
    for batch in feed.epoch(0, device=torch.device("cpu"), step=0):
        drawn = drawn_captions(batch, (1e-9, 1.0, 0.0), seed=0)
        assert drawn == [f"{'second' if n % 2 else 'original'} number {n}" for n in batch.indices.tolist()]


def test_images_of_a_stream_that_have_no_caption_are_left_out_and_counted(tmp_path):
    """Of a shard's 60 images every third has one; whole batches without any would fall to a reader otherwise."""
    with tarfile.open(tmp_path / "shard.tar", "w") as shard:
        for number in range(60):
            members = {"png": picture("red", number)}
            if number % 3 == 0:
                members["txt"] = f"picture number {number}".encode()
            for suffix, content in members.items():
                entry = tarfile.TarInfo(f"{number:03d}.{suffix}")
                entry.size = len(content)
                shard.addfile(entry, io.BytesIO(content))
    heard = Heard()
    few = {"batch_size": 2, "steps": 40, "steps_per_epoch": 40}
    run = run_quietly({**given(str(tmp_path / "shard.tar"), tmp_path / "run"), **few}, listeners=[heard])
    assert "40 of the first 60 images have no caption, and all such are left out" in heard.messages
    assert len(run.metrics.series("loss")) == 40
    stream = captioned(open_images(str(tmp_path / "shard.tar")))
    captions = [item.captions for item in stream.items(Share(seed=0, epoch=0), shuffle=False)]
    assert captions == [(f"picture number {number}",) for number in range(0, 60, 3)]


def test_missing_images_are_left_out(tmp_path):
    images = [{"bytes": picture("red", seed), "path": None} for seed in range(47)] + [{"bytes": None, "path": "no.png"}]
    source = table(tmp_path / "gap.parquet", images=images)
    for locked in (False, True):
        encoder = {"name": "small", "width": 0.25, "locked": locked}
        run = run_quietly(given(source, tmp_path / f"run{locked}", encoder=encoder, **EPOCHS))
        assert len(run.metrics.series("loss")) == 3 * (47 // 16)


def test_no_captions_are_refused_in_one_line(tmp_path):
    bare = table(tmp_path / "bare.parquet", captions="none")
    with pytest.raises(DataError, match=r"has no captions to learn from: a table wants a column captions") as caught:
        run_quietly(given(bare, tmp_path / "run"))
    assert "\n" not in str(caught.value)


def test_a_file_that_is_no_tokenizer_is_refused(tmp_path):
    source, wrong = table(tmp_path / "good.parquet"), tmp_path / "wrong.json"
    for content in ("{}", "not json", "\udcff"):
        wrong.write_bytes(content.encode("utf-8", "surrogateescape"))
        chosen = {"text": {"tokenizer": str(wrong), "width": 16, "depth": 1}}
        with pytest.raises(DataError, match=r"wrong\.json is no "):
            run_quietly(given(source, tmp_path / "run", method_settings=chosen))


def test_another_tokenizer_is_refused_since_words_would_be_read_as_others(tmp_path):
    source = table(tmp_path / "good.parquet")
    run = run_quietly(given(source, tmp_path / "run"))
    file = tmp_path / "run" / "tokenizer.json"
    whole = file.read_text()
    content = json.loads(whole)
    vocabulary = content["model"]["vocab"]
    vocabulary["r"], vocabulary["b"] = vocabulary["b"], vocabulary["r"]
    file.write_text(json.dumps(content))
    for use in (lambda: open_run(run.folder).text, lambda: run_quietly(given(source, run.folder), resume=True)):
        with pytest.raises(DataError, match=r"tokenizer\.json is not the one that this run learnt with"):
            use()
    file.write_text(whole)
    assert open_run(run.folder).text.tokenizer.text == whole


def test_a_given_tokenizer_is_taken_and_kept(tmp_path):
    source = table(tmp_path / "good.parquet")
    first = run_quietly(given(source, tmp_path / "first"))
    file = tmp_path / "mine.json"
    file.write_text(first.tokenizer.text)
    chosen = {"head_output": 16, "text": {"tokenizer": str(file), "width": 16, "depth": 1}}
    second = run_quietly(given(source, tmp_path / "second", method_settings=chosen))
    assert second.tokenizer.text == first.tokenizer.text


def test_a_tokenizer_is_never_learnt_again(tmp_path):
    source = table(tmp_path / "good.parquet")
    whole = {**given(source, tmp_path / "whole"), **EPOCHS}
    run_quietly(whole)
    broken = {**whole, "out": str(tmp_path / "broken"), "epochs": 2}
    before = run_quietly(broken).tokenizer.text
    table(tmp_path / "good.parquet", captions=[["other words entirely", "and more of them"]] * 48)
    run_quietly({**broken, "epochs": 3}, resume=True)
    assert RunDirectory(tmp_path / "broken").tokenizer.text == before
    (tmp_path / "broken" / "tokenizer.json").unlink()
    with pytest.raises(DataError, match=r"cannot read .*tokenizer\.json"):
        run_quietly({**broken, "epochs": 4}, resume=True)


class StoppedAt(Listener):
    """Ends the run after a step, in the middle of an epoch, without a checkpoint."""

    def __init__(self, step):
        self.step = step

    def stepped(self, step, seconds):
        if step == self.step:
            raise KeyboardInterrupt


def test_a_locked_encoder_stays_and_resumes_bit_for_bit(tmp_path):
    encoder = {"name": "small", "width": 0.25, "locked": True}
    whole = given(table(tmp_path / "good.parquet"), tmp_path / "whole", encoder=encoder, **EPOCHS)
    run_quietly(whole)
    broken = {**whole, "out": str(tmp_path / "broken")}
    with pytest.raises(KeyboardInterrupt):
        run_quietly(broken, listeners=[StoppedAt(5)])
    start = weights(tmp_path / "broken")
    run_quietly(broken, resume=True)
    assert_equal_runs(tmp_path / "whole", tmp_path / "broken", steps=9)
    changed = {name.partition(".")[0] for name, tensor in weights(tmp_path / "whole").items()
               if not torch.equal(tensor, start[name])}  # fmt: skip
    assert changed == {"head", "text", "text_head", "objective"}


def test_a_locked_run_keeps_one_file_of_features_and_says_where(tmp_path):
    heard, out = Heard(), tmp_path / "run"
    encoder = {"name": "small", "width": 0.25, "locked": True}
    begun = given(table(tmp_path / "good.parquet"), out, encoder=encoder, **EPOCHS)
    run_quietly(begun, listeners=[heard])
    told = json.loads((out / "data.json").read_text())["source"]
    assert told["place"] == str(tmp_path / "good.parquet")  # and not a part of it
    (first,) = (out / "features").iterdir()
    size = first.stat().st_size / 1e6
    assert f"features of 48 images are kept in {out / 'features'} ({size:,.1f} MB)" in heard.messages
    others = [{"bytes": picture("blue", 100 + seed), "path": None} for seed in range(48)]
    table(tmp_path / "good.parquet", images=others)
    run_quietly({**begun, "epochs": 4}, resume=True)
    (second,) = (out / "features").iterdir()
    assert first != second


def test_an_adapted_encoder_begins_as_it_was_and_moves_slowly(tmp_path):
    """By AdamW a number moves by its rate a step, at most; of the encoder a tenth of 1e-3."""
    run_quietly(settings("simclr", tmp_path / "start"))
    rates = {"name": "adamw", "learning_rate": 1e-3, "encoder_rate": 0.1, "weight_decay": 0, "schedule": "constant"}
    begun = {"name": "small", "width": 0.25, "weights": str(tmp_path / "start")}
    run_quietly(given(table(tmp_path / "good.parquet"), tmp_path / "run", encoder=begun, optimizer=rates))
    before, after = (dict(open_run(tmp_path / name).encoder.named_parameters()) for name in ("start", "run"))
    moved = max(float((after[name] - before[name]).detach().abs().max()) for name in before)
    assert 1e-4 < moved < 1.1 * 3 * 1e-4  # three steps
    assert open_run(tmp_path / "run").needed_text().embed(["a red thing"]).norm() == pytest.approx(1)


@pytest.mark.parametrize("method", ["clip", "siglip"])
def test_the_watchdog_alarms_where_all_images_are_alike(method, tmp_path):
    plain = io.BytesIO()
    Image.new("RGB", (24, 24), COLOURS["red"]).save(plain, "PNG")
    images = [{"bytes": plain.getvalue(), "path": None}] * 48
    source = table(tmp_path / "alike.parquet", images=images, captions=[[f"number {n} of them"] for n in range(48)])
    views = {"preset": "laclip", "size": 24}
    run = run_quietly(settings(method, tmp_path / "run", source=source, batch_size=16, steps=12, views=views))
    alarms = [alarm for line in run.metrics.lines for alarm in line.get("alarms", [])]
    assert len([alarm for alarm in alarms if "the embeddings have collapsed (effective rank 1.00)" in alarm]) == 1


def test_a_locked_encoder_is_for_one_view_and_an_index(tmp_path):
    locked = {"name": "small", "width": 0.25, "locked": True}
    with pytest.raises(SettingError, match="simclr compares views; a locked encoder sees one"):
        run_quietly(settings("simclr", tmp_path / "run", encoder=locked))


def test_captions_choose_clip(tmp_path):
    source = table(tmp_path / "good.parquet")
    prepared = prepare({"source": source, "steps": 3, "encoder": {"name": "small"}, "out": str(tmp_path / "run")})
    assert (prepared.config.method, prepared.config.views.preset) == ("clip", "laclip")
    assert "the images come with captions" in {choice.reason for choice in prepared.choices}
    bare = table(tmp_path / "bare.parquet", captions="none")
    assert prepare({"source": bare, "steps": 3, "out": str(tmp_path / "other")}).config.method == "align-uniform"


def test_words_find_pictures(tmp_path):
    source = table(tmp_path / "good.parquet")
    optimizer = {"name": "adamw", "learning_rate": 3e-3}
    run_quietly(given(source, tmp_path / "run", steps=60, optimizer=optimizer))
    run = open_run(tmp_path / "run")
    stored = embed(run, source, layer="projection", workers=0).path
    answers = text_neighbours(stored, [f"a {colour} thing" for colour in COLOURS], run=run, k=12)
    for answer, colour in zip(answers, COLOURS, strict=True):
        rows = [list(COLOURS)[near.index % 4] for near in answer.neighbours]
        assert rows.count(colour) >= 10
        assert answer.is_text
    with pytest.raises(SettingError, match="no words were given"):
        text_neighbours(stored, " ", run=run)


def test_a_run_without_words_says_so(tmp_path):
    run_quietly(settings("simclr", tmp_path / "run"))
    with pytest.raises(DataError, match="learnt from images alone and knows no words"):
        open_run(tmp_path / "run").needed_text()
    assert json.loads((tmp_path / "run" / "method.json").read_text())["text"] is None
