"""The emitter `seed`: what TorchInductor makes of the reference, as a candidate beside the operator's own seeds."""

from typing import ClassVar

from service.emitters.base import Emitter, Proposal, ProposalContext

NOTE = "TorchInductor"
"""What was tried."""


class Seed(Emitter):
    """TorchInductor's Triton for the reference, once, before the search runs; a worker has it written in its jail."""

    name: ClassVar[str] = "seed"
    arity: ClassVar[int] = 0
    proposes_draft: ClassVar[bool] = True

    async def propose(self, context: ProposalContext) -> Proposal | None:
        """Propose the draft, or None if there is none."""
        return Proposal(context.draft, (), NOTE) if context.draft else None
