"""What Prometheus scrapes: read from what snapshots and verdict passes have computed, never from runs or records."""
