"""Fixtures for every room: real servers, started once a session where a test asks for one."""

from hypothesis import settings

from tests.postgres import postgres
from tests.redis import redis_server, redis_url

__all__ = ["postgres", "redis_server", "redis_url"]

# Cores are shared: how long an example takes says nothing.
settings.register_profile("shared cores", deadline=None)
settings.load_profile("shared cores")
