"""An issuer's public keys, read from a JSON Web Key Set (RFC 7517). Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm
from jwt.exceptions import PyJWTError

MAX_KEYS: Final = 100
"""Keys that are looked at in one set."""

_FAMILIES = {"R": "RSA", "P": "RSA", "E": "EC"}
_CURVES = {"ES256": ("P-256",), "ES384": ("P-384",), "ES512": ("P-521",), "EdDSA": ("Ed25519", "Ed448")}
_READERS: Mapping[str, Any] = {"RSA": RSAAlgorithm, "EC": ECAlgorithm, "OKP": OKPAlgorithm}
_RSA_BITS = range(2048, 8192 + 1)
# Base64 of the largest modulus, so that nobody makes us read a number of a quarter of a megabyte.
_MODULUS_CHARACTERS = 1400


class SigningKey(msgspec.Struct, frozen=True):
    """One public key. ``alg`` is the only algorithm it may be used with, where the issuer says so."""

    kid: str | None
    kty: str
    crv: str | None
    alg: str | None
    public: Any

    def fits(self, alg: str) -> bool:
        """Whether a signature of ``alg`` can be this key's: its family, its curve, its own word."""
        if self.alg is not None and self.alg != alg:
            return False
        if alg == "EdDSA":
            return self.kty == "OKP" and self.crv in _CURVES[alg]
        return self.kty == _FAMILIES.get(alg[:1]) and (self.kty == "RSA" or self.crv in _CURVES.get(alg, ()))


class KeySet(msgspec.Struct, frozen=True):
    """The usable keys of an issuer, at one time. Compared by identity: another object is another set."""

    keys: tuple[SigningKey, ...]
    document: bytes

    def candidates(self, kid: str | None, alg: str) -> tuple[SigningKey, ...]:
        """The keys that may have signed. A token without ``kid`` is taken only where a single key fits."""
        fitting = tuple(key for key in self.keys if key.fits(alg) and kid in (None, key.kid))
        return fitting if kid is not None or len(fitting) == 1 else ()


def read_keys(document: bytes) -> KeySet:
    """The key set in ``document``; raises ``ValueError`` with one sentence when none of its keys can be used.

    Left out: secrets (``oct``), private keys, keys for encryption, RSA below 2048 or above 8192 bits, and whatever
    can't be read. An issuer may publish keys of kinds that are newer than we are.
    """
    try:
        found = msgspec.json.decode(document)
    except (msgspec.DecodeError, RecursionError):
        raise ValueError("the key set is not JSON") from None
    entries = found.get("keys") if isinstance(found, dict) else None
    if not isinstance(entries, list):
        raise ValueError("the key set has no list of keys")  # noqa: TRY004  (a document's fault, not a caller's)
    keys = tuple(key for entry in entries[:MAX_KEYS] if (key := _read_key(entry)) is not None)
    if not keys:
        raise ValueError("the key set holds no key that can be used")
    return KeySet(keys, document)


def _read_key(entry: object) -> SigningKey | None:
    if not isinstance(entry, dict) or "d" in entry or entry.get("use", "sig") != "sig":
        return None
    operations = entry.get("key_ops")
    kid, alg, crv = (entry.get(name) for name in ("kid", "alg", "crv"))
    kty = entry.get("kty")
    if operations is not None and not (isinstance(operations, list) and "verify" in operations):
        return None
    if not isinstance(kty, str) or kty not in _READERS:
        return None
    if not all(value is None or isinstance(value, str) for value in (kid, alg, crv)):
        return None
    if len(str(entry.get("n", ""))) > _MODULUS_CHARACTERS:
        return None
    try:
        public = _READERS[kty].from_jwk(entry)
    except (PyJWTError, ValueError, TypeError, KeyError, OverflowError):
        return None
    if isinstance(public, RSAPublicKey) and public.key_size not in _RSA_BITS:
        return None
    return SigningKey(kid, kty, crv, alg, public)
