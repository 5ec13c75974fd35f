"""Baselines: what a user would run instead of a searched kernel, related to the pacer on one card.

`measure_baselines` is the bench's call; it starts `python -m workers.baselines` for what is not in its cache.
"""

from workers.baselines.asking import BaselinesFailed, measure_baselines
from workers.baselines.messages import Baseline, Figure

__all__ = ["Baseline", "BaselinesFailed", "Figure", "measure_baselines"]
