"""The REST inspection API: read-only JSON under `/api/v1/inspect`."""
