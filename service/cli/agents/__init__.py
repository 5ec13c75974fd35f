"""Tools for coding agents: an MCP server that is a client of the service's REST interface, and nothing more."""
