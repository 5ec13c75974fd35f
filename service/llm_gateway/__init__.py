"""Language models are asked: money set aside, limits kept, answers kept, and what came of it."""
