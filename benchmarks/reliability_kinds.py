"""Every kind of file that Eigenview reads, made once in good order, and the public way to open each."""

from __future__ import annotations

import contextlib
import hashlib
import io
import shutil
import warnings
import zlib
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from safetensors.torch import save_file

from eigenview.data import open_images
from eigenview.diagnostics import diagnose
from eigenview.errors import DataError
from eigenview.evaluation import Measuring, evaluate_run, extract, open_task
from eigenview.evaluation.subjects import read_folds
from eigenview.export import export, load_exported
from eigenview.export.towers import export_towers
from eigenview.nn import build_encoder, read_weights
from eigenview.report import write_report
from eigenview.runs import RunDirectory, open_run, read_config
from eigenview.search import Embeddings, embed, neighbours, open_embeddings, parts
from eigenview.search.neighbour_search import text_neighbours
from eigenview.search.parts import Parts
from eigenview.training import train
from eigenview.views import CentreView
from tests.data.bombs import write_bombs
from tests.data.damage import read_everything, texts_with, write_good_files

TEXTS, ROOT = "texts", "@"  # what opens the data, and what stands there for its folder
SOURCE = "shapes?count=96&size=24"
WORDS = {
    "source": f"{SOURCE}&captioned=yes",
    "method": "clip",
    "method_settings": {"head_output": 16, "text": {"width": 16, "depth": 1}},
}
FIXED = torch.linspace(-1, 1, 2 * 3 * 24 * 24).view(2, 3, 24, 24)


@dataclass(frozen=True)
class Kind:
    """Files of the folder ``unit`` that are damaged, and how the folder is then opened.

    ``is_sealed``: what is read must equal what was written, or be refused.
    """

    name: str
    unit: str  # a folder of the house, copied for each case
    files: tuple[str, ...]  # within it
    opens: Callable[[Path, str], str]  # the folder, and the file that was damaged
    is_sealed: bool = False
    share: int = 1  # of the cases


