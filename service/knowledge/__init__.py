"""Lessons of ended searches, and advice for the next."""
