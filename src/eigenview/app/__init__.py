"""The labelling page: a small server on this machine, in front of ``choose``, ``spread`` and ``audit``."""