def build_house(house: Path) -> None:
    """Everything in good order, in ``house``: data of every kind, a run, its caches and exports."""
    texts = write_good_files(house / "data")
    (house / "data" / TEXTS).write_text("\n".join(text.replace(str(house / "data"), ROOT) for text in texts))
    run = house / "run" / "run"
    settings = {
        "source": SOURCE,
        "out": str(run),
        "encoder": {"name": "small", "width": 0.25},
        "batch_size": 32,
        "epochs": 2,
        "log_every": 1,
        "workers": 0,
    }
    with quiet():
        train(read_config(settings), looks_back=True)
        opened = open_run(run)
        list(evaluate_run(opened, [open_task(SOURCE)], protocols=["knn"], measuring=Measuring(workers=0)))
        (house / "search").mkdir()
        for name in ("vectors.parquet", "vectors.npy"):
            embed(run, SOURCE, house / "search" / name)
        (house / "vectors").mkdir()
        _write_foreign_vectors(house / "vectors", open_embeddings(house / "search" / "vectors.npy"))
        words = house / "words" / "run"
        train(read_config({**settings, **WORDS, "out": str(words)}), looks_back=False)
        embed(words, SOURCE, words / "projections.parquet", layer="projection")
        export_towers(open_run(words), "safetensors", house / "towers")
        searched(house / "search")  # builds the index
        _write_parts(house / "parts", run)
        (house / "export").mkdir()
        export(run, "safetensors", house / "export" / "encoder.safetensors")
        weights = read_weights(house / "export" / "encoder.safetensors")
        (house / "weights").mkdir()
        torch.save({"state_dict": weights}, house / "weights" / "foreign.pth")
        save_file(weights, house / "weights" / "foreign.safetensors")
        (house / "folds").mkdir()
        pq.write_table(pa.table({"folds": [[0, 1], [], None, [1], [0]]}), house / "folds" / "folds.parquet")
        (house / "cache").mkdir()
        cached(house / "cache")


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Without warnings, and without a word."""
    nowhere = io.StringIO()
    with warnings.catch_warnings(), contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
        warnings.simplefilter("ignore")
        yield


def warm(house: Path) -> None:
    """Import now what readers import when they need it, so that no child has to."""
    with quiet():
        write_report([house / "run" / "run"], house / "report.html")


def kinds_of(house: Path) -> list[Kind]:
    """The kinds, with the files that are there."""
    within = {
        unit: _files(house / unit)
        for unit in (
            *("data", "run", "search", "parts", "export", "weights", "folds", "cache"),
            *("vectors", "words", "towers"),
        )
    }
    run = within["run"]
    checkpoint = [file for file in run if "/checkpoints/last/" in file]
    sample = [file for file in run if "/sample/" in file]
    plain = [file for file in run if "/checkpoints/" not in file and file not in sample and not file.endswith(".lock")]
    groups: dict[str, list[str]] = {}
    for file in sorted(set(within["data"]) - {TEXTS}):
        groups.setdefault(_group(file), []).append(file)
    return [
        *(Kind(name, "data", tuple(files), data_read, share=_share(name)) for name, files in sorted(groups.items())),
        *(Kind(f"run: {Path(file).name}", "run", (file,), run_read, share=2) for file in _one_of_each(plain)),
        Kind("run: sample", "run", tuple(sample), run_read, share=3),
        *(Kind(f"run: {Path(f).name}", "run", (f,), checkpoint_read, True, 3) for f in checkpoint),
        Kind("feature cache", "cache", tuple(within["cache"]), cached, True, 3),
        Kind("faiss index", "search", _those(within["search"], ".faiss"), searched, True, 3),
        Kind("embeddings", "search", _those(within["search"], ".faiss", are_there=False), searched, share=4),
        Kind("parts of embeddings", "parts", _those(within["parts"], ".parts/"), parted, True, 3),
        Kind("exported weights", "export", tuple(within["export"]), exported, True, 2),
        *(Kind(f"weights {Path(file).suffix}", "weights", (file,), weighed, share=2) for file in within["weights"]),
        Kind("folds", "folds", tuple(within["folds"]), folded),
        *(Kind(f"vectors {Path(file).suffix}", "vectors", (file,), foreign, share=2) for file in within["vectors"]),
        Kind("words: tokenizer.json", "words", ("run/tokenizer.json",), worded, True, 3),
        Kind("words: weights", "words", ("run/checkpoints/last/weights.safetensors",), worded, True, 2),
        Kind("words: projections", "words", ("run/projections.parquet",), worded, share=2),
        Kind("towers", "towers", _those(within["towers"], ".safetensors"), towered, True),
    ]


def _files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def _those(files: list[str], with_text: str, *, are_there: bool = True) -> tuple[str, ...]:
    return tuple(file for file in files if (with_text in file) == are_there)


def _one_of_each(files: list[str]) -> list[str]:
    """Of the many files of a folder, such as evaluation/*.json, the first."""
    first = {str(Path(file).parent) if "/evaluation/" in file else file: file for file in reversed(files)}
    return list(first.values())


def _group(file: str) -> str:
    if file.startswith("pictures/"):
        return f"image {Path(file).suffix[1:]}"
    if "/" in file:
        return "published sets"
    return f"{file.split('.', 1)[1]} files"


def _share(name: str) -> int:
    return {"parquet files": 6, "tar files": 4, "tar.gz files": 4, "published sets": 4}.get(name, 2)


def data_read(folder: Path, file: str) -> str:
    """Every source that holds the damaged file. What a source refuses of its pictures, in words, is a refusal."""
    if file.startswith("pictures/") and not (folder / file).exists():
        return "read"  # a folder without one of its pictures is a folder
    apart = folder / "apart"
    apart.mkdir()
    texts = [text.replace(ROOT, str(folder)) for text in (folder / TEXTS).read_text().splitlines()]
    refusals = [line for text in texts_with(folder / file, texts, apart) for line in read_everything(text)]
    if refusals:
        raise DataError(refusals[0])
    return "read"


def run_read(folder: Path, file: str) -> str:
    """All that the readers of a run see, and of every eighth damaged file the report, which takes long."""
    run = RunDirectory.existing(folder / "run")
    seen = [run.config, run.data, run.environment, run.method_parts, run.metrics, run.scores(), run.diagnosis()]
    open_run(folder / "run").encoder(FIXED)
    run.progress(), run.sample()
    damaged = (folder / file).read_bytes() if (folder / file).is_file() else b""
    if not file or zlib.crc32(damaged) % 8 == 0:
        write_report([folder / "run"], folder / "report.html")
    if run.metrics.damaged:
        raise DataError("the report says how many lines of metrics.jsonl are damaged")
    return digest(repr(seen))


def checkpoint_read(folder: Path, file: str = "") -> str:
    """What an encoder built from it says, and all that a resume would go on from."""
    run = open_run(folder / "run")
    with torch.no_grad():
        rows = run.encoder.eval()(FIXED)
    loaded = RunDirectory(folder / "run").checkpoints.load("last")
    return digest(rows.numpy().tobytes(), repr(sorted(loaded.weights)), repr(loaded.state))


def cached(folder: Path, file: str = "") -> str:
    """Features of an encoder, from the cache where it fits."""
    torch.manual_seed(0)
    encoder = build_encoder("small", width=0.25)
    features = extract(encoder, open_images(SOURCE), view=CentreView(24, 24), cache=folder, workers=0, title=None)
    return digest(features["pooled"].numpy().tobytes(), repr(features.index.tolist()))


def searched(folder: Path, file: str = "") -> str:
    """Neighbours, exact and by the kept index, in a table and in an array."""
    answers = []
    for name in ("vectors.parquet", "vectors.npy"):
        stored = open_embeddings(folder / name)
        asked = torch.linspace(-1, 1, stored.width)[None]
        for engine in ("exact", "faiss"):
            answers += [asdict(answer) for answer in neighbours(stored, asked, k=5, engine=engine)]
    return digest(repr(answers))


def exported(folder: Path, file: str = "") -> str:
    with torch.no_grad():
        return digest(load_exported(folder / "encoder.safetensors").encoder.eval()(FIXED).numpy().tobytes())


def parted(folder: Path, file: str = "") -> str:
    """Embeddings of which all was computed but nothing joined yet."""
    with mock.patch.object(parts, "PART_ITEMS", 32):
        embed(folder / "run", SOURCE, folder / "vectors.npy", workers=0)
    return digest((folder / "vectors.npy").read_bytes(), repr(open_embeddings(folder / "vectors.npy").paths))


def _write_parts(folder: Path, run: Path) -> None:
    shutil.copytree(run, folder / "run")
    with mock.patch.object(Parts, "remove"):
        parted(folder)
    for file in folder.glob("vectors.npy*"):
        file.unlink() if file.is_file() else None


def _write_foreign_vectors(folder: Path, stored: Embeddings) -> None:
    """As others write them: arrays by name, and a table without notes."""
    rows, names = stored.vectors.numpy(), [f"{row}.jpg" for row in range(len(stored))]
    labels = [row % 3 for row in range(len(stored))]
    np.savez(folder / "foreign.npz", vectors=rows, names=np.array(names), labels=np.array(labels))
    pq.write_table(pa.table({"vector": list(rows), "path": names, "label": labels}), folder / "foreign.parquet")


def foreign(folder: Path, file: str) -> str:
    """Vectors of others, without a seal: judged and searched."""
    stored = open_embeddings(folder / file)
    asked = torch.linspace(-1, 1, stored.width)[None]
    answers = [asdict(answer) for answer in neighbours(stored, asked, k=min(5, len(stored)))]
    return digest(repr(answers), diagnose(stored.vectors).verdict)


def worded(folder: Path, file: str = "") -> str:
    """Pictures found by words."""
    stored = open_embeddings(folder / "run" / "projections.parquet")
    answers = text_neighbours(stored, ["a red disc", "a star"], run=folder / "run", k=5)
    return digest(repr([asdict(answer) for answer in answers]))


def towered(folder: Path, file: str = "") -> str:
    """Both towers, as weights."""
    read = {name: read_weights(folder / f"{name}.safetensors") for name in ("image", "text")}
    if read["image"].keys() == read["text"].keys():
        raise DataError("both files hold the same tower, which no network of the other side takes")
    values = (tensor.numpy().tobytes() for name in sorted(read) for _, tensor in sorted(read[name].items()))
    return digest(*values)


def weighed(folder: Path, file: str) -> str:
    """Weights from elsewhere, without a seal."""
    return digest(*(f"{name} {tensor.shape}" for name, tensor in read_weights(folder / file).items()))


def folded(folder: Path, file: str) -> str:
    return digest(repr(read_folds(folder / file)))


def bombs_in(folder: Path) -> list[Callable[[], str]]:
    """Small files that claim or unpack to gigabytes: how each is read."""

    def read(text: str) -> str:
        refusals = list(read_everything(text, items=5))
        if refusals:
            raise DataError(refusals[0])
        return "read"

    return [partial(read, text) for text in write_bombs(folder)]


def digest(*pieces: bytes | str) -> str:
    made = hashlib.sha256()
    for piece in pieces:
        made.update(piece.encode(errors="backslashreplace") if isinstance(piece, str) else piece)
    return made.hexdigest()[:16]
