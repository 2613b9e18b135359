"""The page as text: its sections, what it does where files are missing, what it refuses."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from eigenview.errors import DataError, SettingError
from eigenview.evaluation import compare
from eigenview.report import write_report
from eigenview.report.facts import duration, flat, time_figures
from eigenview.report.scores import headline, measures, points
from eigenview.report.summary import summarise
from eigenview.runs import SEEN, RunDirectory
from eigenview.runs.contents import RunContents
from tests.report.example_run import write_run, write_scores


def read(file: Path) -> str:
    """The page without its scripts and styles."""
    text = file.read_text(encoding="utf-8")
    return re.sub(r"<(script|style)\b.*?</\1>", "", text, flags=re.DOTALL)


def test_a_full_run_has_every_section(tmp_path):
    file = write_report([write_run(tmp_path / "run")])
    assert file == tmp_path / "run" / "report.html"
    matches = re.findall(r'<section id="(\w+)"|<section.*? id="(\w+)"', read(file))
    names = [first or second for first, second in matches]
    assert names == "top diagnosis curves geometry map neighbours clusters duplicates views confusion settings".split()


def test_the_top_says_verdict_score_interval_and_gain(tmp_path):
    run = RunContents.of(write_run(tmp_path / "run"))
    own, untrained, pixels = (
        next(score for score in run.scores if (score.subject, score.name) == (subject, "linear"))
        for subject in ("run", "untrained", "raw pixels")
    )
    _, _, sentence = summarise(run)
    said = sentence.replace("\N{NO-BREAK SPACE}", " ")
    assert f"{100 * own.value:.1f} %" in said
    assert f"95 % interval {100 * own.interval[0]:.1f} to {100 * own.interval[1]:.1f}" in said
    assert f"{100 * (own.value - untrained.value):.1f} points above the untrained encoder" in said
    assert f"{100 * (own.value - pixels.value):.1f} points above raw pixels" in said


def test_a_difference_that_chance_would_show_is_called_so(tmp_path):
    run = RunContents.of(write_run(tmp_path / "run", has_sample=False))
    own = next(score for score in run.scores if (score.subject, score.name) == ("run", "linear"))
    same = replace(own, subject="untrained")
    others = tuple(score for score in run.scores if (score.subject, score.name) != ("untrained", "linear"))
    _, _, said = summarise(replace(run, scores=(*others, same)))
    assert "0.0 points above the untrained encoder (within chance, p = 1.000)" in said
    assert "raw pixels (within" not in said


def test_scores_stand_with_baselines_of_the_same_protocol_only(tmp_path):
    run = RunContents.of(write_run(tmp_path / "run"))
    assert [measure.own.name for measure in headline(run)] == ["linear", "knn k=20"]
    for measure in measures(run):
        assert {score.subject for score in measure.baselines} == {"untrained", "raw pixels"}
        assert {score.protocol_hash for score in measure.baselines} == {measure.own.protocol_hash}
        assert measure.compared[0].p_value == compare(measure.own, measure.baselines[0])[1].p_value


def test_an_adapted_run_stands_beside_its_own_starting_point(tmp_path):
    folder = write_run(tmp_path / "run", has_sample=False)
    directory = RunDirectory(folder)
    for score in directory.scores():
        if score.subject == "untrained":
            directory.save_score(replace(score, subject="starting point"))
    first = headline(RunContents.of(folder))[0]
    own, start = first.own, first.baselines[0]
    assert (own.subject, start.subject, start.name) == ("run", "starting point", "linear")
    _, _, said = summarise(RunContents.of(folder))
    assert f"{100 * (own.value - start.value):.1f} points above its starting point" in said
    text = read(write_report([folder]))
    assert '<span class="name">starting point</span>' in text
    assert points(start.value - own.value, start) in text


def test_the_comparison_shows_paired_differences_and_refuses_what_is_unfair(tmp_path):
    runs = [write_run(tmp_path / name, seed=seed, has_sample=False) for seed, name in enumerate(("first", "second"))]
    text = read(write_report(runs, tmp_path))
    assert (tmp_path / "comparison.html").exists()
    both = [next(s for s in RunDirectory(run).scores() if (s.subject, s.name) == (run.name, "linear")) for run in runs]
    row = compare(*both)[1]
    assert points(row.difference, row.score) in text
    assert f"p = {row.p_value:.3f}" in text
    for file in (runs[1] / "evaluation").glob("*.json"):
        file.unlink()
    for score in RunDirectory(runs[0]).scores():
        assert score.data == {"test": "x"}
    RunDirectory(runs[1]).save_score(replace(both[1], data={"test": "other"}))
    assert "other protocol or data: not compared" in read(write_report(runs, tmp_path))


def test_settings_that_differ_are_listed(tmp_path):
    runs = [write_run(tmp_path / name, seed=seed, has_sample=False) for seed, name in enumerate(("a", "b"))]
    table = read(write_report(runs, tmp_path)).split("Settings that differ")[1]
    assert '<th scope="row">seed</th><td>0</td><td>1</td>' in table
    assert "optimizer.learning_rate" not in table


def test_a_run_with_settings_alone_still_has_a_report(tmp_path):
    run = write_run(tmp_path / "run", has_sample=False, has_scores=False)
    for name in ("metrics.jsonl", "data.json", "environment.json", "method.json"):
        (run / name).unlink()
    text = read(write_report([run]))
    assert "This run has logged no steps yet." in text
    assert "No scores yet" in text
    assert "No sample of images" in text


def test_no_labels_no_confusion(tmp_path):
    text = read(write_report([write_run(tmp_path / "run", is_labelled=False)]))
    assert 'id="confusion"' not in text
    assert "farthest from their nearest neighbour" in text


def test_a_damaged_optional_file_is_named_on_the_page(tmp_path):
    run = write_run(tmp_path / "run")
    (run / "environment.json").write_text("{")
    (run / "metrics.jsonl").write_text('{"step": 1, "loss"\n' + (run / "metrics.jsonl").read_text())
    (run / "diagnosis.json").write_text("{}")
    (run / "sample" / "labels.npy").write_bytes(b"no array")
    text = read(write_report([run]))
    assert re.search("environment.json is not JSON: Expecting property name", text)
    assert re.search("diagnosis.json.*diagnose the run again", text)
    assert "1 damaged lines of metrics.jsonl are left out" in text
    assert "cannot be read" in text


def test_a_run_whose_settings_are_damaged_is_still_one_that_was_trained(tmp_path):
    run = write_run(tmp_path / "run", has_sample=False)
    (run / "config.json").write_text("{")
    text = read(write_report([run]))
    assert "config.json is not JSON" in text
    assert "not trained here" not in text
    assert 'id="curves"' in text


def test_core_hours_count_the_cores_that_were_used(tmp_path):
    measured = dict(time_figures(RunContents.of(write_run(tmp_path / "run", has_sample=False))))
    seconds = 200 * 1.8
    assert measured["core-hours"] == f"{seconds * 4 / 3600:.3g} (4 cores)"  # 2 processes of 3 threads share 4
    assert measured["views seen"] == f"{1000 * seconds:,.0f}"
    assert duration(59) == "59 s"
    assert duration(3725) == "1 h 2 min"


def test_nested_settings_become_flat():
    assert flat({"a": {"b": None, "c": [1, 0.5]}, "d": True}) == [("a.b", "none"), ("a.c", "1, 0.5"), ("d", "yes")]


def test_the_same_run_gives_the_same_page(tmp_path):
    run = write_run(tmp_path / "run", items=40)
    first = write_report([run], tmp_path / "one.html").read_bytes()
    assert write_report([run], tmp_path / "two.html").read_bytes() == first


def test_what_training_could_not_measure_does_not_break_the_page(tmp_path):
    run = write_run(tmp_path / "run", has_sample=False)
    lines = [{"step": 1, "loss": float("nan"), "alarms": None}, {"step": 2, "loss": 1.0, "alignment": None}]
    (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    text = write_report([run]).read_text(encoding="utf-8")
    data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text)[1])
    assert data["runs"][0]["curves"] == {"loss": {"x": [2.0], "y": [1.0]}}


def test_bad_places_are_refused_with_their_reason(tmp_path):
    with pytest.raises(DataError, match="is no run directory"):
        write_report([tmp_path])
    with pytest.raises(SettingError, match="at least one run"):
        write_report([])
    run = write_run(tmp_path / "run", has_sample=False, has_scores=False)
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot write"):
        write_report([run], tmp_path / "file" / "x.html")


def test_scores_on_two_data_sets_are_told_apart(tmp_path):
    run = write_run(tmp_path / "run", has_sample=False, has_scores=False)
    for name, rate in {"photos": 0.8, "tiles": 0.7}.items():
        write_scores(RunDirectory(run), 0, data={"test": name, "set": name}, rate=rate)
    text = read(write_report([run]))
    assert "Linear probe on photos" in text
    assert "Linear probe on tiles" in text
    assert "Linear probe<" not in text


def test_the_top_prefers_a_score_whose_baselines_were_measured(tmp_path):
    run = write_run(tmp_path / "run", has_sample=False, has_scores=False)
    write_scores(RunDirectory(run), 0, data={"test": "a", "set": "alone"}, rate=0.9, has_baselines=False)
    write_scores(RunDirectory(run), 1, data={"test": "b", "set": "beside"}, rate=0.7)
    _, _, said = summarise(RunContents.of(run))
    assert "linear probe on beside" in said
    assert "no baseline" not in said


def test_test_images_that_training_saw_are_named_once(tmp_path):
    folder = write_run(tmp_path / "run", has_sample=False)
    assert "Seen in training" not in read(write_report([folder]))
    directory = RunDirectory(folder)
    for score in directory.scores():
        if score.subject == "run":
            directory.save_score(replace(score, data={**score.data, "set": "my photos", SEEN: True}))
    page = read(write_report([folder]))
    assert page.count("Seen in training: the test images of my photos.") == 1
