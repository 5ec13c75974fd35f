"""The certificate that the service shows, wherever it speaks TLS."""

import ssl
from pathlib import Path

from service.errors import InvalidInput


def certified(certificate: Path, key: Path | None) -> ssl.SSLContext:
    """What speaks TLS with a certificate.

    Args:
        certificate: File of it, with those that lead to it, in PEM.
        key: File of its private key; None if that is in the same file.

    Raises:
        InvalidInput: If the files are no certificate with its key.
    """
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(certificate, key)
    except OSError as error:
        raise InvalidInput(f"{certificate} is no certificate with its key: {error}", "REEF_TLS_CERTIFICATE") from error
    return context
