"""``python -m eigenview``: the command line without its entry point."""

from eigenview.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
