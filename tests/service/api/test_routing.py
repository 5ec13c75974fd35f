"""Routes and their addresses; and that builders of documents need nothing that serves them."""

import subprocess
import sys

from fastapi import FastAPI

from service.api import VERSION_PREFIX
from service.api.routing import routes

OUTSIDE = {"/healthz", "/readyz", "/version", "/metrics", "/login", "/logout"}


def test_all_but_health_and_the_login_is_below_the_version() -> None:
    app = FastAPI()
    app.include_router(routes())
    paths = set(app.openapi()["paths"])
    assert f"{VERSION_PREFIX}/searches/{{id}}/archive" in paths
    assert {path for path in paths if not path.startswith(VERSION_PREFIX)} == OUTSIDE


def test_builders_need_no_framework_and_no_database() -> None:
    code = "import sys, service.api.builders; print(sorted({'fastapi', 'sqlalchemy', 'redis'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
