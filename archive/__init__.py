"""The archive: searches, candidates, reports and the MAP-Elites grids, stored in a database."""
