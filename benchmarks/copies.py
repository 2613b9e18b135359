"""Planted copies: how many `duplicates` finds and confirms, and how many false alarms; the table of docs/search.md.

    python benchmarks/copies.py [SOURCE] [--encoder NAME] [--each 150] [--keep-in FOLDER]

Copies of EACH pictures of SOURCE are written beside all of its pictures, in a folder for each change; everything is
embedded with ENCODER and searched. A column for each way to choose which pairs are compared: by a cosine of 0.999
alone, or by the nearest of either. "Confirmed": the pixels say that picture and copy are one, whether they were sought
or not. "In one set": what the user sees. FOLDER keeps pictures and embeddings for the next run.
SOURCE is a folder; $EIGENVIEW_DATA/photos, or ../shared/data/photos beside the repository, unless given.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageEnhance

from eigenview.data import open_images
from eigenview.data.likeness import same_picture, thumbnail_of
from eigenview.diagnostics.neighbours import COSINE
from eigenview.graph.nearest import nearest
from eigenview.runs import open_encoder
from eigenview.search import DuplicateSets, duplicates, embed, open_embeddings
from eigenview.search.pictures import Pictures
from eigenview.search.stored import Embeddings

KS = (1, 3, 5, 10)
ORIGINAL = "0 original"  # comes first, so that copies are compared with it and not with each other


def cropped(image: Image.Image, share: float) -> Image.Image:
    width, height = image.size
    return image.crop(
        (int(width * share), int(height * share), width - int(width * share), height - int(height * share))
    )


def scaled(image: Image.Image, by: float) -> Image.Image:
    return image.resize([max(1, round(side * by)) for side in image.size], Image.Resampling.LANCZOS)


CHANGES: dict[str, tuple[Callable[[Image.Image], Image.Image], int]] = {  # what is done, and JPEG's quality afterwards
    "JPEG, quality 60": (lambda image: image, 60),
    "half the size": (lambda image: scaled(image, 0.5), 90),
    "half, then quality 60": (lambda image: scaled(image, 0.5), 60),
    "10% brighter": (lambda image: ImageEnhance.Brightness(image).enhance(1.1), 90),
    "3% cropped off each side": (lambda image: cropped(image, 0.03), 90),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    data = Path(os.environ.get("EIGENVIEW_DATA", Path(__file__).parents[2] / "shared" / "data"))
    parser.add_argument("source", nargs="?", type=Path, default=data / "photos")
    parser.add_argument("--encoder", default="efficientnet-lite0")
    parser.add_argument("--each", type=int, default=150)
    parser.add_argument("--keep-in", type=Path)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = asked.keep_in or Path(temporary)
        plant(asked.source, folder / "pictures", asked.each)
        source = open_images(folder / "pictures", needs_index=True)
        run = open_encoder(asked.encoder, source, folder / f"run-{asked.encoder}", spec=str(folder / "pictures"))
        stored = open_embeddings(embed(run, source, spec=str(folder / "pictures")).path)
        start = time.monotonic()
        sets = duplicates(stored, source=source)
        taken = time.monotonic() - start
        print(f"{len(stored):,} pictures, {asked.encoder} at {run.view.size} pixels; searched in {taken:.1f} s")
        table(stored, sets)
        alarms(stored, sets)


def plant(source: Path, folder: Path, each: int) -> None:
    """The pictures in ``original``, and copies of some in a folder for each change."""
    if folder.is_dir():
        return
    images = open_images(source, needs_index=True)
    chosen = set(np.random.default_rng(0).permutation(len(images))[:each].tolist())
    making = folder.with_suffix(".making")
    shutil.rmtree(making, ignore_errors=True)
    for number in range(len(images)):
        path = images.path(number)
        assert path is not None
        place = making / ORIGINAL / f"{number:05d}{path.suffix}"
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, place)
        for name, (change, quality) in CHANGES.items() if number in chosen else ():
            copy = making / name / f"{number:05d}.jpg"
            copy.parent.mkdir(exist_ok=True)
            with Image.open(path) as image:
                change(image if image.mode == "L" else image.convert("RGB")).save(copy, quality=quality)
    making.rename(folder)


def table(stored: Embeddings, sets: DuplicateSets) -> None:
    rows = {(Path(path).parent.name, Path(path).stem): row for row, path in enumerate(stored.paths)}
    near = nearest(stored.vectors, stored.vectors, k=max(KS), excludes_self=True)
    unit = torch.nn.functional.normalize(stored.vectors.double(), dim=1)
    set_of = {member.row: number for number, copies in enumerate(sets.sets) for member in copies.members}
    pictures = Pictures(stored)
    heads = ["change", "cosines", f"cosine {COSINE}", *(f"{k} nearest" for k in KS), "confirmed", "in one set"]
    print("| " + " | ".join(heads) + " |\n|" + "---|" * len(heads))
    for change in CHANGES:
        pairs = [(rows[ORIGINAL, stem], row) for (name, stem), row in rows.items() if name == change]
        cosines = torch.tensor([float(unit[a] @ unit[b]) for a, b in pairs])
        shares = [(cosines >= COSINE).double().mean().item()]
        shares += [np.mean([_is_near(near.index[:, :k], a, b) for a, b in pairs]) for k in KS]
        shares.append(np.mean([_confirmed(pictures, a, b) for a, b in pairs]))
        shares.append(np.mean([a in set_of and set_of.get(a) == set_of.get(b) for a, b in pairs]))
        low, middle = cosines.min().item(), cosines.median().item()
        print(
            f"| {change} | {low:.3f} to 1, median {middle:.3f} | "
            + " | ".join(f"{share:.0%}" for share in shares)
            + " |"
        )


def alarms(stored: Embeddings, sets: DuplicateSets) -> None:
    """Sets that hold more than one picture of the source: true copies that were there before, or false alarms."""
    print(f"{len(sets.sets)} sets, {sets.copies} copies; sets of several pictures of the source, to be looked at:")
    for copies in sets.sets:
        stems = sorted({Path(member.path).stem for member in copies.members})
        if len(stems) > 1:
            print("   ", ", ".join(f"{Path(m.path).parent.name}/{Path(m.path).name}" for m in copies.members))


def _is_near(near: torch.Tensor, first: int, second: int) -> bool:
    return bool((near[first] == second).any() or (near[second] == first).any())


def _confirmed(pictures: Pictures, first: int, second: int) -> bool:
    images = [pictures.image(row) for row in (first, second)]
    return all(image is not None for image in images) and same_picture(*(thumbnail_of(i) for i in images if i)).is_same


if __name__ == "__main__":
    main()
