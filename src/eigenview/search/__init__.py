"""Embeddings out of a run, and what they are good for: neighbours of a picture, copies of one picture."""

from eigenview.search.contact import contact_sheet, duplicates_sheet
from eigenview.search.duplicate_sets import DuplicateSets, duplicates
from eigenview.search.embedding import embed
from eigenview.search.looking import look, look_at_vectors
from eigenview.search.neighbour_search import Answer, answers_json, find_by_words, find_captions, neighbours
from eigenview.search.pictures import open_pictures
from eigenview.search.scoring import evaluate_vectors
from eigenview.search.stored import Embeddings, open_embeddings

__all__ = [
    "Answer",
    "DuplicateSets",
    "Embeddings",
    "answers_json",
    "contact_sheet",
    "duplicates",
    "duplicates_sheet",
    "embed",
    "evaluate_vectors",
    "find_by_words",
    "find_captions",
    "look",
    "look_at_vectors",
    "neighbours",
    "open_embeddings",
    "open_pictures",
]
