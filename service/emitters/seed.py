"""The emitter `seed`: TorchInductor's kernel for the reference, as a candidate beside the operator's own seeds."""

from typing import ClassVar

from service.emitters.base import Emitter, Proposal, ProposalContext

NOTE = "TorchInductor"
"""Note of its proposals."""


class Seed(Emitter):
    """Source of one candidate before the search runs: TorchInductor's Triton code, written in a worker's sandbox."""

    name: ClassVar[str] = "seed"
    arity: ClassVar[int] = 0
    plants: ClassVar[bool] = True

    async def propose(self, brief: ProposalContext) -> Proposal | None:
        """Propose the draft, or None if there is none."""
        return Proposal(brief.draft, (), NOTE) if brief.draft else None
