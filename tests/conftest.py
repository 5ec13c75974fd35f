"""Fixtures for every room: real servers, started once a session where a test asks for one."""

import os

from hypothesis import settings

from tests.postgres import postgres
from tests.redis import dispatcher, redis_server, redis_url

__all__ = ["dispatcher", "postgres", "redis_server", "redis_url"]

# Small tensors are slower on many threads, and forked children may not use a pool that their parent started. Libraries
# read this when they are first imported, by the tests or in a process that these start.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Cores are shared: how long an example takes says nothing.
settings.register_profile("shared cores", deadline=None)
settings.load_profile("shared cores")
