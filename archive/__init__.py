"""The room that remembers: searches, candidates, reports and the MAP-Elites archive."""
