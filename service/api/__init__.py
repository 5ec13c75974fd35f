"""REST under `/api/v1`, health and metrics. One file per resource; `docs/reference/rest.md` lists the routes.

`routing` puts the resources together. This file imports none of them, so that clients can have the `schemas` without
a web framework and a database.
"""

VERSION_PREFIX = "/api/v1"
