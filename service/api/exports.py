"""Downloads of a search: a zip file of all elites, and single kernels as runnable files."""

from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Path, Response
from fastapi.responses import StreamingResponse

from service.analysis.kernels import read_kernel
from service.api.archives import OnDevice
from service.api.dependencies import Named, Running, needs
from service.api.problems import PROBLEMS
from service.api.zip_export import export
from service.security.scopes import Scope
from workers.protocol import Operator

router = APIRouter(prefix="/searches/{id}", tags=["archives"], responses=PROBLEMS)

ZIP: dict[int | str, dict[str, Any]] = {
    200: {"content": {"application/zip": {"schema": {"type": "string", "format": "binary"}}}}
}
PYTHON: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/x-python": {"schema": {"type": "string"}, "example": "import torch\n"}}}
}

Cell = Annotated[int, Path(ge=0, lt=2**31, description="Number of a cell.")]


@router.get("/export", response_class=Response, responses=ZIP, dependencies=[needs(Scope.READ)])
async def download(search: Named, running: Running) -> StreamingResponse:
    """Stream a zip file: all elites with source, configuration, report and plans, the operator's spec, a manifest."""
    parts: AsyncIterator[bytes] = export(running.store, search)
    name = f"{search.operator_name}_{search.id}.zip"
    return StreamingResponse(
        parts, media_type="application/zip", headers={"Content-Disposition": f'attachment; filename="{name}"'}
    )


@router.get("/elites/{cell}/kernel", response_class=Response, responses=PYTHON, dependencies=[needs(Scope.READ)])
async def kernel(search: Named, cell: Cell, device: OnDevice, running: Running) -> Response:
    """Return a cell's elite as a runnable Python file: the kernel, its origin and a self-check."""
    elite = await running.store.elites.get(search.id, device, search.axes_version, cell)
    operator = Operator.model_validate_json((await running.store.operators.get(search.operator)).document)
    found = await read_kernel(running.store, search, operator, elite)
    return Response(
        found.text.encode(errors="replace"),
        media_type="text/x-python",
        headers={"Content-Disposition": f'attachment; filename="{found.name}"'},
    )
