"""Service: searches, evaluation, archive access, REST API, dashboard and command line."""
