"""Damaged files and killed runs, by the thousand: nothing silent, no traceback, nothing lost.

    python benchmarks/reliability.py --files 10000 --kills 100 [--out FOLDER] [--seed 0]

Every file that Eigenview reads is damaged in many ways and opened by the public way, in child processes with a limit
of memory and time. Training, evaluating and embedding are killed at random moments and before random changes to the
disk, begun again, and held against what nobody disturbed. What was done is kept in FOLDER (a fresh one unless given),
with the table at the end: the same command goes on from there, unless the source has changed. Ends with code 1 if
anything is silent, crashes or is lost.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import shutil
import sys
import tempfile
from collections import Counter, defaultdict
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the ways to damage files are shared with the tests
os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from rich.console import Console
from rich.table import Table

from benchmarks.bars import Bar, finish
from benchmarks.children import Case, Ended, endings
from benchmarks.reliability_damage import spoilt
from benchmarks.reliability_kills import killed_commands
from benchmarks.reliability_kinds import Kind, bombs_in, build_house, kinds_of, quiet, warm
from eigenview.progress import progress_bar

ROOT = Path(__file__).resolve().parents[1]
SAME, READ, REFUSED, SILENT = "as before", "read", "refused", "silent"
COLUMNS = (SAME, READ, REFUSED, SILENT, "traceback", "crash", "memory", "timeout")
BAD = COLUMNS[3:]


def main() -> int:
    given = _arguments()
    os.nice(max(0, 10 - os.nice(0)))
    torch.set_num_threads(1)
    folder = given.out or Path(tempfile.mkdtemp(prefix="reliability-"))
    folder.mkdir(parents=True, exist_ok=True)
    _begin_anew_if_changed(folder, given.seed)
    print(f"kept in {folder}", flush=True)
    files = _files(folder, given.files, given.seed, given.jobs) if given.files else []
    kills = _kills(folder, given.kills, given.seed) if given.kills else []
    counts = _table(files)
    bars = _bars(files, kills, counts)
    examples = [row for row in files if row["outcome"] in BAD][:20] + [row for row in kills if row["lost"]][:20]
    for row in examples:
        print(json.dumps(row, ensure_ascii=True)[:1500])
    finish(bars, {"seed": given.seed, "files": counts, "kills": _killed(kills)}, folder / "table.json")
    return 0 if all(bar.holds for bar in bars) else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--files", type=int, default=10_000, help="damaged files")
    parser.add_argument("--kills", type=int, default=100, help="commands that are killed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="files at once")
    parser.add_argument("--out", type=Path, help="where it works, goes on from, and leaves table.json")
    return parser.parse_args()


def _begin_anew_if_changed(folder: Path, seed: int) -> None:
    """Results of another source or seed say nothing about this one."""
    made = hashlib.sha256(str(seed).encode())
    for place in ("src/eigenview", "benchmarks", "tests/data", "tests/runs"):
        for file in sorted((ROOT / place).rglob("*.py")):
            made.update(file.read_bytes())
    mark = folder / "source"
    if mark.exists() and mark.read_text() == made.hexdigest():
        return
    for name in ("files.jsonl", "kills.jsonl"):
        (folder / name).unlink(missing_ok=True)
    shutil.rmtree(folder / "house", ignore_errors=True)
    mark.write_text(made.hexdigest())


def _rows(file: Path) -> list[dict]:
    """What was done already; the last line may be half a line."""
    lines = file.read_text().splitlines() if file.exists() else []
    rows = []
    for line in lines:
        try:
            rows.append(json.loads(line))
        except ValueError:
            break
    return rows


def _files(folder: Path, count: int, seed: int, jobs: int) -> list[dict]:
    house, log = folder / "house", folder / "files.jsonl"
    if not (house / "ready").exists():
        shutil.rmtree(house, ignore_errors=True)
        house.mkdir()
        build_house(house)
        (house / "ready").touch()
    warm(house)
    expected = {kind: _undamaged(kind, house, folder) for kind in kinds_of(house)}
    unread = [kind.name for kind, text in expected.items() if text is None]
    print(f"not read, and left out: {', '.join(unread) or 'none'}")
    kinds = [kind for kind, text in expected.items() if text is not None for _ in range(kind.share)]
    random.Random(seed).shuffle(kinds)
    rows = [row for row in _rows(log) if row["number"] < count]
    done = {row["number"] for row in rows}
    cases = [_case(number, kinds, house, folder, seed) for number in range(count) if number not in done]
    cases = [*(() if done else _bombs(folder)), *cases]
    by_name = {kind.name: kind for kind in expected}
    with log.open("a") as kept, progress_bar("damaged files", total=len(cases)) as advance:
        for ended in endings(cases, at_once=jobs):
            rows.append(_row(ended, by_name.get(ended.kind), expected))
            kept.write(json.dumps(rows[-1]) + "\n")
            kept.flush()
            advance(1)
    shutil.rmtree(folder / "bombs", ignore_errors=True)
    return rows


def _row(ended: Ended, kind: Kind | None, expected: dict[Kind, str | None]) -> dict:
    """Of a sealed file only the content from before may be read; of another one what is read cannot be judged."""
    outcome: str = ended.ending
    if outcome == "fine":
        is_sealed = kind is not None and kind.is_sealed
        outcome = READ if not is_sealed else SAME if ended.text == expected[kind] else SILENT
    return {**asdict(ended), "outcome": outcome}


def _undamaged(kind: Kind, house: Path, folder: Path) -> str | None:
    """What the files in good order give; None for a format that is not read at all."""
    place = _copied(kind, house, folder / "good")
    (ended,) = endings([Case(0, kind.name, lambda: _opened(kind, place, kind.files[0]))], at_once=1)
    assert ended.ending in ("fine", "refused"), ended
    return ended.text if ended.ending == "fine" else None


def _copied(kind: Kind, house: Path, place: Path) -> Path:
    """The files themselves under other names: whoever writes to one of them puts another in its place."""
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(house / kind.unit, place, copy_function=os.link)
    return place


def _case(number: int, kinds: list[Kind], house: Path, folder: Path, seed: int) -> Case:
    kind = kinds[number % len(kinds)]

    def work() -> str:
        chance = random.Random(f"{seed} {number}")
        place = _copied(kind, house, folder / f"case-{number}")
        file = chance.choice(kind.files)
        others = [(place / other).read_bytes() for other in chance.sample(kind.files, min(3, len(kind.files)))]
        data = spoilt((place / file).read_bytes(), file, chance, [*others, chance.randbytes(4096)])
        (place / file).unlink()
        if data is not None:
            (place / file).write_bytes(data)
        return _opened(kind, place, file)

    return Case(number, kind.name, work)


def _opened(kind: Kind, place: Path, file: str) -> str:
    try:
        with quiet():
            return kind.opens(place, file)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _bombs(folder: Path) -> list[Case]:
    shutil.rmtree(folder / "bombs", ignore_errors=True)
    return [Case(-1 - number, "small files that grow", work) for number, work in enumerate(bombs_in(folder / "bombs"))]


def _kills(folder: Path, count: int, seed: int) -> list[dict]:
    log = folder / "kills.jsonl"
    rows = [row for row in _rows(log) if row["number"] < count]
    done = {row["number"] for row in rows}
    with log.open("a") as kept, progress_bar("killed commands", total=count - len(done)) as advance:
        for killed in killed_commands(folder, count, seed, done):
            rows.append(asdict(killed))
            kept.write(json.dumps(rows[-1]) + "\n")
            kept.flush()
            advance(1)
    return rows


def _killed(rows: list[dict]) -> dict[str, dict[str, int]]:
    """For each command: how often it was tried and killed, and how often something was lost."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for row in rows:
        made = sum(not how.startswith("not at all") for how in row["kills"])
        for name in (row["kind"], "all"):
            counts[name].update(commands=1, kills=made, lost=int(bool(row["lost"])))
    return {name: dict(counted) for name, counted in counts.items()}


