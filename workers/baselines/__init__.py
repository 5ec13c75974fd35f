"""Baselines: what a user would run instead of a searched kernel, related to the pacer on one card.

`measure_baselines` is the bench's call; what is not in its cache it asks a `BaselineProcess` for, which is
`python -m workers.baselines`.
"""

from workers.baselines.client import BackgroundBaselines, BaselineProcess, BaselinesFailed, measure_baselines
from workers.baselines.messages import Baseline, BaselineFigure, BaselineReply, BaselineRequest

__all__ = [
    "BackgroundBaselines",
    "Baseline",
    "BaselineFigure",
    "BaselineProcess",
    "BaselineReply",
    "BaselineRequest",
    "BaselinesFailed",
    "measure_baselines",
]
