"""``python -m eigenview``: the command line without its entry point."""

from __future__ import annotations

import sys

from eigenview.cli import main

if __name__ == "__main__":
    sys.exit(main())
