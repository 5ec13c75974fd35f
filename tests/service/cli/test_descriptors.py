"""`reef descriptors` names the axes."""

import json

from typer.testing import CliRunner

from archive.descriptors import DESCRIPTORS
from service.cli import app


def test_every_axis_is_listed() -> None:
    listed = json.loads(CliRunner().invoke(app, ["descriptors", "list", "--json"]).stdout)
    assert [axis["name"] for axis in listed] == list(DESCRIPTORS)
    shown = CliRunner().invoke(app, ["descriptors", "list"], env={"COLUMNS": "200"}).stdout
    assert all(name in shown for name in DESCRIPTORS)
