"""Options from pydantic models: what a user may write, what comes of it, and what the help says."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field

from eigenview.cli.options import AsJson, Group, Word, given_options, parse, positional
from eigenview.errors import SettingError
from eigenview.settings import Strict


class Crop(Strict):
    size: int = Field(ge=1)
    count: int = 2


class Rate(Strict):
    learning_rate: float = Field(0.001, gt=0)  # the step size
    name: Literal["sgd", "adam"] = "sgd"
    nesterov: bool = False
    betas: tuple[float, float] = (0.9, 0.999)


class Run(Strict):
    out: Path  # where it goes
    optimizer: Rate = Rate()
    exclude: tuple[str, ...] = ("bias", "norm")  # from decay
    milestones: tuple[int, ...] = ()
    crops: tuple[Crop, ...] | None = None
    rates: dict[str, float] = Field({})
    workers: int | Literal["auto"] = "auto"
    compile: bool | Literal["auto"] = "auto"


class Verb(Strict):
    source: Annotated[str, positional("SOURCE")]  # the images
    others: Annotated[tuple[Path, ...], positional("[OTHER ...]")] = ()  # more of them
    look: bool = True  # at the end, look at it
    pairs: Annotated[tuple[str, ...], Word("NAME=A,B ...", holds_commas=True)] = ()
    out: Annotated[Path | None, Word("FILE", "-o")] = None  # the page, which is written anew each time this verb is
    # called
    as_json: AsJson = False  # print JSON


def settings(*arguments: str) -> dict[str, Any]:
    (given,) = given_options(
        [Group(Run, may_lack=True, aliases={"optimizer.name": "--optimizer"})], arguments, verb="go", about=""
    )
    return given


@pytest.mark.parametrize(
    ("arguments", "given"),
    {
        "": {},
        "--optimizer.learning-rate 0.5": {"optimizer": {"learning_rate": 0.5}},
        "--optimizer.learning_rate=0.5": {"optimizer": {"learning_rate": 0.5}},
        "--optimizer adam": {"optimizer": {"name": "adam"}},
        "--optimizer.nesterov --out x": {"optimizer": {"nesterov": True}, "out": Path("x")},
        "--optimizer.no-nesterov": {"optimizer": {"nesterov": False}},
        "--optimizer.betas 0.5 0.9": {"optimizer": {"betas": (0.5, 0.9)}},
        "--optimizer.betas=0.5,0.9": {"optimizer": {"betas": (0.5, 0.9)}},
        "--exclude a b": {"exclude": ("a", "b")},
        "--exclude a,b --out x --exclude c": {"exclude": ("a", "b", "c"), "out": Path("x")},
        "--exclude": {"exclude": ()},
        "--exclude --workers 2": {"exclude": (), "workers": 2},
        "--milestones 3 5": {"milestones": (3, 5)},
        '--crops [{"size":3}]': {"crops": [{"size": 3}]},
        '--rates {"head":0.1}': {"rates": {"head": 0.1}},
        "--workers auto --compile auto": {"workers": "auto", "compile": "auto"},
        "--compile true": {"compile": True},
        "--workers -3": {"workers": -3},
    }.items(),
)
def test_what_was_given_is_there_and_nothing_else(arguments: str, given: dict[str, Any]):
    assert settings(*arguments.split()) == given


MISTAKES = {
    "--workers": "--workers needs a value",
    "--workers --out x": "--workers needs a value",
    "--optimizer.nesterov=1": "--optimizer.nesterov takes no value",
    "--workers few": "--workers is a whole number or auto; got 'few'",
    "--milestones 3 x": "--milestones is a list of whole number; got 'x'",
    "--optimizer.betas 1": "--optimizer.betas is a number and number; got '1'",
    "--optimizer adm": "--optimizer.name is one of sgd, adam; got 'adm'; did you mean adam?",
    "--optimizer.learning-rate 0": "--optimizer.learning-rate is a number > 0; got '0'",
    "--learning-rate 1": "go has no option --learning-rate; did you mean --optimizer.learning-rate?",
    "--mileston 1": "go has no option --mileston; did you mean --milestones?",
    "--crops [{}]": "--crops is JSON, list of {size, count}; 0.size is missing",
    "--crops no": "--crops is JSON, list of {size, count}; all of it: Invalid JSON",
    "--nonsense": "go has no option --nonsense (eigenview go --help tells more)",
    "a b": "too much was given: a b",
}


@pytest.mark.parametrize("arguments", MISTAKES)
def test_a_mistake_names_the_rule_what_arrived_and_what_was_meant(arguments: str):
    with pytest.raises(SettingError) as refused:
        settings(*arguments.split())
    assert MISTAKES[arguments] in str(refused.value)
    assert str(refused.value).endswith("(eigenview go --help tells more)")


def verb(*arguments: str) -> Verb:
    return parse(Verb, arguments, verb="go", about="Goes.\n\nExamples:\n  eigenview go there\n")


@pytest.mark.parametrize(
    "arguments",
    [["a", "b", "-o", "x", "--json"], ["--json", "-o=x", "a", "b"], ["--out", "x", "--json", "--", "a", "b"]],
)
def test_words_and_flags_come_in_any_order(arguments: Sequence[str]):
    assert verb(*arguments) == Verb(source="a", others=(Path("b"),), out=Path("x"), as_json=True)


def test_a_word_may_look_like_a_flag_after_two_dashes():
    assert verb("--", "--json").source == "--json"


def test_commas_stay_where_they_belong_to_a_word():
    assert verb("a", "--pairs", "x=1,2", "y=3,4").pairs == ("x=1,2", "y=3,4")
    assert verb("a", "--pairs=x=1,2").pairs == ("x=1,2",)


def test_what_is_true_unless_told_otherwise_can_be_refused():
    assert verb("a").look
    assert not verb("a", "--no-look").look


def test_what_must_be_given_is_asked_for_with_its_meaning():
    with pytest.raises(SettingError, match=r"^SOURCE is missing: the images \("):
        verb("--json")
    with pytest.raises(SettingError, match=r"^--out is missing: where it goes \("):
        parse(Run, [], verb="go", about="")


def test_two_models_are_kept_apart():
    own, run = given_options(
        [Group(Verb, without=("out",)), Group(Run, "Settings", may_lack=True)], ["a", "--out", "x"], verb="go", about=""
    )
    assert own == {"source": "a"}
    assert run == {"out": Path("x")}


def test_a_model_that_is_known_late_takes_its_place():
    class Later(Rate):
        depth: int = 1  # only here

    (given,) = given_options(
        [Group(Run, inside={"optimizer": Later}, may_lack=True)], ["--optimizer.depth", "3"], verb="go", about=""
    )
    assert given == {"optimizer": {"depth": 3}}


def test_the_help_teaches(capsys: pytest.CaptureFixture[str], monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    with pytest.raises(SystemExit) as stopped:
        given_options(
            [Group(Verb, without=("out",)), Group(Run, "Settings", may_lack=True)],
            ["--nonsense", "-h"],
            verb="go",
            about="Goes.\n\nExamples:\n  eigenview go there\n",
        )
    assert stopped.value.code == 0
    assert capsys.readouterr().out == GUIDE


GUIDE = """\
usage: eigenview go SOURCE [OTHER ...] [OPTIONS]

Goes.

Examples:
  eigenview go there

Arguments:
  SOURCE       the images
  [OTHER ...]  more of them

Options:
  --look, --no-look     at the end, look at it (default true)
  --pairs NAME=A,B ...
  --json                print JSON
  -h, --help            this page

Settings:
  --out PATH                 where it goes
  --exclude TEXT ...         from decay (default bias norm)
  --milestones N ...
  --crops JSON
  --rates JSON
  --workers N|auto           (default auto)
  --compile true|false|auto  (default auto)

Optimizer:
  --optimizer.learning-rate X  the step size (> 0; default 0.001)
  --optimizer.name sgd|adam    (default sgd)
  --optimizer.nesterov
  --optimizer.betas X X        (default 0.9 0.999)
"""


def test_a_comment_may_go_on_below(capsys: pytest.CaptureFixture[str], monkeypatch):
    monkeypatch.setenv("COLUMNS", "140")
    with pytest.raises(SystemExit):
        verb("--help")
    assert "-o, --out FILE        the page, which is written anew each time this verb is called\n" in (
        capsys.readouterr().out
    )
