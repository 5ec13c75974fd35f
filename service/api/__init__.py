"""REST under `/api/v1`, with health and metrics beside it. One file a resource; `docs/rest.md` lists the routes.

`routing` puts the resources together, `builders` fills the models of `kernelreef.models` from the archive's records.
"""

VERSION_PREFIX = "/api/v1"
