"""Longest texts of the tables, in characters."""

TEXT_LENGTH = 512
RECORD_ID_LENGTH = 1_200  # a record's identity: its id, or request id, operation and finish time
