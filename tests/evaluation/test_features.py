"""Features: equal to the encoder's own, kept under a hash of all they depend on, and never the cause of a change."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from eigenview.batches import Extractor
from eigenview.data import ArraySource, FolderSource
from eigenview.errors import DataError, SettingError
from eigenview.evaluation import extract, features
from eigenview.nn import Encoder, build_encoder, build_head, wrap
from eigenview.tensors import save_sealed
from eigenview.views import CentreView
from tests.processes import run_processes

VIEW = CentreView(16, 16, (0.5, 0.5, 0.5), (0.25, 0.25, 0.25))


def pictures(count: int = 40, seed: int = 0) -> ArraySource:
    random = np.random.default_rng(seed)
    images = random.integers(0, 256, (count, 16, 16, 3), dtype=np.uint8)
    return ArraySource(images, labels=np.arange(count) % 3)


def encoder(seed: int = 0) -> Encoder:
    torch.manual_seed(seed)
    return build_encoder("small", width=0.25)


def test_features_are_the_encoders_own_in_eval_mode():
    model, source = encoder(), pictures(300)
    extracted = extract(Extractor(model, ("conv3", "pooled")), source, view=VIEW)
    model.eval()
    with torch.no_grad():
        expected = model.features(VIEW(source.batch(np.arange(300))), ["conv3", "pooled"])
    assert torch.allclose(extracted["pooled"], expected["pooled"], atol=1e-5)
    assert torch.allclose(extracted["conv3"], expected["conv3"].mean(dim=(2, 3)), atol=1e-5)
    assert torch.equal(extracted.labels, torch.arange(300) % 3)
    assert torch.equal(extracted.index, torch.arange(300))


def test_maps_are_averaged_flattened_or_kept():
    model, source = encoder(), pictures(5)
    kept = extract(Extractor(model, ("conv4",), maps="keep"), source, view=VIEW)["conv4"]
    assert kept.ndim == 4
    flat = extract(Extractor(model, ("conv4",), maps="flatten"), source, view=VIEW)["conv4"]
    assert torch.equal(flat, kept.flatten(1))
    mean = extract(Extractor(model, ("conv4",)), source, view=VIEW)["conv4"]
    assert torch.allclose(mean, kept.mean(dim=(2, 3)), atol=1e-6)


def test_the_projection_is_the_heads_output():
    model = encoder()
    head = build_head("simclr-v1", model.feature_width, output=8)
    extracted = extract(Extractor(model, ("projection", "pooled"), head), pictures(), view=VIEW)
    with torch.no_grad():
        assert torch.allclose(extracted["projection"], head.eval()(extracted["pooled"]), atol=1e-5)


def test_extraction_leaves_modes_and_batch_statistics_as_they_were():
    model = encoder()
    model.train()
    model.conv2.eval()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    modes = [module.training for module in model.modules()]
    extract(model, pictures(), view=VIEW)
    assert [module.training for module in model.modules()] == modes
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())


def test_modes_come_back_after_a_failure_too():
    class Failing(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            if len(images) > 2:
                raise DataError("broken")
            return images.mean(dim=(2, 3))

    model = wrap(Failing(), image_size=16).train()
    with pytest.raises(DataError, match="broken"):
        extract(model, pictures(), view=VIEW)
    assert model.training


def test_a_cache_answers_without_the_encoder(tmp_path, monkeypatch):
    model, source = encoder(), pictures()
    first = extract(model, source, view=VIEW, cache=tmp_path)
    assert len(list(tmp_path.iterdir())) == 1
    monkeypatch.setattr(features, "encode_source", lambda *given, **options: pytest.fail("computed again"))
    second = extract(model, source, view=VIEW, cache=tmp_path)
    assert torch.equal(first["pooled"], second["pooled"])
    assert first.key == second.key


def test_the_hash_follows_everything_that_features_depend_on():
    model, source = encoder(), pictures()

    def key(**changes):
        given = {"encoder": model, "source": source, "view": VIEW, "layers": ["pooled"], "maps": "average"} | changes
        extractor = Extractor(given["encoder"], tuple(given["layers"]), given.get("head"), given["maps"])
        return extract(extractor, given["source"], view=given["view"]).key

    moved, drifted = encoder(), encoder()
    with torch.no_grad():
        moved.conv1[0].weight[0, 0, 0, 0] += 1e-6
        drifted.conv1[1].running_mean[0] += 1e-6
    altered = pictures().batch(np.arange(40)).numpy().copy()
    altered[39, 0, 0, 0] ^= 1
    head = build_head("simclr-v1", model.feature_width, output=8)
    keys = [
        key(),
        key(encoder=moved),
        key(encoder=drifted),
        key(source=ArraySource(altered, layout="nchw")),
        key(source=pictures(39)),
        key(view=replace(VIEW, resize=17)),
        key(view=replace(VIEW, mean=(0.5, 0.5, 0.4))),
        key(layers=["pooled", "conv4"]),
        key(maps="flatten"),
        key(head=head),
    ]
    assert len(set(keys)) == len(keys)
    assert key() == keys[0]


def test_relabelled_images_keep_their_features_and_get_their_new_labels(tmp_path):
    model, source = encoder(), pictures()
    extract(model, source, view=VIEW, cache=tmp_path)
    images = source.batch(np.arange(40)).numpy()
    relabelled = ArraySource(images, labels=np.arange(40) % 2, layout="nchw")
    extracted = extract(model, relabelled, view=VIEW, cache=tmp_path)
    assert len(list(tmp_path.iterdir())) == 1
    assert torch.equal(extracted.labels, torch.arange(40) % 2)


def cut_short(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:50])


def with_a_flipped_bit(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[-100] ^= 1
    file.write_bytes(bytes(content))


def with_reversed_rows(file: Path) -> None:
    stored = load_file(file)
    with safe_open(file, framework="pt") as opened:
        notes = opened.metadata()
    save_file({**stored, "pooled": stored["pooled"].flip(0).contiguous()}, file, metadata=notes)


def with_an_index_out_of_range(file: Path) -> None:
    stored = load_file(file)
    stored["index"][-1] = 40
    save_sealed(file, stored)  # a checksum that fits does not help


def without_a_checksum(file: Path) -> None:
    save_file(load_file(file), file)


@pytest.mark.parametrize(
    "damaged",
    [cut_short, with_a_flipped_bit, with_reversed_rows, with_an_index_out_of_range, without_a_checksum],
)
def test_a_damaged_cache_file_is_computed_anew_never_believed(tmp_path, damaged):
    model, source = encoder(), pictures()
    first = extract(model, source, view=VIEW, cache=tmp_path)
    file = next(tmp_path.iterdir())
    good = file.read_bytes()
    damaged(file)
    assert file.read_bytes() != good
    again = extract(model, source, view=VIEW, cache=tmp_path)
    assert torch.equal(first["pooled"], again["pooled"])
    assert torch.equal(first.index, again.index)
    assert file.read_bytes() == good


def test_photos_of_differing_sizes_are_cropped_and_unreadable_ones_left_out(tmp_path):
    from PIL import Image

    random = np.random.default_rng(0)
    for number, size in enumerate([(20, 30), (40, 18), (16, 16)]):
        Image.fromarray(random.integers(0, 256, (*size, 3), dtype=np.uint8)).save(tmp_path / f"{number}.png")
    (tmp_path / "1a.png").write_bytes(b"no picture")
    extracted = extract(encoder(), FolderSource(tmp_path), view=VIEW, workers=0)
    assert extracted.index.tolist() == [0, 1, 3]
    (tmp_path / "1a.png").unlink()
    readable = extract(encoder(), FolderSource(tmp_path), view=VIEW, workers=0)
    assert torch.equal(extracted["pooled"], readable["pooled"])


def features_of_this_rank(rank, group, folder):
    return extract(encoder(), pictures(101), view=VIEW, cache=folder, group=group, workers=0)["pooled"]


def test_two_processes_share_the_work_and_both_get_everything(tmp_path):
    alone = extract(encoder(), pictures(101), view=VIEW)["pooled"].numpy()
    for _ in ("computed", "read"):
        for measured in run_processes(2, features_of_this_rank, tmp_path):
            assert np.allclose(measured, alone, atol=1e-5)


def test_bad_input_is_refused_with_its_reason(tmp_path):
    model, source = encoder(), pictures()
    with pytest.raises(SettingError, match=r"pass eigenview\.nn\.wrap"):
        extract(nn.Flatten(), source, view=VIEW)
    with pytest.raises(SettingError, match="no layer 'fc7' in this encoder"):
        extract(Extractor(model, ("fc7",)), source, view=VIEW)
    with pytest.raises(SettingError, match="give head="):
        extract(Extractor(model, ("projection",)), source, view=VIEW)
    with pytest.raises(SettingError, match="maps must be average, flatten or keep; got 'max'"):
        extract(Extractor(model, maps="max"), source, view=VIEW)
    with torch.no_grad():
        model.conv1[0].weight[0] = torch.nan
    with pytest.raises(DataError, match="pooled must be finite; NaN or Inf in 40 of 40 images, first 0, 1, 2, 3, 4:"):
        extract(model, source, view=VIEW)
    unlabelled = ArraySource(source.batch(np.arange(40)).numpy(), layout="nchw")
    with pytest.raises(DataError, match="these images have no labels"):
        extract(encoder(), unlabelled, view=VIEW).labelled  # noqa: B018
