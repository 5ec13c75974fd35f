"""Faults say what they mean for the candidate; disagreeing lanes are no fault."""

import numpy as np

from workers.interpreter.faults import Divergence, InterpreterFault, NotInterpretable, OutOfBounds
from workers.protocol import Outcome


def test_only_a_proven_fault_blames_the_kernel():
    assert NotInterpretable("no such construct").outcome is Outcome.NOT_INTERPRETABLE
    assert OutOfBounds("loads outside").outcome is Outcome.OUT_OF_BOUNDS


def test_a_fault_carries_its_reason_and_gets_its_line_later():
    fault = OutOfBounds("loads outside 'x'")
    assert (fault.reason, fault.line, str(fault)) == ("loads outside 'x'", None, "loads outside 'x'")


def test_divergence_is_not_a_verdict():
    values = np.array([[True], [False]])
    divergence = Divergence(values)
    assert not isinstance(divergence, InterpreterFault) and divergence.values is values
