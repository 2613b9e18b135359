"""Text encoders of transformers and open_clip against the libraries themselves; skipped where those are missing."""

from __future__ import annotations

import json
import shutil

import pytest
import torch
from torch import nn

from eigenview.errors import SettingError
from eigenview.export.towers import export_towers
from eigenview.methods.caption_map import given_vectors
from eigenview.nn import Tokenizer
from eigenview.nn.text import build_text_encoder, library_tokens
from eigenview.runs import open_run
from tests.nn.library_checks import assert_same, stirred
from tests.training.runs import run_quietly, settings

pytestmark = pytest.mark.filterwarnings("ignore")  # of the libraries about themselves

CAPTIONS = ["a red dog on the beach", "two cats", "A man\u2019s  bicycle, 42 of them!", "naïve café 🐶 שלום"]
SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}


def saved(transformers, folder, model: nn.Module) -> object:
    """A model and a tokenizer as they come in a folder."""
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.trained(CAPTIONS, vocabulary=300)._inner, eos_token="<end>", pad_token="<end>"
    )
    stirred(model).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return tokenizer


def hf_texts(transformers) -> dict[str, nn.Module]:
    text = {**SMALL, "vocab_size": 300, "max_position_embeddings": 40, "pad_token_id": 0, "eos_token_id": 0}
    vision = {**SMALL, "image_size": 28, "patch_size": 14}
    clip = transformers.CLIPConfig(text_config=text, vision_config=vision, projection_dim=24)
    siglip = transformers.SiglipConfig(text_config={**text, "projection_size": 32}, vision_config=vision)
    return {
        "clip": transformers.CLIPModel(clip),
        "siglip": transformers.SiglipModel(siglip),
        "bert": transformers.BertModel(transformers.BertConfig(**text)),
        "roberta": transformers.RobertaModel(transformers.RobertaConfig(**{**text, "pad_token_id": 1})),
    }


def their_features(kind: str, transformers, folder, tokenizer) -> torch.Tensor:
    filled = {"padding": "max_length", "max_length": 40} if kind == "siglip" else {"padding": True}
    rows = tokenizer(CAPTIONS, return_tensors="pt", **filled)
    ids, mask = rows["input_ids"], rows["attention_mask"]
    with torch.no_grad():
        if kind == "clip":
            whole = transformers.CLIPModel.from_pretrained(folder).eval()
            return whole.text_projection(whole.text_model(input_ids=ids, attention_mask=mask).pooler_output)
        if kind == "siglip":
            return transformers.SiglipTextModel.from_pretrained(folder).eval()(input_ids=ids).pooler_output
        if kind == "roberta":
            ids = ids.masked_fill(mask == 0, 1)  # what it numbers its positions by
        states = transformers.AutoModel.from_pretrained(folder).eval()(input_ids=ids, attention_mask=mask)[0]
        return (states * mask[:, :, None]).sum(dim=1) / mask.sum(dim=1, keepdim=True)


@pytest.mark.parametrize("kind", ["clip", "siglip", "bert", "roberta"])
def test_a_text_side_of_transformers_in_a_folder(kind, tmp_path):
    transformers = pytest.importorskip("transformers", reason="transformers is not installed", exc_type=ImportError)
    folder = tmp_path / "model"
    theirs = their_features(kind, transformers, folder, saved(transformers, folder, hf_texts(transformers)[kind]))
    tokens = library_tokens(f"hf:{folder}")
    assert tokens.length == (38 if kind == "roberta" else 40)
    encoder = build_text_encoder(f"hf:{folder}", tokens, width=1, depth=1, pretrained=True).eval()
    with torch.no_grad():
        assert_same(encoder(tokens(CAPTIONS)), theirs)
        assert_same(encoder(tokens(CAPTIONS[:1])), theirs[:1])  # filled up or not
    with pytest.raises(SettingError, match=r"reads up to \d+ tokens; got length 50"):
        build_text_encoder(f"hf:{folder}", tokens.reading(50), width=1, depth=1, pretrained=True)
    for file in folder.iterdir():
        file.unlink()
    again = build_text_encoder(f"hf:{folder}", tokens, width=1, depth=1, config=encoder.config).eval()
    again.load_state_dict(encoder.state_dict())  # as a run opens: nothing of the folder is needed
    with torch.no_grad():
        assert_same(again(tokens(CAPTIONS)), theirs)


