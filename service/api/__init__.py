"""REST under `/api/v1`, health and metrics. One file per resource; `docs/reference/rest.md` lists the routes.

`routing` puts the resources together, `builders` fills the models of `kernelreef.models` from the archive's records.
"""

VERSION_PREFIX = "/api/v1"
