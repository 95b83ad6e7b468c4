"""A run's records as files: tables, and traces for Perfetto."""