def test_a_run_learns_with_a_text_side_and_opens_without_its_folder(tmp_path):
    transformers = pytest.importorskip("transformers", reason="transformers is not installed", exc_type=ImportError)
    folder = tmp_path / "model"
    saved(transformers, folder, hf_texts(transformers)["bert"])
    text = {"name": f"hf:{folder}", "length": 12}
    given = settings("clip", tmp_path / "run", method_settings={"text": text, "soft_targets": True})
    given["method_settings"]["target_encoder"] = f"hf:{folder}"
    run_quietly(given)
    begun = build_text_encoder(f"hf:{folder}", library_tokens(f"hf:{folder}"), width=1, depth=1, pretrained=True)
    near = given_vectors(f"hf:{folder}")(CAPTIONS)
    torch.testing.assert_close(near.norm(dim=1), torch.ones(len(CAPTIONS)))
    shutil.rmtree(folder)
    tower = open_run(tmp_path / "run").needed_text()
    assert tower.tokenizer.length == 12
    before, after = begun.state_dict(), tower.encoder.state_dict()
    moved = [float((after[name] - before[name]).abs().max()) for name in before if before[name].is_floating_point()]
    assert 0 < max(moved) < 0.1  # it learnt, on from what was given
    assert tower.embed(CAPTIONS).shape[0] == len(CAPTIONS)


def small_open_clip(folder) -> str:
    """A small model under a name of its own, and its weights."""
    open_clip = pytest.importorskip("open_clip", reason="open_clip is not installed", exc_type=ImportError)
    vision = {"image_size": 32, "layers": 1, "width": 32, "patch_size": 16, "head_width": 16}
    text = {"context_length": 77, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 2}
    (folder / "small-words.json").write_text(json.dumps({"embed_dim": 24, "vision_cfg": vision, "text_cfg": text}))
    open_clip.add_model_config(folder)
    torch.save(stirred(open_clip.create_model("small-words", pretrained=None)).state_dict(), folder / "weights.pt")
    return f"open_clip:small-words/{folder / 'weights.pt'}"


@pytest.mark.parametrize("kind", ["clip", "siglip", "bert", "roberta", "open_clip"])
def test_a_learnt_text_side_computes_the_same_as_onnx(kind, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")
    if kind == "open_clip":
        name = small_open_clip(tmp_path)
    else:
        transformers = pytest.importorskip("transformers", reason="transformers is not installed", exc_type=ImportError)
        saved(transformers, tmp_path / "model", hf_texts(transformers)[kind])
        name = f"hf:{tmp_path / 'model'}"
    run_quietly(settings("clip", tmp_path / "run", method_settings={"text": {"name": name, "length": 24}}))
    run = open_run(tmp_path / "run")
    made = export_towers(run, "onnx", tmp_path / "towers")
    session = onnxruntime.InferenceSession(str(made.text), providers=["CPUExecutionProvider"])
    tokens = Tokenizer(made.tokenizer.read_text())
    for texts in (CAPTIONS, CAPTIONS[1:2]):  # filled up, and not
        (rows,) = session.run(["embeddings"], {"tokens": tokens(texts).numpy()})
        torch.testing.assert_close(torch.from_numpy(rows), run.needed_text().embed(texts), rtol=1e-4, atol=1e-5)


def test_a_model_of_images_alone_is_refused_as_a_text_encoder(tmp_path):
    transformers = pytest.importorskip("transformers", reason="transformers is not installed", exc_type=ImportError)
    vision = transformers.ViTModel(transformers.ViTConfig(**SMALL, image_size=28, patch_size=14))
    saved(transformers, tmp_path, vision)
    tokens = Tokenizer.trained(CAPTIONS, vocabulary=300).reading(8)
    with pytest.raises(SettingError, match="is no encoder of text"):
        build_text_encoder(f"hf:{tmp_path}", tokens, width=1, depth=1, pretrained=True)


def test_a_text_side_of_open_clip(tmp_path):
    open_clip = pytest.importorskip("open_clip", reason="open_clip is not installed", exc_type=ImportError)
    model = stirred(open_clip.create_model("RN50", pretrained=None))
    torch.save(model.state_dict(), tmp_path / "weights.pt")
    name = f"open_clip:RN50/{tmp_path / 'weights.pt'}"
    tokens = library_tokens(name)
    theirs = open_clip.get_tokenizer("RN50")(CAPTIONS)
    ours = tokens(CAPTIONS)
    assert torch.equal((ours - 1).clamp_min(0), theirs[:, : ours.shape[1]])
    long = ["word " * 100]
    assert torch.equal(tokens(long) - 1, open_clip.get_tokenizer("RN50")(long))
    encoder = build_text_encoder(name, tokens, width=1, depth=1, pretrained=True).eval()
    assert not any("visual" in part for part, _ in encoder.named_parameters())
    with torch.no_grad():
        assert_same(encoder(ours), model.encode_text(theirs))


def test_an_open_clip_model_with_another_tokenizer_is_refused():
    open_clip = pytest.importorskip("open_clip", reason="open_clip is not installed", exc_type=ImportError)
    assert "ViT-B-16-SigLIP" in open_clip.list_models()
    with pytest.raises(SettingError) as caught:
        library_tokens("open_clip:ViT-B-16-SigLIP/webli")
    assert "\n" not in str(caught.value)


def test_a_library_that_is_not_installed_is_named_in_a_line():
    if pytest.importorskip("importlib.util").find_spec("transformers") is not None:
        pytest.skip("transformers is installed")
    with pytest.raises(SettingError, match=r"encoder hf:some/model needs transformers, .* pip install transformers"):
        library_tokens("hf:some/model")
