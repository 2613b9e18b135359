"""Who may import whom. The house of the design, held by parsing every import in src."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import eigenview

SOURCE = Path(eigenview.__file__).parent

LAYERS = [  # a room may import from any layer above it in this list
    {"errors"},
    {"names"},
    {"files", "progress", "extras", "distributed", "settings", "devices"},
    {"tensors", "appending"},
    {"graph"},
    {"losses", "diagnostics"},
    {"nn", "views", "data", "optim"},
    {"batches", "methods", "runs"},
    {"evaluation"},
    {"training"},
    {"search"},
    {"labels"},
    {"sweeps"},
    {"lab", "export", "report", "app"},
    {"recipes"},
    {"faces", "cli"},
]
FORBIDDEN = {"methods": {"data"}, "evaluation": {"methods"}}  # beyond the layers
RUN_FILES = {  # config.json is also a library's, tokenizer.json also an export's
    *("encoder.json", "data.json", "environment.json", "method.json", "metrics.jsonl", "diagnosis.json"),
    *("unreadable.jsonl", "projections.parquet", "embeddings.parquet", "embeddings.npy", "objective.log_scale"),
}
# words of other meanings too: told by the path's /
RUN_FOLDERS = {
    "checkpoints",
    "evaluation",
    "sample",
    "features",
    "export",
}  # words of other meanings too: told by the path's /
ALLOWED_BESIDE = {"runs": {"batches", "methods"}, "app": {"report"}}  # within a layer, only these


def room_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported_rooms(path: Path) -> set[str]:
    package = ["eigenview", *path.relative_to(SOURCE).parts[:-1]]
    rooms = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*start, *([node.module] if node.module else [])])
            names = [f"{base}.{alias.name}" for alias in node.names] if base == "eigenview" else [base]
        else:
            continue
        rooms |= {name.split(".")[1] for name in names if name.startswith("eigenview.")}
    return rooms


def allowed_rooms(room: str) -> set[str]:
    level = next(index for index, layer in enumerate(LAYERS) if room in layer)
    above = set().union(*LAYERS[:level]) if level else set()
    return (above | {room} | ALLOWED_BESIDE.get(room, set())) - FORBIDDEN.get(room, set())


def test_every_room_is_in_the_plan():
    rooms = {room_of(path) for path in SOURCE.rglob("*.py")} - {"__init__", "__main__"}
    assert rooms <= set().union(*LAYERS)


def test_imports_only_point_down_the_house():
    wrong = [
        f"{path.relative_to(SOURCE)} imports {room}"
        for path in sorted(SOURCE.rglob("*.py"))
        if room_of(path) not in {"__init__", "__main__"}
        for room in sorted(imported_rooms(path) - allowed_rooms(room_of(path)))
        if room not in {"__init__", "__version__"}
    ]
    assert wrong == []


def test_the_files_of_a_run_are_named_by_their_owner_alone():
    wrong = [
        f"{path.relative_to(SOURCE)}:{node.lineno} names {ast.unparse(node)}"
        for path in sorted(SOURCE.rglob("*.py"))
        if room_of(path) not in {"runs", "methods"}
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if is_among(node, RUN_FILES)
        or (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and is_among(node.right, RUN_FOLDERS))
    ]
    assert wrong == []


def is_among(node: ast.AST, words: set[str]) -> bool:
    return isinstance(node, ast.Constant) and node.value in words


def test_the_plan_in_contributing_is_this_one():
    page = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    told = re.sub(r"\([^)]*\)", "", page.split("(held by `tests/test_layers.py`): ")[1].split("\n\n")[0])
    assert [set(re.findall(r"`(\w+)`", layer)) for layer in told.split("←")] == LAYERS
