"""What the pages show is run: their Python as it stands, among small stand-ins; their commands are parsed."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
import warnings
from importlib import import_module
from pathlib import Path

import pytest

from eigenview.cli import main
from eigenview.cli.entry import VERBS
from eigenview.cli.options import OptionsCommand
from tests.pages import COMMON, PAGES, PREAMBLES, SHORTENED, Block, blocks, commands, write_stand_ins

WITH_PYTHON = [page for page in PAGES if any(block.kind == "python" for block in blocks(page))]


@pytest.fixture(scope="module")
def stand_ins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_stand_ins(tmp_path_factory.mktemp("stand-ins"))


@pytest.mark.parametrize("page", WITH_PYTHON)
def test_the_python_of_a_page_runs(page: str, stand_ins: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    shutil.copytree(stand_ins, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    names: dict[str, object] = {"__name__": "__main__"}
    exec(COMMON + PREAMBLES.get(page, ""), names)
    for block in blocks(page):
        if block.kind == "python" and block.reason is None:
            run_block(block, names)


def run_block(block: Block, names: dict[str, object]) -> None:
    """A traceback names the page and its line. A block that begins with ``# name.py`` is also that file."""
    text = block.text
    if file := re.match(r"# (\w+)\.py\n", text):
        Path(f"{file[1]}.py").write_text(text, encoding="utf-8")
        sys.modules.pop(file[1], None)
    for long, short in SHORTENED.get(block.page, {}).items():
        text = text.replace(long, short)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # advice of other libraries about this machine
        exec(compile("\n" * block.line + text, PAGES[block.page], "exec"), names)


def test_what_is_not_run_says_why_and_what_is_shortened_is_there():
    reasons = [block.reason for page in PAGES for block in blocks(page) if block.reason is not None]
    assert reasons
    assert [reason for reason in reasons if len(reason.split()) < 2] == []
    for page, pairs in SHORTENED.items():
        text = "".join(block.text for block in blocks(page) if block.kind == "python")
        assert [long for long in pairs if long not in text] == [], page


class Parsed(BaseException):
    """The words were understood; the verb is not to begin."""


def words_of(line: str) -> list[str]:
    """What the shell would hand over, up to where the output goes."""
    words = shlex.split(line, comments=True)[1:]
    return words[: words.index(">")] if ">" in words else words


def parse_only(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(command: OptionsCommand, context: object) -> None:
        raise Parsed

    with monkeypatch.context() as patched:
        patched.setattr(OptionsCommand, "given", stop)
        with pytest.raises(Parsed):
            main(words)


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)])
def test_the_commands_of_a_page_are_understood_or_refused_as_it_says(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "settings.json").write_text('{"epochs": 3}', encoding="utf-8")
    for line, printed in commands(page):
        words = words_of(line)
        if printed.startswith("eigenview: ") and not printed.endswith("…"):  # what is cut needs files that are not here
            assert main(words) == 2
            assert capsys.readouterr().err == printed + "\n"
        else:
            parse_only(words, monkeypatch)


@pytest.mark.parametrize("verb", VERBS)
def test_the_examples_in_a_verbs_help_are_understood(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "settings.json").write_text('{"epochs": 3}', encoding="utf-8")
    text = import_module(f"eigenview.cli.{VERBS[verb].module}").__doc__ or ""
    examples = [line.strip() for line in text.splitlines() if line.strip().startswith("eigenview ")]
    assert examples
    for line in examples:
        parse_only(words_of(line), monkeypatch)


def test_the_page_of_reliability_names_tests_that_exist():
    root = Path(__file__).parent
    page = (root.parent / "docs" / "reliability.md").read_text(encoding="utf-8")
    tests = "".join(file.read_text(encoding="utf-8") for file in root.rglob("test_*.py"))
    named = re.findall(r"`(test_\w+)`", page)
    assert len(named) > 20
    assert [name for name in named if f"def {name}(" not in tests] == []
    assert [name for name in re.findall(r"`(tests/[\w/]+\.py)`", page) if not (root.parent / name).is_file()] == []
    items = re.findall(r"^(\d+)\. .*?(?=^\d+\. |^That )", page, flags=re.MULTILINE | re.DOTALL)
    assert items == [str(number) for number in range(1, 22)]
