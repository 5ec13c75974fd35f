"""REST under `/api/v1`, health and metrics. Each resource has a file; `docs/reference/rest.md` lists the routes.

`routing` registers the resources, and `builders` fills the models of `kernelreef.models` from the archive's records.
"""

VERSION_PREFIX = "/api/v1"
