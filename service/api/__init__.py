"""REST under `/api/v1`, health and metrics. Each resource has a file; `docs/reference/rest.md` lists the routes.

`routing` registers the resources, and `builders` fills the models of `kernelreef.models` from the archive's records.
"""

import importlib.metadata

VERSION_PREFIX = "/api/v1"
"""Prefix of the paths of this version of the interface. Within it, changes only add."""
SOFTWARE_VERSION = importlib.metadata.version("kernelreef")
