"""Embeddings out of a run, and what they are good for: neighbours of a picture, copies of one picture."""

from __future__ import annotations

from eigenview.search.about import About
from eigenview.search.approximate import Recall
from eigenview.search.by_words import find_by_words, find_captions
from eigenview.search.contact import contact_sheet, duplicates_sheet
from eigenview.search.duplicate_sets import DoubtfulPair, DuplicateSet, DuplicateSets, Member, duplicates
from eigenview.search.embedding import Embedded, Progress, embed
from eigenview.search.looking import Looked, look
from eigenview.search.neighbour_search import (
    Answer,
    Neighbour,
    answers_json,
    caption_neighbours,
    exact_seconds,
    neighbours,
    text_neighbours,
)
from eigenview.search.pictures import open_pictures
from eigenview.search.stored import Embeddings, open_embeddings, save_embeddings
from eigenview.search.vector_files import evaluate_vectors, look_at_vectors

__all__ = [
    "About",
    "Answer",
    "DoubtfulPair",
    "DuplicateSet",
    "DuplicateSets",
    "Embedded",
    "Embeddings",
    "Looked",
    "Member",
    "Neighbour",
    "Progress",
    "Recall",
    "answers_json",
    "caption_neighbours",
    "contact_sheet",
    "duplicates",
    "duplicates_sheet",
    "embed",
    "evaluate_vectors",
    "exact_seconds",
    "find_by_words",
    "find_captions",
    "look",
    "look_at_vectors",
    "neighbours",
    "open_embeddings",
    "open_pictures",
    "save_embeddings",
    "text_neighbours",
]
