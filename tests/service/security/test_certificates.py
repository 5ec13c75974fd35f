"""A certificate is read with its key, in one file or two, and what is none is said."""

import ssl
import subprocess
from pathlib import Path

import pytest

from service.errors import InvalidInput
from service.security.certificates import certified


def made(folder: Path) -> tuple[Path, Path]:
    """A certificate for this machine, and its key."""
    files = folder / "certificate.pem", folder / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost"]
    command += ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    subprocess.run([*command, "-out", str(files[0]), "-keyout", str(files[1])], check=True, capture_output=True)
    return files


def test_a_certificate_comes_with_its_key(tmp_path: Path) -> None:
    certificate, key = made(tmp_path)
    both = tmp_path / "both.pem"
    both.write_bytes(certificate.read_bytes() + key.read_bytes())
    for context in (certified(certificate, key), certified(both, None)):
        assert context.verify_mode is ssl.CERT_NONE and context.minimum_version >= ssl.TLSVersion.TLSv1_2


def test_what_is_no_certificate_is_said(tmp_path: Path) -> None:
    certificate, _ = made(tmp_path)
    for wrong in ((certificate, None), (tmp_path / "none.pem", None)):
        with pytest.raises(InvalidInput, match="is not a certificate with its key") as caught:
            certified(*wrong)
        assert caught.value.field == "REEF_TLS_CERTIFICATE"
