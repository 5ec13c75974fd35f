"""Forked children may not use the thread pools that their parent started."""

import pytest
import torch

from workers.interpreter import warm_up


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    torch.set_num_threads(1)
    warm_up()
