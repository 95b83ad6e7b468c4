"""Read what workers recorded in Redis, keep it in PostgreSQL, and show it through a REST API and the admin."""
