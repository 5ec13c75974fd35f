"""Which elite becomes a parent. To add a policy: a file with a `Policy`, and a line in the table below."""

from archive.policies.base import Choice, Held, Policy, Surroundings
from archive.policies.curious import Curious
from archive.policies.optimistic import Optimistic
from archive.policies.target_cell import TargetCell
from archive.policies.uniform import Uniform

__all__ = ["POLICIES", "Choice", "Held", "Policy", "Surroundings"]

POLICIES: dict[str, Policy] = {policy.name: policy for policy in (Uniform(), Curious(), Optimistic(), TargetCell())}
"""Every policy, by name."""
