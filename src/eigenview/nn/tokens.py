"""Byte-pair tokens of captions (Sennrich et al. 2016; over bytes, so that no text is unknown), by ``tokenizers``."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from eigenview.errors import DataError, SettingError
from eigenview.extras import extra_module
from eigenview.names import printable

PADDING = 0  # fills rows up; a token of the library's number i is i + 1 here, whatever its file calls padding
END = "<end>"  # after every text, so that none is empty
LONGEST_TEXT = 10_000  # letters; what follows is not read
LEAST, MOST = 8, 77  # tokens of a text, where the captions decide; CLIP reads 77
COVERED = 0.999  # of the captions are read whole then
AT_ONCE = 4096  # texts


def text_digest(text: str) -> str:
    """Tells one tokenizer from another."""
    return hashlib.sha256(text.encode()).hexdigest()


class Tokenizer:
    """Texts → rows of tokens. ``text`` is all of it, as the library's ``tokenizer.json``."""

    def __init__(self, text: str, *, place: str = "the tokenizer") -> None:
        self._inner = _read(text, place)
        self._inner.no_padding()
        self.text = str(self._inner.to_str(pretty=True)) + "\n"

    @classmethod
    def trained(cls, texts: Iterable[str], *, vocabulary: int) -> Tokenizer:
        """Learnt from ``texts``: the same for the same texts, whatever their order or the machine's cores."""
        library = _library()
        inner = library.Tokenizer(library.models.BPE())
        inner.normalizer = library.normalizers.Sequence([library.normalizers.NFKC(), library.normalizers.Lowercase()])
        inner.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=True)
        inner.decoder = library.decoders.ByteLevel()
        trainer = library.trainers.BpeTrainer(
            vocab_size=vocabulary,
            min_frequency=2,
            special_tokens=[END],
            initial_alphabet=sorted(library.pre_tokenizers.ByteLevel.alphabet()),
            show_progress=False,
        )
        inner.train_from_iterator((text[:LONGEST_TEXT] for text in texts), trainer)
        inner.post_processor = library.processors.TemplateProcessing(single=f"$A {END}", special_tokens=[(END, 0)])
        return cls(inner.to_str())

    def reading(self, length: int) -> Tokenizer:
        """The same, which reads ``length`` tokens of a text and no more."""
        copy = Tokenizer(self.text)
        copy._inner.enable_truncation(length)
        copy.text = str(copy._inner.to_str(pretty=True)) + "\n"
        return copy

    @property
    def vocabulary(self) -> int:
        """How many numbers :meth:`__call__` may give, padding among them."""
        return 2 + int(max(self._inner.get_vocab().values()))

    @property
    def length(self) -> int | None:
        """Tokens of a text that are read; None: all."""
        limits = self._inner.truncation
        return None if limits is None else int(limits["max_length"])

    def __call__(self, texts: Sequence[str]) -> Tensor:
        """(n, longest of them) int64, filled up with ``PADDING``."""
        rows = [[1 + number for number in encoding.ids] for encoding in self._encoded(texts)]
        tokens = torch.full((len(rows), max(map(len, rows), default=1)), PADDING)
        for place, row in enumerate(rows):
            if not row:
                raise DataError(f"the text {printable(texts[place][:60])!r} has no token; write some words")
            tokens[place, : len(row)] = torch.tensor(row)
        return tokens

    def fitting_length(self, texts: Iterable[str]) -> int:
        """How many tokens to read so that nearly all of ``texts`` are read whole."""
        waiting, counts = iter(texts), list[int]()
        while some := list(islice(waiting, AT_ONCE)):
            counts += [len(encoding.ids) for encoding in self._encoded(some)]
        counts.sort()
        if not counts:
            return MOST
        return max(LEAST, min(MOST, counts[min(len(counts) - 1, int(COVERED * len(counts)))]))

    def _encoded(self, texts: Sequence[str]) -> Any:
        return self._inner.encode_batch([text[:LONGEST_TEXT] for text in texts])


def open_clip_tokenizer(theirs: Any, name: str) -> Tokenizer:
    """CLIP's byte pairs as open_clip has them, but for what ftfy would mend; its other tokenizers are refused."""
    if type(theirs).__name__ != "SimpleTokenizer" or theirs.clean_fn.__name__ != "_clean_lower" or theirs.reduction_fn:
        raise SettingError(f"{name} reads by {type(theirs).__name__}, which is not known here: take its hf: twin")
    library = _library()
    inner = library.Tokenizer(
        library.models.BPE(vocab=dict(theirs.encoder), merges=list(theirs.bpe_ranks), end_of_word_suffix="</w>")
    )
    straight = [("\\s+", " "), ("[\u2018\u2019]", "'"), ("[\u201c\u201d]", '"')]
    replaced = [library.normalizers.Replace(library.Regex(what), by) for what, by in straight]
    inner.normalizer = library.normalizers.Sequence(
        [library.normalizers.NFC(), *replaced, library.normalizers.Lowercase()]
    )
    split = library.pre_tokenizers.Split(library.Regex(theirs.pat.pattern), behavior="removed", invert=True)
    as_bytes = library.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    inner.pre_tokenizer = library.pre_tokenizers.Sequence([split, as_bytes])
    ends = [(token, theirs.encoder[token]) for token in ("<start_of_text>", "<end_of_text>")]
    inner.post_processor = library.processors.TemplateProcessing(
        single=f"{ends[0][0]} $A {ends[1][0]}", special_tokens=ends
    )
    return Tokenizer(inner.to_str(), place=name).reading(theirs.context_length)


def _read(text: str, place: str) -> Any:
    try:
        return _library().Tokenizer.from_str(text)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # the library raises nothing narrower, and where it panics not even an Exception
        reason = str(error).splitlines()[0][:120]
        raise DataError(f"{place} is no tokenizer.json of the tokenizers library ({reason})") from None


def _library() -> Any:
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # its threads do not survive the fork of data workers
    return extra_module("tokenizers", extra="words", purpose="learning from captions")
