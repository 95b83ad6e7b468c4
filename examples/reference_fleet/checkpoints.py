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
        if kind != "sampler_weights" or not revision.isdecimal():
            raise ValueError(f"{reference!r} is no reference to sampler weights")
        return self._root / quote(run_id, safe="") / kind / f"{revision}.npz"

    def next_reference(self, run_id: str) -> str:
        """Return the name of a run's next revision: one more than the newest on disk, whoever saved that."""
        files = self._revisions(run_id)
        number = int(files[-1].stem) + 1 if files else 1
        return f"{_SCHEME}{quote(run_id, safe=':')}/sampler_weights/{number:06d}"

    def remove_old_revisions(self, run_id: str, *, keep: int) -> None:
        """Delete the oldest revisions of a run, so that the newest `keep` remain."""
        for file in self._revisions(run_id)[:-keep]:
            file.unlink(missing_ok=True)

    def _revisions(self, run_id: str) -> list[Path]:
        return sorted((self._root / quote(run_id, safe="") / "sampler_weights").glob("*.npz"))


def _parts(reference: str) -> tuple[str, str, str]:
    parts = reference.removeprefix(_SCHEME).split("/")
    if not reference.startswith(_SCHEME) or len(parts) != 3:
        raise ValueError(f"{reference!r} is no reference to saved weights")
    return unquote(parts[0]), parts[1], parts[2]
