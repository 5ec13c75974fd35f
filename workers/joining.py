"""Joining: a remote worker exchanges a token for its id and its own user of the queue. Standard library only.

POST {url}/api/v1/workers/join            description of the worker -> id, queue, password
GET  {url}/api/v1/workers/{id}/status     the worker's state, requested when the queue refuses it
"""

import http.client
import importlib.metadata
import json
import os
import secrets
import socket
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

from workers.errors import Dismissed, QueueUnavailable
from workers.protocol import PROTOCOL_VERSION
from workers.queue import QueueCredential

SPOKEN = (PROTOCOL_VERSION,)
"""Versions of the protocol that this worker speaks."""
ANSWER_S = 30.0
"""Seconds that the service may take to answer."""
MOST_BYTES = 1 << 20
"""Maximum length of an answer that is read."""
PACKAGES = ("kernelreef", "torch", "triton", "numpy", "redis")
"""Packages whose versions the service shows and may ask for."""
NOT_NOW = (429, 500, 502, 503, 504)
"""Statuses after which the same request may succeed later."""
STANDING = ("active", "draining")
"""States in which a worker may work."""
PREFIX = "/api/v1/workers"


@dataclass(frozen=True)
class ServiceAddress:
    """Address of the service, with the credentials to join it.

    Attributes:
        url: Address, such as `https://reef.example:8700`.
        token: Token with the scope `worker`.
        machine: Secret shared by all workers of this machine and user; None if it cannot be stored.
    """

    url: str
    token: str = field(repr=False)
    machine: str | None = field(default=None, repr=False)

    @property
    def exposes_token(self) -> bool:
        """True if anyone on the network path to the service could read the token."""
        parts = urlsplit(self.url)
        return parts.scheme == "http" and parts.hostname not in ("127.0.0.1", "::1", "localhost")

    def join(self, *, target: str | None, device: str | None) -> QueueCredential:
        """Join the service.

        Args:
            target: Compile target that this worker traces for; None if it does not trace.
            device: Name of the device that it measures on; None if it measures nothing.

        Raises:
            QueueUnavailable: If the service does not answer now.
            Dismissed: If it refuses this worker; says why and what to do.
        """
        body: dict[str, object] = {
            "name": socket.gethostname()[:128] or "worker",
            "protocol_versions": SPOKEN,
            "target": target,
            "device": device,
            "versions": _versions(),
            "cores": len(os.sched_getaffinity(0)),
            "machine": self.machine,
        }
        said = self._ask("POST", f"{PREFIX}/join", body)
        try:
            return QueueCredential(said["worker"], said["redis_url"], said["password"], said["ca"])
        except (KeyError, TypeError) as error:
            raise Dismissed(f"{self.url} did not answer with a credential; is it a Kernelreef service?") from error

    def status(self, worker: str) -> str:
        """Ask for a worker's state: one of `STANDING`, or why it may not work.

        Raises:
            QueueUnavailable: If the service does not answer now.
            Dismissed: If it refuses this worker.
        """
        said = self._ask("GET", f"{PREFIX}/{worker}/status")
        state, reason = str(said.get("state")), said.get("reason")
        return f"{state}: {reason}" if reason and state not in STANDING else state

    def _ask(self, method: str, path: str, body: dict[str, object] | None = None) -> dict[str, Any]:
        parts = urlsplit(self.url)
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        try:
            connection = self._connect(parts)
            connection.request(method, f"{parts.path.rstrip('/')}{path}", json.dumps(body) if body else None, headers)
            answer = connection.getresponse()
            status, text = answer.status, answer.read(MOST_BYTES)
            connection.close()
        except ssl.SSLCertVerificationError as error:
            advice = "set SSL_CERT_FILE to a file with the certificate of its issuer"
            reason = f"its certificate is not trusted: {error.verify_message}"
            raise Dismissed(f"{self.url}: {reason}; {advice}") from error
        except (OSError, http.client.HTTPException) as error:
            raise QueueUnavailable(f"{self.url} does not answer: {error}") from error
        return self._read(status, text)

    def _connect(self, parts: SplitResult) -> http.client.HTTPConnection:
        if parts.scheme == "https":
            context = ssl.create_default_context()
            return http.client.HTTPSConnection(parts.hostname or "", parts.port, timeout=ANSWER_S, context=context)
        return http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=ANSWER_S)

    def _read(self, status: int, text: bytes) -> dict[str, Any]:
        try:
            said = json.loads(text)
        except ValueError:
            said = None
        if not isinstance(said, dict):
            said = {"detail": f"status {status}, and no JSON object"}
        if status in NOT_NOW:
            raise QueueUnavailable(f"{self.url} cannot answer now: {said.get('detail')}")
        if status >= 300:
            raise Dismissed(f"{self.url} refuses: {said.get('detail')}")
        return said


def machine_secret(folder: Path) -> str | None:
    """Return the secret that identifies this machine's workers; the first one creates it. None if it cannot be stored.

    Args:
        folder: Folder of the file with the secret, which only this user can read.
    """
    path, fresh = folder / "machine", secrets.token_urlsafe(32)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            made = Path(f"{path}.{os.getpid()}")
            made.touch(mode=0o600, exist_ok=True)
            made.write_text(fresh)
            os.link(made, path)  # Atomic, and never overwrites another worker's.
        except FileExistsError:
            pass
        finally:
            made.unlink(missing_ok=True)
        return path.read_text().strip() or None
    except OSError:
        return None


def _versions() -> dict[str, str]:
    """Return the versions of the installed `PACKAGES`."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
