"""Tokens and text encoders: the same texts give the same tokens, padding changes nothing, bad input is refused."""

from __future__ import annotations

import json

import pytest
import torch

from eigenview.errors import DataError, SettingError, ShapeError
from eigenview.nn import TextTower, Tokenizer
from eigenview.nn.text import TextTransformer, by_length

CAPTIONS = [f"a {colour} {thing} on the {place}" for colour in "red green blue".split() for thing in "dog cat".split()
            for place in "beach grass street".split()]  # fmt: skip


@pytest.fixture(scope="module")
def tokens():
    return Tokenizer.trained(CAPTIONS, vocabulary=400).reading(12)


def test_a_tokenizer_on_which_the_library_panics_is_refused_in_one_line():
    content = json.loads(Tokenizer.trained(["a red disc", "a blue disc"] * 4, vocabulary=270).text)
    content["model"]["continuing_subword_prefix"] = "x" * 30
    with pytest.raises(DataError, match=r"^the tokenizer is no tokenizer\.json of the tokenizers library \("):
        Tokenizer(json.dumps(content))


def test_tokens_do_not_depend_on_the_order_of_the_captions(tokens):
    again = Tokenizer.trained(CAPTIONS[::-1], vocabulary=400).reading(12)
    assert again.text == tokens.text


def test_a_tokenizer_is_all_in_its_text(tokens):
    read = Tokenizer(tokens.text)
    assert (read.length, read.vocabulary, read.text) == (12, tokens.vocabulary, tokens.text)
    assert torch.equal(read(CAPTIONS[:3]), tokens(CAPTIONS[:3]))


def test_words_of_the_captions_are_few_tokens_and_any_text_has_some(tokens):
    words = tokens(["a", "red", "dog"])
    assert tokens(["a red dog"]).tolist() == [[*words[:, 0].tolist(), int(words[0, 1])]]  # with the end
    rows = tokens(["", "🐶", "שלום עולם", "word " * 10_000, "x" * 100_000, "a\0b"])
    assert ((rows > 0).sum(dim=1) > 0).all()
    assert rows.shape[1] == 12
    assert int(rows.max()) < tokens.vocabulary


def test_case_and_width_of_letters_do_not_matter(tokens):
    assert torch.equal(tokens(["A Red DOG"]), tokens(["a red ｄｏｇ"]))


def test_the_length_reads_nearly_all_captions_whole():
    tokens = Tokenizer.trained(CAPTIONS, vocabulary=400)
    assert tokens.length is None
    assert tokens.fitting_length(CAPTIONS) == max(8, *(len(row[row > 0]) for row in tokens(CAPTIONS)))
    assert tokens.fitting_length(["word " * 1000] * 10) == 77


def test_what_is_no_tokenizer_is_refused():
    for text in ("", "{}", "not json", '{"model": 3}'):
        with pytest.raises(DataError, match=r"mine.json is no tokenizer.json of the tokenizers library"):
            Tokenizer(text, place="mine.json")


def test_features_of_a_text_are_the_same_in_any_batch(tokens):
    torch.manual_seed(0)
    encoder = TextTransformer(tokens.vocabulary, 12, width=16, depth=2).double().eval()
    alone = encoder(tokens(["a red dog"]))
    among = encoder(tokens(["a red dog", "a green cat on the street"]))
    torch.testing.assert_close(among[:1], alone)


def test_texts_of_like_length_together_are_the_same_as_all_at_once(tokens):
    torch.manual_seed(0)
    encoder = TextTransformer(tokens.vocabulary, 12, width=16, depth=2).double()
    rows = tokens([*CAPTIONS, "dog", "a", "the red cat"])
    ours, theirs = by_length(encoder, rows, rows=4), encoder(rows)
    torch.testing.assert_close(ours, theirs)
    weight = encoder.token_embed.weight
    torch.testing.assert_close(*(torch.autograd.grad(value.square().sum(), weight)[0] for value in (ours, theirs)))


def test_equal_texts_have_equal_vectors_whatever_stands_beside_them(tokens):
    torch.manual_seed(0)
    tower = TextTower(
        tokens, TextTransformer(tokens.vocabulary, tokens.length, width=32, depth=1), torch.nn.Linear(32, 8)
    )
    texts = ["a dog", "a dog on the long beach with a red ball", "a cat", "a dog", "a"]
    rows = tower.embed(texts, at_once=2)
    assert torch.equal(rows[0], rows[3])
    torch.testing.assert_close(rows, tower.embed(texts), atol=1e-6, rtol=0)


def test_the_order_of_words_matters(tokens):
    torch.manual_seed(0)
    encoder = TextTransformer(tokens.vocabulary, 12, width=16, depth=1).double().eval()
    below, above = encoder(tokens(["a dog on the cat", "a cat on the dog"]))
    assert not torch.allclose(below, above)


def test_texts_too_long_and_sizes_that_are_none_are_refused(tokens):
    encoder = TextTransformer(tokens.vocabulary, 12, width=16, depth=1)
    with pytest.raises(ShapeError, match=r"takes tokens \(n, up to 12\); got \(1, 13\)"):
        encoder(torch.ones(1, 13, dtype=torch.long))
    with pytest.raises(SettingError, match="a multiple of it"):
        TextTransformer(10, 5, width=100)
