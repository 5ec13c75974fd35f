"""Emitters, the sources of candidates. To add one: a file with an `Emitter`, and a line in the table below."""

from service.emitters.agent import Agent
from service.emitters.base import Emitter, EmitterTrial, NoProposal, Parent, Proposal, ProposalContext
from service.emitters.cross import Cross
from service.emitters.llm import Llm
from service.emitters.rewrite import Rewrite
from service.emitters.seed import Seed
from service.emitters.tune import Tune

EMITTERS: dict[str, Emitter] = {
    "seed": Seed(),
    "tune": Tune(),
    "rewrite": Rewrite(),
    "cross": Cross(),
    "llm": Llm(),
    "agent": Agent(),
}
"""Every emitter, by the name that specs use."""

__all__ = ["EMITTERS", "Emitter", "EmitterTrial", "NoProposal", "Parent", "Proposal", "ProposalContext"]
