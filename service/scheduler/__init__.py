"""Searches are kept going: who holds them, how much is on its way, what comes back."""
