"""The emitter `seed`: TorchInductor's kernel for the reference, as a candidate beside the operator's own seeds."""

from typing import ClassVar

from service.emitters.base import Emitter, Proposal, ProposalContext

NOTE = "TorchInductor"
"""Note of its proposals."""


class Seed(Emitter):
    """Source of one candidate before the search runs: TorchInductor's Triton code, written in a worker's sandbox."""

    name: ClassVar[str] = "seed"
    arity: ClassVar[int] = 0
    proposes_draft: ClassVar[bool] = True

    async def propose(self, context: ProposalContext) -> Proposal | None:
        """Propose the draft, or None if there is none."""
        return Proposal(context.draft, (), NOTE) if context.draft else None