def _table(rows: list[dict]) -> dict[str, dict[str, int]]:
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for row in rows:
        counts[row["kind"]][row["outcome"]] += 1
        counts["all"][row["outcome"]] += 1
    shown = Table("files", "damaged", *COLUMNS)
    for kind in [*sorted(set(counts) - {"all"}), "all"]:
        numbers = [counts[kind][column] for column in COLUMNS]
        shown.add_row(kind, str(sum(numbers)), *(str(number) if number else "" for number in numbers))
    Console(width=140).print(shown)
    return {kind: dict(counted) for kind, counted in counts.items()}


def _bars(files: list[dict], kills: list[dict], counts: dict[str, dict[str, int]]) -> list[Bar]:
    bars = []
    if files:
        bars.append(Bar("damaged_files", len(files), 10_000, at_most=False))
        bars += [Bar(f"files_{outcome}", counts["all"].get(outcome, 0), 0, at_most=True) for outcome in BAD]
    if kills:
        counted = _killed(kills)
        for name, numbers in counted.items():
            print(f"{name}: {numbers['commands']} commands, {numbers['kills']} kills, {numbers['lost']} lost something")
        bars.append(Bar("kills", counted["all"]["kills"], 100, at_most=False))
        bars.append(Bar("commands_that_lost_something", counted["all"]["lost"], 0, at_most=True))
    return bars


if __name__ == "__main__":
    sys.exit(main())
