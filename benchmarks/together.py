"""Every benchmark with a bar, one after the other, and one table of all bars at the end: what `make bench` runs.

    .venv-peers/bin/python benchmarks/together.py                  # what needs no data
    .venv-peers/bin/python benchmarks/together.py --data data      # the races and `embed`, too (about four hours more)
    .venv-peers/bin/python benchmarks/together.py --only losses graph

A benchmark that fails is named at the end and the others still run.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
WITHOUT_DATA = {
    name: (name,)
    for name in (
        "losses",
        "views",
        "evaluation",
        "training",
        "step",
        "micro_batch",
        "graph",
        "busy",
        "scaling",
        "export_peers",
    )
}
LARGE = ("--contenders", "eigenview", "lightly-small", "lightly-resnet18")
NOT_BELOW = ("--seeds", "3", "--rows", "all", "none of them")  # on sets that chose nothing
WITH_DATA = {  # a name, and the script with its options
    "embedding": ("embedding",),
    "race": ("race",),
    "race-2": ("race", "--minutes", "2", "--seeds", "1", *LARGE),
    "race-30": ("race", "--minutes", "30", "--seeds", "1", *LARGE),
    "race_choices": ("race_choices",),
    "race_choices-stl10": ("race_choices", "--set", "stl10", "--minutes", "3", *NOT_BELOW),
    "race_choices-digits": ("race_choices", "--set", "digits", "--minutes", "1", *NOT_BELOW),
}


def bar_lines(name: str, data: Path | None) -> list[str]:
    """Run one benchmark, its output shown as it comes; return its lines that begin with "bar"."""
    script, *options = {**WITHOUT_DATA, **WITH_DATA}[name]
    command = [sys.executable, str(HERE / f"{script}.py"), *options]
    command += ["--data", str(data)] if name in WITH_DATA else []
    print(f"[bench] {name}", flush=True)
    lines = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout or ():
            print(line, end="", flush=True)
            lines += [line.strip()] if line.startswith("bar ") else []
    return lines if process.returncode == 0 else [*lines, f"bar {name} failed with exit code {process.returncode}"]


def row(benchmark: str, line: str) -> str:
    _, name, value, target, verdict = line.split(" ", 4)
    return f"| {benchmark} | {name} | {value} | {target} | {verdict} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="a folder that holds cifar10/, stl10_64/ and photos/")
    parser.add_argument("--only", nargs="+", choices=(*WITHOUT_DATA, *WITH_DATA))
    options = parser.parse_args()
    names = options.only or (*WITHOUT_DATA, *(WITH_DATA if options.data else ()))
    if options.data is None and set(names) & set(WITH_DATA):
        parser.error(f"{', '.join(WITH_DATA)} need --data")
    bars = {name: bar_lines(name, options.data) for name in names}
    failed = [name for name, lines in bars.items() if any(" failed with " in line for line in lines)]
    print("\n| benchmark | bar | measured | target | |\n|---|---|---|---|---|")
    print("\n".join(row(name, line) for name, lines in bars.items() if name not in failed for line in lines), "\n")
    print("\n".join(line for lines in bars.values() for line in lines))
    sys.exit(f"failed: {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main()
