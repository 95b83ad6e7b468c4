"""The commands of `openrl-inspect`, one module each."""
