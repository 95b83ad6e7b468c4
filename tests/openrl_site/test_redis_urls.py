"""URLs of Redis databases."""

import pytest
from django.core.exceptions import ImproperlyConfigured

from openrl_site.redis_urls import celery_broker_url, checked_redis_url, with_database


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("redis://h:6379", "redis://h:6379/2"),
        ("redis://:secret@h/0", "redis://:secret@h/2"),
        ("rediss://h/5?ssl_cert_reqs=none", "rediss://h/2?ssl_cert_reqs=none"),
        ("redis://h?db=7", "redis://h/2"),
        ("unix:///run/redis.sock", "unix:///run/redis.sock?db=2"),
        ("unix://:secret@/run/redis.sock?db=0", "unix://:secret@/run/redis.sock?db=2"),
    ],
)
def test_database_number_is_replaced_and_the_rest_kept(url, expected):
    assert with_database(url, 2) == expected


def test_celery_gets_its_own_form_of_a_socket_url():
    assert celery_broker_url("unix:///run/redis.sock?db=1") == "redis+socket:///run/redis.sock?virtual_host=1"
    assert celery_broker_url("redis://h/1") == "redis://h/1"


def test_other_schemes_are_refused_by_name_and_rule():
    with pytest.raises(ImproperlyConfigured, match=r"REDIS_URL='amqp://h' must start with redis://"):
        checked_redis_url("amqp://h", name="REDIS_URL")
