"""What a Python user holds: a run and embeddings, with the verbs of the command line as methods."""

from eigenview.faces.embeddings import Embeddings, open_embeddings
from eigenview.faces.run import Run, compare, look, open_encoder, open_run
from eigenview.faces.training import create_encoder, list_encoders, list_methods, list_views, sweep, train

__all__ = [
    "Embeddings",
    "Run",
    "compare",
    "create_encoder",
    "list_encoders",
    "list_methods",
    "list_views",
    "look",
    "open_embeddings",
    "open_encoder",
    "open_run",
    "sweep",
    "train",
]
