import pytest
from django.db import connection
def test_redis(redis_client):
    redis_client.set("a", 1)
@pytest.mark.django_db
def test_pg():
    with connection.cursor() as c:
        c.execute("select 1")
