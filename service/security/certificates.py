"""TLS certificate of the service."""

import ssl
from pathlib import Path

from service.errors import InvalidInput


def certified(certificate: Path, key: Path | None) -> ssl.SSLContext:
    """Build a TLS context with a certificate.

    Args:
        certificate: PEM file of the certificate and its chain.
        key: PEM file of its private key; None if it is in the same file.

    Raises:
        InvalidInput: If the files are not a certificate and its key.
    """
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(certificate, key)
    except OSError as error:
        raise InvalidInput(
            f"{certificate} is not a certificate with its key: {error}", "REEF_TLS_CERTIFICATE"
        ) from error
    return context
