"""REST under `/api/v1`, with health and metrics beside it. One file a resource; `docs/rest.md` lists the routes.

`routing` puts the resources together. This file imports none of them, so that clients can have the `schemas` without
a web framework and a database.
"""

VERSION_PREFIX = "/api/v1"
