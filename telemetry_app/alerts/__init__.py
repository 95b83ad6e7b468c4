"""Alerts: rules pick incidents, notices become messages, and channels carry them. `docs/alerts.md` says what holds."""
