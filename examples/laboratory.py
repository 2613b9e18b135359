"""The spectral laboratory: run an experiment, see what it found, keep its figures and their data.

Run: python examples/laboratory.py                              (lists the experiments)
     python examples/laboratory.py bipartite --out lab [--quick] [--seed 0] [--data FOLDER]
"""

import argparse
import json
from pathlib import Path

from eigenview.lab import EXPERIMENTS, LabSettings, run_experiment

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("name", nargs="?", choices=[*EXPERIMENTS, "all"])
parser.add_argument("--out", type=Path, default=Path("laboratory"))
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--quick", action="store_true", help="seconds instead of minutes")
parser.add_argument("--data", type=Path, help="folder of the named data sets, for experiments on real images")
given = parser.parse_args()

if given.name is None:
    for entry in EXPERIMENTS.values():
        print(f"{entry.name:20s} {entry.title}\n{'':20s} {entry.claim}")
for name in EXPERIMENTS if given.name == "all" else [given.name] if given.name else []:
    files = run_experiment(name, given.out, settings=LabSettings(given.seed, given.quick, given.data))
    print(f"{EXPERIMENTS[name].title}: {EXPERIMENTS[name].claim}")
    for line in json.loads(files[0].read_text(encoding="utf-8"))["findings"]:
        print(f"  - {line}")
    print("  " + " ".join(str(file) for file in files))
