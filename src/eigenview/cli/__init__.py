"""The command line: one thin file per verb. Nothing heavy is imported before a verb needs it."""

from eigenview.cli.entry import main

__all__ = ["main"]
