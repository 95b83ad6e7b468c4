"""Answers: live records joined with history, and what could not be seen. The API and the admin show the same ones."""
