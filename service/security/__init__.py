"""Access control: scopes, API tokens, sessions and rate limits. `service/api` applies these rules to requests."""
