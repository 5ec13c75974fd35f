"""Policies that choose parents among the elites. A new one takes a file with a `SelectionPolicy`, and a line below."""

from archive.policies.base import CellContext, Held, ParentChoice, SelectionPolicy
from archive.policies.curious import Curious
from archive.policies.optimistic import Optimistic
from archive.policies.target_cell import TargetCell
from archive.policies.uniform import Uniform

__all__ = ["POLICIES", "CellContext", "Held", "ParentChoice", "SelectionPolicy"]

POLICIES: dict[str, SelectionPolicy] = {
    policy.name: policy for policy in (Uniform(), Curious(), Optimistic(), TargetCell())
}
"""Every policy, by name."""
