"""Who may do what: scopes, API tokens, sessions, and how often. Pure rules; `service/api` applies them to requests."""
