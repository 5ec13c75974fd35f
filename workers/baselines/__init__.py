"""Baselines: what a user would run instead of a searched kernel, related to the pacer on one card.

`measure_baselines` is the bench's call; what is not in its cache it asks a `BaselineProcess` for, which is
`python -m workers.baselines`.
"""

from workers.baselines.asking import BaselineProcess, BaselinesFailed, measure_baselines
from workers.baselines.messages import Baseline, Figure, Reply, Request

__all__ = ["Baseline", "BaselineProcess", "BaselinesFailed", "Figure", "Reply", "Request", "measure_baselines"]
