"""Embedding a source: the right vectors in the right order, after any interruption, on any number of processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet as parquet
import pytest
import torch

from eigenview.data import ArraySource, FolderSource
from eigenview.data.shapes import ShapesSource
from eigenview.data.shards import ShardSource
from eigenview.errors import DataError, SettingError, WriteError
from eigenview.nn import Encoder
from eigenview.search import embed, open_embeddings, parts
from eigenview.search.stored import save_embeddings
from tests.data.pictures import write_broken_files
from tests.data.test_shards import write_tar
from tests.processes import run_processes
from tests.search.encoders import PART, VIEW, expected_vectors, small_encoder, small_parts, write_pictures
from tests.training.runs import run_quietly, settings

NAMES = [f"{number:02d}.png" for number in range(21)]


@pytest.fixture(autouse=True)
def _parts_of_eight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "PART_ITEMS", PART)


@pytest.mark.parametrize("suffix", [".parquet", ".npy"])
@pytest.mark.parametrize("workers", [0, 2])
def test_every_picture_has_its_vector_path_and_index(tmp_path, suffix, workers):
    folder, encoder = write_pictures(tmp_path / "my pictures ü", NAMES), small_encoder()
    made = embed(encoder, folder, tmp_path / f"out{suffix}", view=VIEW, batch_size=3, workers=workers)
    stored = open_embeddings(made.path)
    expected = torch.stack(list(expected_vectors([folder / name for name in NAMES], encoder)))
    torch.testing.assert_close(stored.vectors, expected)
    assert stored.index.tolist() == list(range(21))
    assert list(stored.paths) == [str(folder / name) for name in NAMES]
    assert stored.labels is None
    assert (made.rows, made.width, made.unreadable) == (21, 64, ())
    assert not (tmp_path / f"out{suffix}.parts").exists()


def test_a_table_has_the_promised_columns_and_says_where_it_comes_from(tmp_path):
    folder = write_pictures(tmp_path / "photos", ["a/1.png", "b/2.png", "b/3.png"])
    source = FolderSource(folder, labelled=True)
    embed(small_encoder(), source, tmp_path / "out.parquet", view=VIEW, layer="conv2", workers=0)
    table = parquet.read_table(tmp_path / "out.parquet")
    assert table.column_names == ["index", "path", "label", "vector"]
    assert str(table.schema.field("vector").type) == "fixed_size_list<element: float>[16]"
    assert table.column("label").to_pylist() == [0, 1, 1]
    about = json.loads(table.schema.metadata[b"eigenview"])
    assert (about["layer"], about["classes"], about["view"]) == ("conv2", ["a", "b"], repr(VIEW))
    stored = open_embeddings(tmp_path / "out.parquet")
    assert [stored.label_name(row) for row in range(3)] == ["a", "b", "b"]


def test_arrays_are_embedded_as_they_are(tmp_path):
    source = ShapesSource(19, size=16)
    stored = open_embeddings(embed(small_encoder(), source, tmp_path / "out.npy", view=VIEW).path)
    with torch.no_grad():
        expected = small_encoder().eval()(VIEW(source.batch(np.arange(19))))
    torch.testing.assert_close(stored.vectors, expected)
    assert stored.labels.tolist() == source.labels.tolist()


def test_unreadable_pictures_are_left_out_and_named(tmp_path):
    folder = write_pictures(tmp_path / "photos", NAMES[:5])
    names = write_broken_files(folder)
    made = embed(small_encoder(), folder, tmp_path / "out.parquet", view=VIEW, batch_size=4, workers=0)
    stored = open_embeddings(made.path)
    assert [Path(path).name for path in stored.paths] == NAMES[:5]
    everything = FolderSource(folder)
    assert stored.index.tolist() == [
        row for row in range(len(everything)) if "bad" not in everything.relative_path(row)
    ]
    assert {failure.name for failure in made.unreadable} == {name for name in names if "." in name}
    assert stored.about.unreadable == made.unreadable


def test_shards_are_embedded_whatever_their_readers(tmp_path):
    folder = write_pictures(tmp_path / "photos", NAMES)
    encoder = small_encoder()
    for shard in range(2):
        members = {f"{name[:2]}.{end}": data for name in NAMES[shard::2] for end, data in _sample(folder / name)}
        write_tar(tmp_path / f"shard-{shard}.tar", members | ({"99.png": b"broken"} if shard else {}))
    expected = torch.stack(list(expected_vectors([folder / name for name in NAMES], encoder)))
    for workers in (0, 2):
        source = ShardSource(str(tmp_path / "shard-{0..1}.tar"))
        made = embed(encoder, source, tmp_path / f"{workers}.parquet", view=VIEW, batch_size=3, workers=workers)
        stored = open_embeddings(made.path)
        assert sorted(stored.paths) == sorted(f"shard-{int(name[:2]) % 2}.tar/{name[:2]}" for name in NAMES)
        numbers = [int(path[-2:]) for path in stored.paths]
        torch.testing.assert_close(stored.vectors, expected[numbers])
        assert stored.labels.tolist() == numbers
        assert [failure.name for failure in made.unreadable] == ["shard-1.tar/99"]


def _sample(file: Path) -> list[tuple[str, bytes]]:
    return [("png", file.read_bytes()), ("cls", str(int(file.stem)).encode())]


KILLED = """
import os, signal, sys
from tests.search.encoders import VIEW, small_encoder, small_parts
from eigenview.search import embed
small_parts()
def progress(done, total):
    if done > 17:
        os.kill(os.getpid(), signal.SIGKILL)
