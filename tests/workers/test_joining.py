"""Joining as the worker sees it, against a real HTTP server that answers what a test decides."""

import json
import re
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from workers.errors import Dismissed, QueueUnavailable
from workers.joining import SPOKEN, ServiceAddress, machine_secret

ADMISSION = {"worker": "w", "redis_url": "redis://queue:6379", "password": "secret", "ca": None, "protocol_version": 1}
Answer = Callable[[int, Any], ServiceAddress]


@pytest.fixture
def answering() -> Iterator[tuple[Answer, list[dict[str, Any]]]]:
    """Starts a service that always answers the same, and what it was asked."""
    asked: list[dict[str, Any]] = []
    servers: list[HTTPServer] = []

    def start(status: int, body: Any) -> ServiceAddress:
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers.get("Content-Length", 0))
                said = self.rfile.read(length)
                asked.append(
                    {"path": self.path, "token": self.headers["Authorization"], "body": said and json.loads(said)}
                )
                text = body if isinstance(body, bytes) else json.dumps(body).encode()
                self.send_response(status)
                self.end_headers()
                self.wfile.write(text)

            def do_GET(self) -> None:
                self.do_POST()

            def log_message(self, *_: object) -> None:
                pass

        server = HTTPServer(("127.0.0.1", 0), Handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return ServiceAddress(f"http://127.0.0.1:{server.server_port}/", "reef_token")

    yield start, asked
    for server in servers:
        server.shutdown()
        server.server_close()


def test_a_token_becomes_a_credential(answering: tuple[Answer, list[dict[str, Any]]]) -> None:
    start, asked = answering
    credential = start(201, ADMISSION).join(target="sm_90", device=None)
    assert (credential.worker, credential.redis_url, credential.password) == ("w", "redis://queue:6379", "secret")
    [request] = asked
    assert (request["path"], request["token"]) == ("/api/v1/workers/join", "Bearer reef_token")
    body = request["body"]
    assert (body["target"], body["device"], body["protocol_versions"]) == ("sm_90", None, list(SPOKEN))
    assert body["cores"] >= 1 and body["name"] and "redis" in body["versions"]


def test_the_standing_is_asked_for_by_id(answering: tuple[Answer, list[dict[str, Any]]]) -> None:
    start, asked = answering
    assert start(200, {"worker": "w", "state": "revoked"}).status("w") == "revoked"
    assert asked[0]["path"] == "/api/v1/workers/w/status"
    told = {"worker": "w", "state": "left", "reason": "it speaks protocol 1"}
    assert start(200, told).status("w") == "left: it speaks protocol 1"
    assert start(200, {**told, "state": "active"}).status("w") == "active"


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_what_may_pass_is_waited_for(answering: tuple[Answer, list[dict[str, Any]]], status: int) -> None:
    with pytest.raises(QueueUnavailable, match="cannot answer now"):
        answering[0](status, {"detail": "later"}).join(target="sm_90", device=None)


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (401, {"detail": "nobody knows this token"}, "nobody knows this token"),
        (409, {"detail": "install a newer kernelreef on the worker"}, "install a newer kernelreef"),
        (404, b"<html>not here</html>", "status 404"),
        (302, {}, "refuses"),
        (201, {"hello": "world"}, "is it a Kernelreef service"),
        (201, [1], "is it a Kernelreef service"),
    ],
)
def test_what_will_not_pass_ends_the_worker_with_the_reason(
    answering: tuple[Answer, list[dict[str, Any]]], status: int, body: Any, said: str
) -> None:
    with pytest.raises(Dismissed, match=said):
        answering[0](status, body).join(target="sm_90", device=None)


def test_a_service_that_is_away_is_waited_for() -> None:
    service = ServiceAddress("http://127.0.0.1:1", "reef_token")
    with pytest.raises(QueueUnavailable, match="does not answer"):
        service.status("w")
    assert "reef_token" not in repr(service)


@pytest.mark.parametrize(
    ("url", "exposed"),
    [("http://reef.example:8700", True), ("http://127.0.0.1:8700", False), ("https://reef.example", False)],
)
def test_a_token_that_travels_unprotected_is_noticed(url: str, exposed: bool) -> None:
    assert ServiceAddress(url, "reef_token").exposes_token is exposed


def test_a_machine_is_known_again_by_what_only_its_user_can_read(tmp_path: Path) -> None:
    first = machine_secret(tmp_path / "cache")
    assert first is not None and re.fullmatch(r"[A-Za-z0-9_-]{43}", first)
    assert machine_secret(tmp_path / "cache") == first
    [file] = (tmp_path / "cache").iterdir()
    assert file.stat().st_mode & 0o777 == 0o600 and (tmp_path / "cache").stat().st_mode & 0o777 == 0o700
    assert machine_secret(tmp_path / "other") != first
    (tmp_path / "file").touch()
    assert machine_secret(tmp_path / "file") is None, "where nothing can be kept a worker joins all the same"
