"""The examples run, as a user would run them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"


def test_your_own_loop_trains_and_reports():
    script = EXAMPLES / "your_own_loop.py"
    assert len(script.read_text().splitlines()) < 60
    answer = subprocess.run(
        [sys.executable, "-W", "error", str(script), "--quick"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    lines = answer.stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["epoch", "epoch", "1-NN,", "1-NN,"]
    first, last = (float(line.split()[3]) for line in lines[:2])
    assert last < first  # it learns


def test_the_demo_walks_the_whole_way(tmp_path):
    command = [sys.executable, str(EXAMPLES / "demo.py"), "--out", str(tmp_path / "demo"), "--epochs", "1"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    assert "Warning" not in answer.stderr
    for words in (
        "1. Learn",
        "2. Evaluate",
        "raw pixels",
        "Eigenview",
        "3. Diagnose",
        "verdict: ",
        "4. Label ten",
        "ten chosen: ",
        "5. Report",
    ):
        assert words in answer.stdout
    assert (tmp_path / "demo" / "report.html").is_file()


def test_every_benchmark_knows_the_names_of_today():
    names = sorted(file.stem for file in (ROOT / "benchmarks").glob("*.py"))
    assert len(names) > 10
    code = f"import sys; sys.path.insert(0, {str(ROOT / 'benchmarks')!r}); import {', '.join(names)}"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
