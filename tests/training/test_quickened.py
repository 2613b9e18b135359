"""Half precision is taken where it is measured to be faster, and only by runs that go by the clock."""

from __future__ import annotations

import time

import pytest

from eigenview.training import processor, train, trial
from eigenview.training.processor import has_half_instructions, works_in_half
from eigenview.training.start import prepare

GIVEN = {"source": "shapes?count=96&size=24", "encoder": {"name": "small", "width": 0.25}, "workers": 0}


@pytest.fixture
def machine(monkeypatch):
    """Seconds of a batch by precision, whether half precision works, and what compiling takes and gives."""
    told = {"32": 0.3, "bf16": 0.2, "works": True, "compiled": 1.0, "compiling": 30.0, "has": True}

    def seconds(config, *_, **__):
        if config.compile is True and isinstance(told["compiled"], Exception):
            raise told["compiled"]
        share = told["compiled"] if config.compile is True else 1.0
        return trial.Timed(told["compiling"], told[config.precision] * share)

    monkeypatch.setattr(trial, "timed_batches", seconds)
    monkeypatch.setattr(trial, "works_in_half", lambda _: told["works"])
    monkeypatch.setattr(trial, "has_half_instructions", lambda: told["has"])
    return told


def precision(tmp_path, **given):
    prepared = prepare({**GIVEN, "out": tmp_path / "run", **given})
    reasons = [str(choice) for choice in prepared.choices if choice.name == "precision"]
    return prepared.config.precision, reasons


def test_the_faster_precision_is_taken_and_said(machine, tmp_path):
    assert precision(tmp_path, minutes=10) == ("bf16", ["precision = bf16: 1.5 × as fast as 32 here"])


@pytest.mark.parametrize(
    "given", [{"minutes": 1}, {"steps": 9000}, {"epochs": 900}, {"minutes": 10, "precision": "32"}]
)
def test_short_runs_given_steps_and_a_given_precision_stay(machine, tmp_path, given):
    assert precision(tmp_path, **given) == ("32", [])


def test_a_little_faster_is_not_enough(machine, tmp_path):
    machine["bf16"] = 0.27
    assert precision(tmp_path, minutes=10) == ("32", [])


def test_kernels_that_crash_are_left_alone(machine, tmp_path):
    machine["works"] = False
    assert precision(tmp_path, minutes=10) == ("32", [])


def test_half_precision_is_not_tried_without_instructions_for_it(machine, tmp_path):
    machine["has"], machine["works"] = False, None
    assert precision(tmp_path, minutes=10) == ("32", [])


@pytest.mark.parametrize(
    ("facts", "has"),
    [
        ("processor\t: 0\nflags\t\t: fpu avx2 avx512_bf16\n", True),
        ("processor\t: 0\nflags\t\t: fpu avx512f amx_bf16\n\nflags\t\t: fpu\n", True),
        ("processor\t: 0\nFeatures\t: fp asimd bf16\n", True),
        ("processor\t: 0\nflags\t\t: fpu avx2 avx512f avx512_vnni\nvmx flags\t: bf16\n", False),
        ("processor\t: 0\n", True),
        (None, True),
    ],
)
def test_what_a_processor_says_of_itself_is_believed(monkeypatch, tmp_path, facts, has):
    file = tmp_path / "cpuinfo"
    if facts is not None:
        file.write_text(facts)
    monkeypatch.setattr(processor, "FACTS", file)
    assert has_half_instructions() is has


def compiling(tmp_path, **given):
    prepared = prepare({**GIVEN, "out": tmp_path / "run", **given})
    reasons = [str(choice) for choice in prepared.choices if choice.name == "compile"]
    return prepared.config.compile, reasons


def test_a_long_run_is_compiled_where_that_is_faster(machine, tmp_path):
    machine["compiled"] = 0.8
    reason = "compile = True: 1.25 × as fast here: it saves about 6 minutes and takes about 30 seconds"
    assert compiling(tmp_path, minutes=30) == (True, [reason])
    assert compiling(tmp_path, minutes=30, precision="32") == (True, [reason])


@pytest.mark.parametrize("given", [{"minutes": 10}, {"steps": 9000}, {"minutes": 30, "compile": False}])
def test_shorter_runs_are_not_compiled(machine, tmp_path, given):
    machine["compiled"] = 0.8
    assert compiling(tmp_path, **given) == (given.get("compile", "auto"), [])


def test_a_run_too_short_for_what_compiling_takes_is_not_compiled(machine, tmp_path):
    machine["compiled"], machine["compiling"] = 0.9, 170.0
    assert compiling(tmp_path, minutes=28) == ("auto", [])  # saves 168 s
    assert compiling(tmp_path, minutes=29)[0] is True  # 174 s
    two_sizes = {"encoder": {}, "source": "shapes?count=96&size=32", "views": {"early_size": 24}}
    assert compiling(tmp_path, minutes=29, **two_sizes) == ("auto", [])  # each is a program of its own
    assert compiling(tmp_path, minutes=58, **two_sizes)[0] is True


@pytest.mark.parametrize("told", [0.99, RuntimeError("no compiler")])
def test_nothing_is_compiled_where_that_saves_nothing_or_fails(machine, tmp_path, told):
    machine["compiled"] = told
    assert compiling(tmp_path, minutes=30) == ("auto", [])


def test_batches_are_timed_at_the_size_that_most_of_the_run_has(tmp_path, monkeypatch):
    sizes = []
    encode = trial.in_micro_batches
    monkeypatch.setattr(
        trial, "in_micro_batches", lambda net, views, _: sizes.append(views.shape[-1]) or encode(net, views, None)
    )
    for share in (0.7, 0.3):
        views = {"early_size": 12, "early_share": share}
        prepared = prepare({**GIVEN, "out": tmp_path / "run", "steps": 1, "views": views})
        for is_early in (True, False):
            assert trial.timed_batches(prepared.config, prepared.source, is_early=is_early).batch > 0
    assert [sizes[place] for place in range(0, len(sizes), 1 + trial.TIMED)] == [12, 24, 24, 24]


def test_both_precisions_are_really_timed(tmp_path):
    config = prepare({**GIVEN, "out": tmp_path / "run", "steps": 1}).config
    source = prepare({**GIVEN, "out": tmp_path / "run", "steps": 1}).source
    for name in ("32", *(["bf16"] if works_in_half("bf16") else [])):
        assert 0 < trial.seconds_a_batch(config.model_copy(update={"precision": name}), source) < 60


def test_what_came_before_is_counted_up_to_half_of_the_minutes(tmp_path):
    prepared = prepare({**GIVEN, "out": tmp_path / "run", "minutes": 0.05, "log_every": 1})
    directory = train(prepared.config, source=prepared.source, looks_back=False, started=time.monotonic() - 3600)
    seconds = [line["seconds"] for line in directory.metrics.looks]
    assert 1.5 <= seconds[0] < seconds[-1]  # half of three seconds, and steps were made


def test_minutes_count_from_before_the_images_are_open(tmp_path):
    before = time.monotonic()
    assert before <= prepare({**GIVEN, "out": tmp_path / "run", "steps": 1}).started <= time.monotonic()
