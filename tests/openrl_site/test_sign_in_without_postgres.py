"""Signing in while PostgreSQL, which knows the users, is out."""

import pytest
from django.db import OperationalError


@pytest.mark.django_db
def test_a_sign_in_without_postgres_says_that_nobody_can_until_it_answers(client, monkeypatch):
    def out(*_, **__):
        raise OperationalError("connection refused")

    monkeypatch.setattr("unfold.forms.AuthenticationForm.clean", out)
    answer = client.post("/admin/login/", {"username": "admin", "password": "right"})
    assert answer.status_code == 200
    assert "nobody can sign in until it answers" in answer.content.decode()
