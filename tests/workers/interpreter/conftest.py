"""Forked children find what the interpreter needs ready."""

import pytest

from workers.interpreter import warm_up


@pytest.fixture(autouse=True, scope="session")
def warm():
    warm_up()
