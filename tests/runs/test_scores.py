"""Stored scores: they come back as they were, and none that was changed is believed."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from eigenview.errors import DataError
from eigenview.runs import SEEN, Score
from eigenview.runs.scores import ScoreFolder

SCORE = Score(
    "knn",
    "accuracy",
    0.75,
    (0.5, 1.0),
    protocol={"k": 5},
    data={"test": "abc", "set": "digits"},
    subject="run",
    encoder="1f",
    items=(1.0, 1.0, 0.0, 1.0),
)


def test_scores_come_back_from_disk_as_they_were(tmp_path):
    folder = ScoreFolder(tmp_path / "evaluation")
    assert folder.load() == []
    other = replace(SCORE, name="linear probe", protocol={"C": [0.1, 1.0]}, higher_is_better=False, seed=3)
    for score in (SCORE, other, SCORE):
        folder.save(score)
    assert sorted(folder.load(), key=lambda score: score.name) == [SCORE, other]


def test_a_score_says_itself_whether_it_is_a_share(tmp_path):
    own = replace(SCORE, metric="silhouette", is_share=False)
    assert (SCORE.text(0.756), own.text(0.756)) == ("75.6", "0.756")
    folder = ScoreFolder(tmp_path)
    for score in (SCORE, own, replace(own, metric="nmi")):
        folder.save(score)
    assert {score.metric: score.is_share for score in folder.load()} == {
        "accuracy": True,
        "silhouette": False,
        "nmi": False,
    }
    for file in tmp_path.iterdir():  # as it was written before scores said so
        content = json.loads(file.read_text())
        del content["is_share"]
        file.write_text(json.dumps(content))
    earlier = {score.metric: score.is_share for score in folder.load()}
    assert (earlier["accuracy"], earlier["nmi"]) == (True, False)


def test_one_measurement_has_one_file_whatever_the_data_is_called(tmp_path):
    folder = ScoreFolder(tmp_path)
    first = folder.save(SCORE)
    assert folder.save(replace(SCORE, value=0.8, data={"test": "abc", "set": "renamed"})) == first
    assert folder.save(replace(SCORE, data={"test": "xyz"})) != first
    assert folder.save(replace(SCORE, protocol={"k": 6})) != first
    assert folder.save(replace(SCORE, subject="untrained")) != first
    assert folder.save(replace(SCORE, data={"test": "abc", "set": "renamed", SEEN: True})) == first
    assert len(folder.load()) == 4
    assert {score.data_name for score in folder.load()} == {"renamed", "", "digits"}


def test_a_score_changed_by_hand_is_refused(tmp_path):
    folder = ScoreFolder(tmp_path)
    file = folder.save(SCORE)
    file.write_text(file.read_text().replace('"k": 5', '"k": 1'))
    with pytest.raises(DataError, match="changed by hand: its hashes do not fit; delete it and evaluate again"):
        folder.load()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{}", r"is no Score: \w+ is missing; it was edited or damaged; delete it"),
        (b"[]", "must hold a JSON object; it holds list"),
        (b'{"name": "knn"', "is not JSON"),
        (b"\xff\xfe", "is not UTF-8 text"),
        (b"[" * 200_000, "nested too deeply"),
    ],
)
def test_a_damaged_file_is_refused_in_one_line(tmp_path, content, message):
    (tmp_path / "x.json").write_bytes(content)
    with pytest.raises(DataError, match=message) as caught:
        ScoreFolder(tmp_path).load()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("name", "value"), [("value", "high"), ("interval", [1]), ("items", {}), ("protocol", [])])
def test_a_field_of_the_wrong_type_is_named(tmp_path, name, value):
    folder = ScoreFolder(tmp_path)
    file = folder.save(SCORE)
    file.write_text(json.dumps({**json.loads(file.read_text()), name: value}))
    with pytest.raises(DataError, match=f"is no Score: {name}"):
        folder.load()


def test_half_a_character_in_a_protocol_is_refused(tmp_path):
    folder = ScoreFolder(tmp_path)
    file = folder.save(SCORE)
    file.write_text(json.dumps({**json.loads(file.read_text()), "protocol": {"k": "\ud800"}}))
    with pytest.raises(DataError, match="it was edited or damaged"):
        folder.load()


def test_fields_of_another_version_are_passed_over(tmp_path):
    folder = ScoreFolder(tmp_path)
    file = folder.save(SCORE)
    content = json.loads(file.read_text())
    del content["format"]  # the version before had none
    file.write_text(json.dumps({**content, "new in the next": 1}))
    assert folder.load() == [SCORE]
