"""The command line and the agents' tools over the inspection API: what a fleet does, without a browser."""

from __future__ import annotations

__version__ = "0.1.0"
__all__ = ["__version__"]
