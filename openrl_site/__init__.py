"""The Django project that runs the telemetry site."""
