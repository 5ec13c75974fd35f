"""Generation: the choice of emitter and parents for the next candidate, and the context that an emitter gets."""
