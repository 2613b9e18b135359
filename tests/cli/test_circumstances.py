"""Ctrl-C, a closed pipe, no terminal, a terminal without colours, places that cannot be written, a single image."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from PIL import Image

from eigenview.cli import main
from eigenview.cli.output import Output
from eigenview.errors import SettingError
from eigenview.names import own_code
from tests.cli.commands import COMMAND, ENVIRONMENT, PHOTOS, RUN, eigenview

LISTENING = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have told its background jobs to ignore it
from eigenview.cli import main
sys.exit(main())
"""


def test_ctrl_c_keeps_a_checkpoint_and_says_how_to_go_on(shop: Path):
    words = [
        "train",
        PHOTOS,
        "--minutes",
        "5",
        "--precision",
        "32",
        "--out",
        "stopped",
        "--encoder.width",
        "0.25",
        "--log-every",
        "1",
    ]
    process = subprocess.Popen(
        [sys.executable, "-c", LISTENING, *words, "--workers", "0"],
        cwd=shop,
        env=ENVIRONMENT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 120
    while not (shop / "stopped" / "checkpoints" / "last").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in said
    assert "Go on with: eigenview train --resume --out stopped" in said
    assert (shop / "stopped" / "checkpoints" / "last" / "weights.safetensors").exists()


def test_ctrl_c_before_the_first_step_promises_no_checkpoint(shop: Path, monkeypatch, capsys):
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.chdir(shop)
    monkeypatch.setattr("eigenview.cli.train.train", interrupted)
    assert main(["train", PHOTOS, "--steps", "1", "--out", "never"]) == 130
    said = capsys.readouterr().err
    assert "stopped before the first step: nothing was trained" in said
    assert "Go on with" not in said


def test_ctrl_c_in_evaluate_says_what_it_leaves(shop: Path, trained: subprocess.CompletedProcess[str]):
    process = subprocess.Popen(
        [sys.executable, "-c", LISTENING, "evaluate", RUN, f"{PHOTOS}?labelled=yes", "--protocol", "few-label"],
        cwd=shop,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    while "one source: " not in process.stdout.readline():  # it has begun
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert said.endswith("eigenview: evaluate was stopped; the scores that were printed are kept in RUN/evaluation\n")


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have another OpenMP, which spins less")
@pytest.mark.parametrize(("asked", "turns"), [({}, "0"), ({"GOMP_SPINCOUNT": "700"}, "700")])
def test_threads_that_wait_for_each_other_sleep_unless_told_otherwise(shop: Path, asked: dict[str, str], turns: str):
    command = [*COMMAND, "evaluate", "nowhere", "nothing", "--protocol", "none"]  # torch is there when it is refused
    environment = {**ENVIRONMENT, "OMP_DISPLAY_ENV": "verbose", **asked}
    answer = subprocess.run(command, cwd=shop, env=environment, capture_output=True, text=True, check=False)
    assert f"GOMP_SPINCOUNT = '{turns}'" in answer.stderr  # said by OpenMP itself, as torch loads it


def test_a_stop_that_no_verb_explains_is_explained(monkeypatch, capsys):
    def stopped(options: object, output: Output) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("eigenview.cli.lab_list.run", stopped)
    assert main(["lab"]) == 130
    assert capsys.readouterr().err == "eigenview: lab list was stopped; nothing was changed\n"


def test_letters_that_the_terminal_lacks_are_spelt(shop: Path):
    answer = eigenview("data", "check", PHOTOS, folder=shop, PYTHONIOENCODING="ascii")
    assert answer.returncode == 0, answer.stderr
    assert "my photos \\u2013 M\\xf6we" in answer.stdout


def test_escape_codes_of_a_foreign_table_do_not_reach_the_terminal(
    tmp_path: Path, shop: Path, trained: subprocess.CompletedProcess[str], monkeypatch, capsys
):
    pytest.importorskip("pyarrow")
    monkeypatch.chdir(tmp_path)
    rows = ["path,label"]
    for number, label in enumerate(("\x1b[31mred", "\x9b2Jblue")):
        Image.new("RGB", (32, 32), (number, 0, 0)).save(tmp_path / f"{number}.png")
        rows.append(f"{number}.png,{label}")
    (tmp_path / "table.csv").write_text("\n".join(rows), encoding="utf-8")
    assert main(["embed", str(shop / RUN), "table.csv", "-o", "table.parquet"]) == 0
    capsys.readouterr()
    assert main(["neighbours", "table.parquet", "1", "-k", "1", "-o", "alike.png"]) == 0
    said = capsys.readouterr().out
    assert "(\\x1b[31mred)" in said
    assert all(letter.isprintable() or letter == "\n" for letter in said)


def test_json_is_clean_and_loses_nothing(capsys):
    names = ["\x1b[31mred", "\x9b2Jblue", "Möwe", "half \ud800", "\U0001f600", "\u202eback"]
    Output(as_json=True).result(names)
    said = capsys.readouterr().out
    assert all(letter.isprintable() or letter == "\n" for letter in said)
    assert "Möwe" in said
    assert json.loads(said) == names


def test_tables_and_errors_are_clean_too(capsys):
    Output().table(["\x1b[1mname"], [["[red]\x1b[31mone\ntwo"], ["half a letter: \ud800"]], title="\x07")
    said = capsys.readouterr().out
    assert "[red]\\x1b[31mone" in said
    assert all(letter.isprintable() or letter == "\n" for letter in said)
    assert main(["data", "check", "no\x1b[31mwhere"]) == 2
    assert "\x1b" not in capsys.readouterr().err


def test_code_of_ones_own_runs_only_where_the_command_names_it(monkeypatch):
    seen = []

    def look(options: object, output: Output) -> None:
        for name in ("json:dumps", "json:loads", "textwrap:dedent"):
            try:
                seen.append(own_code(name, kind="method"))
            except SettingError:
                seen.append(None)

    monkeypatch.setattr("eigenview.cli.lab_list.read", lambda *_, **__: None, raising=False)
    monkeypatch.setattr("eigenview.cli.lab_list.run", look)
    assert main(["lab", "list", "json:dumps", "--method=json:loads"]) == 0
    assert seen == [json.dumps, json.loads, None]
    assert main(["lab", "list"]) == 0
    assert seen[3:] == [None, None, None]


def test_a_closed_pipe_is_quiet(shop: Path):
    process = subprocess.Popen(
        [*COMMAND, "lab", "list"], cwd=shop, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    process.stdout.close()  # as head does when it has seen enough
    assert process.stderr is not None
    with process.stderr as said:
        assert said.read() == b""
    assert process.wait(60) == 141


def test_a_terminal_without_colours_gets_none(shop: Path):
    ours, theirs = pty.openpty()
    environment = {**ENVIRONMENT, "NO_COLOR": "1", "TERM": "xterm-256color"}
    process = subprocess.Popen(
        [*COMMAND, "data", "check", "--help"], cwd=shop, env=environment, stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    said = b""
    while True:
        try:
            chunk = os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
        if not chunk:
            break
        said += chunk
    assert process.wait(60) == 0
    assert b"eigenview data check photos/" in said
    assert b"\x1b[" not in said


def test_places_that_cannot_be_written_are_named_in_one_line(shop: Path, monkeypatch, capsys):
    monkeypatch.chdir(shop)
    assert main(["views", "show", PHOTOS, "-o", "/proc/nowhere/views.png"]) == 2
    assert main(["train", PHOTOS, "--steps", "1", "--out", "/proc/nowhere/run", "--workers", "0"]) == 2
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 2
    assert all("/proc/nowhere" in line for line in said)


def test_a_folder_with_one_image_gets_advice(tmp_path: Path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "one").mkdir()
    Image.new("RGB", (32, 32)).save(tmp_path / "one" / "only.png")
    assert main(["data", "check", "one"]) == 0
    assert "add pictures, hundreds at least" in capsys.readouterr().out
    assert main(["train", "one", "--epochs", "1", "--out", "run"]) == 2
    said = capsys.readouterr().err
    assert "needs at least 8" in said
    assert said.count("\n") == 1
    assert main(["evaluate", "run", "one"]) == 2
    assert "run is no run directory" in capsys.readouterr().err


@pytest.mark.parametrize("content", [b"", b"\x93NUMPY", b"no numbers"])
def test_a_damaged_file_of_embeddings_is_one_line(content, tmp_path, capsys):
    (tmp_path / "x.npy").write_bytes(content)
    assert main(["diagnose", str(tmp_path / "x.npy")]) == 2
    assert "is not a readable .npy or .npz file" in (said := capsys.readouterr().err) or "never loaded" in said
    assert said.count("\n") == 1
