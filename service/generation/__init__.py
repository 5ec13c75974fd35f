"""The next candidate: which emitter, which parents, what a model is told."""