embed(small_encoder(), sys.argv[1], sys.argv[2], view=VIEW, batch_size=2, workers=0, progress=progress)
"""


def test_after_a_kill_finished_parts_are_kept_and_the_rest_is_made(tmp_path):
    folder = write_pictures(tmp_path / "photos", NAMES)
    out = tmp_path / "out.parquet"
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(folder), str(out)], cwd=Path(__file__).parents[2], check=False
    )
    assert done.returncode == -signal.SIGKILL
    assert not out.exists()
    kept = {file.name: file.stat().st_mtime_ns for file in (tmp_path / "out.parquet.parts").glob("part-*")}
    assert sorted(kept) == ["part-000000-0000-last.safetensors", "part-000001-0000-last.safetensors"]

    met = []
    embed(small_encoder(), folder, out, view=VIEW, batch_size=2, workers=0, progress=lambda *now: met.append(now))
    assert met == [(18, 21), (20, 21), (21, 21)]
    embed(small_encoder(), folder, tmp_path / "at once.parquet", view=VIEW, workers=0)
    again, once = open_embeddings(out), open_embeddings(tmp_path / "at once.parquet")
    torch.testing.assert_close(again.vectors, once.vectors)
    assert (again.index.tolist(), list(again.paths)) == (once.index.tolist(), list(once.paths))


def test_a_damaged_part_is_never_joined(tmp_path):
    folder, out = write_pictures(tmp_path / "photos", NAMES), tmp_path / "out.npy"
    _interrupted(folder, out)
    file = next((tmp_path / "out.npy.parts").glob("part-000000-*"))
    good = file.read_bytes()
    for place in (-40, 60):  # among the vectors, and in the header with the notes
        content = bytearray(good)
        content[place] ^= 1
        file.write_bytes(bytes(content))
        with pytest.raises(DataError, match=r"part-000000-.* is damaged: .*; remove it and run again"):
            embed(small_encoder(), folder, out, view=VIEW, workers=0)
        assert not out.exists()
    file.unlink()
    embed(small_encoder(), folder, out, view=VIEW, workers=0)
    embed(small_encoder(), folder, tmp_path / "at once.npy", view=VIEW, workers=0)
    torch.testing.assert_close(open_embeddings(out).vectors, open_embeddings(tmp_path / "at once.npy").vectors)


def test_unfinished_work_of_other_settings_is_not_mixed_in(tmp_path):
    folder, out = write_pictures(tmp_path / "photos", NAMES), tmp_path / "out.npy"
    _interrupted(folder, out)
    with pytest.raises(SettingError, match=r"out\.npy\.parts holds the unfinished work of another encoder; begin anew"):
        embed(small_encoder(1), folder, out, view=VIEW, workers=0)
    with pytest.raises(SettingError, match="unfinished work of another layer"):
        embed(small_encoder(), folder, out, view=VIEW, layer="conv4", workers=0)
    write_pictures(folder, ["new.png"])
    with pytest.raises(SettingError, match="unfinished work of another source"):
        embed(small_encoder(), folder, out, view=VIEW, workers=0)
    assert embed(small_encoder(1), folder, out, view=VIEW, workers=0, resume=False).rows == 22


def _interrupted(folder: Path, out: Path) -> None:
    def stop(done: int, total: int | None) -> None:
        if done > 8:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        embed(small_encoder(), folder, out, view=VIEW, batch_size=4, workers=0, progress=stop)


def test_a_finished_file_is_left_alone_and_another_one_is_replaced(tmp_path):
    folder, out = write_pictures(tmp_path / "photos", NAMES[:3]), tmp_path / "out.parquet"
    embed(small_encoder(), folder, out, view=VIEW, workers=0)
    before = out.stat().st_mtime_ns
    assert embed(small_encoder(), folder, out, view=VIEW, workers=0).rows == 3
    assert out.stat().st_mtime_ns == before
    first = open_embeddings(out).vectors
    embed(small_encoder(1), folder, out, view=VIEW, workers=0)
    assert not torch.allclose(open_embeddings(out).vectors, first)


def embed_on_a_process(rank: int, group: object, folder: str, out: str, begun: str) -> tuple[int, str]:
    small_parts()
    made = embed(small_encoder(), folder, out, view=VIEW, batch_size=4, workers=0, group=group)
    with pytest.raises(SettingError if rank == 0 else DataError) as caught:
        embed(small_encoder(1), folder, begun, view=VIEW, workers=0, group=group)
    return made.rows, str(caught.value)


def test_two_processes_write_what_one_writes_and_refuse_together(tmp_path):
    folder, begun = write_pictures(tmp_path / "photos", NAMES), tmp_path / "begun.parquet"
    together, alone = tmp_path / "together.parquet", tmp_path / "alone.parquet"
    _interrupted(folder, begun)
    first, second = run_processes(2, embed_on_a_process, str(folder), str(together), str(begun))
    embed(small_encoder(), folder, alone, view=VIEW, batch_size=4, workers=0)
    both, single = open_embeddings(together), open_embeddings(alone)
    torch.testing.assert_close(both.vectors, single.vectors)
    assert (both.index.tolist(), both.paths) == (single.index.tolist(), single.paths)
    assert (first[0], second[0]) == (21, 21)
    assert "unfinished work of another encoder" in first[1]
    assert "another process refused" in second[1]


TORCHRUN = """
import sys
from tests.search.encoders import VIEW, small_encoder, small_parts
from eigenview.search import embed
small_parts()
embed(small_encoder(), sys.argv[1], sys.argv[2], view=VIEW, batch_size=4, workers=0)
"""


@pytest.mark.slow
def test_processes_that_torchrun_started_share_the_work(tmp_path):
    folder = write_pictures(tmp_path / "photos", NAMES)
    script = tmp_path / "work.py"
    script.write_text(TORCHRUN)
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--standalone", str(script)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "OMP_NUM_THREADS": "1"}
    out = tmp_path / "out.parquet"
    done = subprocess.run(
        [*command, str(folder), str(out)], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    expected = torch.stack(list(expected_vectors([folder / name for name in NAMES], small_encoder())))
    torch.testing.assert_close(open_embeddings(out).vectors, expected)


def test_a_run_is_embedded_into_its_own_folder(tmp_path):
    run_quietly(settings("simclr", tmp_path / "run"))
    made = embed(tmp_path / "run", "shapes?count=10&size=24")
    assert made.path.resolve() == (tmp_path / "run" / "embeddings.parquet").resolve()
    stored = open_embeddings(tmp_path / "run")
    assert (len(stored), stored.about.run, stored.about.spec) == (10, "run", "shapes?count=10&size=24")


def test_an_encoder_that_diverged_is_refused_by_name(tmp_path):
    folder, encoder = write_pictures(tmp_path / "photos", NAMES[:3]), small_encoder()
    with torch.no_grad():
        encoder.get_parameter("conv1.0.weight").fill_(torch.nan)
    with pytest.raises(DataError, match=r"NaN or Inf in 3 of 3 images, first .*00\.png"):
        embed(encoder, folder, tmp_path / "out.npy", view=VIEW, workers=0)
    assert not (tmp_path / "out.npy").exists()


FULL = """
import resource, sys
from tests.search.encoders import VIEW, small_encoder
from eigenview.search import embed
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
embed(small_encoder(), sys.argv[1], sys.argv[2], view=VIEW, workers=0, overwrite=True)
"""


def test_a_full_disk_is_said_in_one_line_and_loses_nothing(tmp_path):
    folder, out = write_pictures(tmp_path / "photos", NAMES), tmp_path / "out.npy"
    out.write_bytes(b"what was there")
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(folder), str(out)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    last = done.stderr.strip().splitlines()[-1]
    assert "Error: cannot write" in last
    assert "File too large; choose another place, or make room there" in last
    assert out.read_bytes() == b"what was there"
    assert list(tmp_path.rglob(".*")) == []


@pytest.mark.parametrize("name", ["out.parquet", "out.npy", "out.npy.json"])
def test_a_file_that_was_not_made_here_is_never_written_over(tmp_path, name):
    folder, mine = write_pictures(tmp_path / "photos", NAMES[:3]), tmp_path / name
    out = tmp_path / name.removesuffix(".json")
    if name == "out.parquet":
        parquet.write_table(pyarrow.table({"name": ["00.png"], "label": ["cat"]}), mine)
    elif name == "out.npy":
        np.save(mine, np.eye(3, dtype=np.float32))
    else:
        mine.write_text('{"mine": 1}')
    before, said = mine.read_bytes(), f"{name} is there already, and holds no embeddings made here: name another file"
    with pytest.raises(WriteError, match=said):
        embed(small_encoder(), folder, out, view=VIEW, workers=0)
    stored = open_embeddings(embed(small_encoder(), folder, tmp_path / "other.npy", view=VIEW, workers=0).path)
    with pytest.raises(WriteError, match=said):
        save_embeddings(stored, out)
    assert mine.read_bytes() == before
    assert not out.with_name(out.name + ".parts").exists()
    embed(small_encoder(), folder, out, view=VIEW, workers=0, overwrite=True)
    for about in (stored.about, None, stored.about):  # those that were made here are, also where nobody knows by what
        save_embeddings(replace(stored, about=about), out)
        assert open_embeddings(out).about == (about if about is None else stored.about)


def test_mistakes_are_told_in_one_line(tmp_path):
    folder, encoder = write_pictures(tmp_path / "photos", NAMES[:1]), small_encoder()
    with pytest.raises(SettingError, match=r"written as \.parquet or \.npy; got 'out\.csv'"):
        embed(encoder, folder, tmp_path / "out.csv", view=VIEW)
    (tmp_path / "x.npy").mkdir()
    with pytest.raises(SettingError, match="is a folder; out is the file"):
        embed(encoder, folder, tmp_path / "x.npy", view=VIEW)
    with pytest.raises(
        DataError, match=r"cannot write .*00\.png/out\.npy\.parts/.*: a file is in the place of its folder"
    ):
        embed(encoder, folder, folder / "00.png" / "out.npy", view=VIEW)
    with pytest.raises(SettingError, match="needs view="):
        embed(encoder, folder, tmp_path / "out.npy")
    with pytest.raises(SettingError, match="needs out="):
        embed(encoder, folder, view=VIEW)
    with pytest.raises(SettingError, match="no layer 'conv9'"):
        embed(encoder, folder, tmp_path / "out.npy", view=VIEW, layer="conv9")
    with pytest.raises(DataError, match=r"no run is no run directory .there is no such folder"):
        embed(tmp_path / "no run", folder, tmp_path / "out.npy")
    with pytest.raises(SettingError, match="got int"):
        embed(3, folder, tmp_path / "out.npy")  # type: ignore[arg-type]
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="no images in"):
        embed(encoder, tmp_path / "empty", tmp_path / "out.npy", view=VIEW)


def test_grey_images_are_repeated_for_an_encoder_of_colours(tmp_path):
    encoder, grey = small_encoder(), np.random.default_rng(0).integers(0, 256, (3, 16, 16), dtype=np.uint8)
    colour = np.repeat(grey[..., None], 3, axis=3)
    vectors = [
        open_embeddings(embed(encoder, ArraySource(images), tmp_path / name, view=VIEW).path).vectors
        for images, name in ((grey, "grey.npy"), (colour, "colour.npy"))
    ]
    assert torch.equal(*vectors)


def test_nothing_readable_is_an_error_with_the_first_reason(tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "only.png").write_bytes(b"")
    encoder: Encoder = small_encoder()
    with pytest.raises(DataError, match=r"only\.png: empty file"):
        embed(encoder, tmp_path / "photos", tmp_path / "out.npy", view=VIEW, workers=0)
    assert not (tmp_path / "out.npy").exists()


def test_one_picture_is_enough(tmp_path):
    folder = write_pictures(tmp_path / "photos", NAMES[:1])
    assert embed(small_encoder(), folder, tmp_path / "out.npy", view=VIEW, workers=0).rows == 1


@pytest.mark.parametrize("name", ["out.npy", "out.parquet"])
def test_a_flipped_bit_in_the_vectors_is_not_believed(tmp_path, name):
    folder = write_pictures(tmp_path / "photos", ["a.png", "b.png", "c.png"])
    file = embed(small_encoder(), folder, tmp_path / name, view=VIEW).path
    vectors = open_embeddings(file).vectors.numpy().copy()
    data = bytearray(file.read_bytes())
    place = data.index(vectors[1].tobytes())
    data[place] ^= 1  # a low bit of one number: still finite, still a file
    file.write_bytes(bytes(data))
    with pytest.raises(DataError, match="is damaged: its checksum does not fit; make it anew"):
        open_embeddings(file)
    again = embed(small_encoder(), folder, file, view=VIEW, resume=False).path
    assert np.array_equal(open_embeddings(again).vectors.numpy(), vectors)
