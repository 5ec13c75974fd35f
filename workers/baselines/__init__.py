"""Baselines: the alternatives to a searched kernel, timed beside the pacer on one card.

The executor calls `measure_baselines`. Figures missing from its cache come from a `BaselineProcess`, which runs `python
-m workers.baselines`.
"""

from workers.baselines.client import (
    BackgroundBaselines,
    BaselineProcess,
    BaselinesFailed,
    measure_baselines,
    measure_copy,
)
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
    "measure_copy",
]
