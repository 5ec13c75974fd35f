"""The room that decides: what to try next, and what is promoted."""
