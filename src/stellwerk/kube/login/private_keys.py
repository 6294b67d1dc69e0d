"""Limits for the private keys of foreign kubeconfigs."""

from __future__ import annotations

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from stellwerk.kube.types.errors import LoginFailed

_LARGEST_RSA_BITS = 4_096


def check(pem: bytes) -> None:
    """Check a key before TLS uses it. Raises LoginFailed where it is unreadable, of another type, or too large."""
    try:
        key = load_pem_private_key(pem, None, unsafe_skip_rsa_key_validation=True)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise LoginFailed("the client key cannot be read: it is no PEM, is encrypted, or of an unknown kind") from error
    if isinstance(key, rsa.RSAPrivateKey):
        numbers = key.private_numbers()
        parts = (numbers.p, numbers.q, numbers.d, numbers.dmp1, numbers.dmq1, numbers.iqmp, numbers.public_numbers.n)
        if max(part.bit_length() for part in parts) > _LARGEST_RSA_BITS:
            raise LoginFailed(f"the client key is larger than {_LARGEST_RSA_BITS} bits; use ECDSA or a smaller RSA key")
    elif not isinstance(key, ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey | ed448.Ed448PrivateKey):
        raise LoginFailed("the client key is neither RSA, nor ECDSA, nor EdDSA")
