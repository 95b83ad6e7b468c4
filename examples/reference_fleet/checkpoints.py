"""Where weights are kept on disk: checkpoints that training goes on from, and revisions for the sampler."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote, unquote

_SCHEME = "tinker://"


class Checkpoints:
    """Paths under one folder; a run id may hold any character, so it is percent-encoded in a path."""

    def __init__(self, state_dir: Path) -> None:
        self._root = state_dir

    def newest(self, run_id: str) -> Path:
        """Return the file that a restarted trainer goes on from."""
        return self._root / quote(run_id, safe="") / "weights" / "newest.npz"

    def revision(self, reference: str) -> Path:
        """Return the file of `tinker://<run>/sampler_weights/<revision>`; the run id in it is percent-encoded.

        Raises:
            ValueError: the reference is none.
        """
        run_id, kind, revision = _parts(reference)
        if kind != "sampler_weights" or not revision.isalnum():
            raise ValueError(f"{reference!r} is no reference to sampler weights")
        return self._root / quote(run_id, safe="") / kind / f"{revision}.npz"

    def remove_revisions_before(self, reference: str, *, keep: int) -> None:
        """Delete the oldest revisions of a run, so that the newest `keep` remain."""
        files = sorted(self.revision(reference).parent.glob("*.npz"))
        for file in files[:-keep]:
            file.unlink(missing_ok=True)


def reference_to(run_id: str, revision: int) -> str:
    """Return the name that clients and the sampler use for saved weights."""
    return f"{_SCHEME}{quote(run_id, safe=':')}/sampler_weights/{revision:06d}"


def _parts(reference: str) -> tuple[str, str, str]:
    parts = reference.removeprefix(_SCHEME).split("/")
    if not reference.startswith(_SCHEME) or len(parts) != 3:
        raise ValueError(f"{reference!r} is no reference to saved weights")
    return unquote(parts[0]), parts[1], parts[2]
