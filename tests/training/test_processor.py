"""A processor that cannot do the half precision it advertises: tried elsewhere, told in a line, and gone around."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from eigenview.errors import SettingError
from eigenview.training import processor
from eigenview.training.processor import LOWER, LowerInstructionsNeeded, check_half_precision
from tests.cli.commands import COMMAND, ENVIRONMENT, eigenview, succeeded
from tests.training.runs import run_quietly, settings

DIES = "import os, signal; os.kill(os.getpid(), signal.SIGILL)"
DIES_UNLESS_LOWER = f"import os\nif os.environ.get('ONEDNN_MAX_CPU_ISA') != 'AVX512_CORE_BF16': exec({DIES!r})"
TRAIN = (
    "train shapes?count=96&size=24 --precision bf16 --steps 2 --encoder small --workers 0 --out run --no-look".split()
)
SITE = """
import sys
if "-c" in sys.orig_argv and "autocast" in sys.orig_argv[-2]:  # the try, not the command
    exec({code!r})
    import os
    os._exit(0)
"""


@pytest.fixture(autouse=True)
def _fresh(monkeypatch):
    """Nothing known yet, and no lower set of instructions."""
    processor._ends.cache_clear()
    for name in LOWER:
        monkeypatch.delenv(name, raising=False)
    yield
    processor._ends.cache_clear()


@pytest.mark.parametrize("precision", ["bf16", "16"])
def test_a_processor_that_dies_of_it_is_not_asked(precision, tmp_path, monkeypatch):
    monkeypatch.setattr(processor, "TRY", DIES)
    message = rf"precision {precision} does not work on this processor \(a tiny layer ended with SIGILL\): take "
    with pytest.raises(SettingError, match=message) as caught:
        run_quietly(settings("simclr", tmp_path / "run", precision=precision))
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()
    run_quietly(settings("simclr", tmp_path / "run", precision="32", steps=1))


def test_python_is_told_how_to_start(monkeypatch):
    monkeypatch.setattr(processor, "TRY", DIES_UNLESS_LOWER)
    with pytest.raises(LowerInstructionsNeeded, match="unless Python is started with ONEDNN_MAX_CPU_ISA=AVX512_CORE_B"):
        check_half_precision("bf16", "cpu")
    processor._ends.cache_clear()
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")
    check_half_precision("bf16", "cpu")


def test_each_precision_is_tried_once(monkeypatch, tmp_path):
    monkeypatch.setattr(processor, "TRY", f"open({str(tmp_path / 'tried')!r}, 'a').write('x')")
    for precision in ("bf16", "bf16", "16", "32"):
        check_half_precision(precision, "cpu")
    check_half_precision("bf16", "cuda")
    assert (tmp_path / "tried").read_text() == "xx"


@pytest.mark.usefixtures("half_precision")
@pytest.mark.parametrize("precision", ["bf16", "16"])
def test_the_try_itself_works_where_half_precision_does(precision, monkeypatch):
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")
    check_half_precision(precision, "cpu")


def dying(folder, code):
    """An environment in which the try runs ``code`` instead."""
    (folder / "sitecustomize.py").write_text(SITE.format(code=code))
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {"PYTHONPATH": path, "ONEDNN_MAX_CPU_ISA": "DEFAULT"}


@pytest.mark.usefixtures("half_precision")
def test_the_command_starts_again(tmp_path):
    variables = {**ENVIRONMENT, **dying(tmp_path, DIES_UNLESS_LOWER)}
    answer = subprocess.run(
        [*COMMAND, *TRAIN], cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=300, check=False
    )
    shown = succeeded(answer)
    assert shown.count("starting again") == 1
    assert shown.count("chosen for these images") == 1
    assert (tmp_path / "run" / "checkpoints" / "last").is_dir()


def test_the_command_says_in_a_line_what_cannot_be_mended(tmp_path):
    answer = eigenview(*TRAIN, folder=tmp_path, **dying(tmp_path, DIES))
    assert answer.returncode == 2
    expected = (
        "eigenview: precision bf16 does not work on this processor (a tiny layer ended with SIGILL): take precision"
    )
    assert answer.stderr.splitlines() == [f"{expected} 32"]


def on_a_dying_processor(*words, half_precision):
    """What Python says there; the processor can do half precision with the "lower" instructions, or not at all."""
    place = Path(__file__).parent / "dying_processor"
    path = os.pathsep.join([str(place), *filter(None, [os.environ.get("PYTHONPATH")])])
    variables = {**os.environ, "PYTHONPATH": path, "HALF_PRECISION": half_precision}
    root = Path(__file__).parents[2]
    return subprocess.run(
        [sys.executable, *words], cwd=root, env=variables, capture_output=True, text=True, timeout=1500, check=False
    )


@pytest.mark.parametrize(("half_precision", "code"), [("lower", 0), ("none", -signal.SIGILL)])
def test_the_dying_processor_dies_of_nothing_else(half_precision, code, monkeypatch):
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")
    assert on_a_dying_processor("-c", processor.TRY, "bfloat16", half_precision=half_precision).returncode == code
    assert on_a_dying_processor("-c", processor.TRY, "float32", half_precision=half_precision).returncode == 0


@pytest.mark.slow
@pytest.mark.parametrize(("half_precision", "some_are_skipped"), [("lower", False), ("none", True)])
def test_the_tests_pass_on_a_processor_that_dies_of_half_precision(half_precision, some_are_skipped):
    folders = [
        "training/test_half_precision.py",
        "training/test_watched_runs.py",
        "training/test_processor.py",
        "losses",
    ]
    words = ["-m", "pytest", "-n", "0", "-rs", "-k", "precision or autocast or half or processor or command"]
    answer = on_a_dying_processor(
        *words,
        *(f"tests/{name}" for name in [*folders, "graph", "nn/test_batch_norm.py"]),
        half_precision=half_precision,
    )
    assert answer.returncode == 0, answer.stdout[-3000:]
    assert ("does not work on this processor" in answer.stdout) == some_are_skipped


@pytest.mark.slow
def test_the_demo_passes_on_a_processor_that_dies_of_half_precision(tmp_path):
    answer = on_a_dying_processor(
        "examples/demo.py", "--out", str(tmp_path / "demo"), "--epochs", "1", half_precision="none"
    )
    assert answer.returncode == 0, answer.stderr[-3000:]
    assert (tmp_path / "demo" / "report.html").is_file()
