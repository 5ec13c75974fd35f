"""How the runner says no to a plan."""


class CannotRun(Exception):
    """A plan asks for what this card does not have; the message says what, to a person or an LLM."""
