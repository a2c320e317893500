"""A token issuer on loopback: real keys, a real HTTP server for them, and the ways in which one can fail."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

AUDIENCE = "console"
CONFIGURATION = "/.well-known/openid-configuration"
KEYS = "/keys"


class Key:
    """A key pair with its place in a key set."""

    def __init__(self, alg: str, kid: str | None, **entry: Any) -> None:
        self.alg, self.kid = alg, kid
        self.private = _GENERATED.setdefault(f"{alg} {kid}", _generate(alg))
        algorithm = jwt.get_algorithm_by_name(alg)
        self.entry = {**algorithm.to_jwk(self.private.public_key(), as_dict=True), "use": "sig", "alg": alg, **entry}
        self.entry.pop("key_ops", None)
        if kid is not None:
            self.entry["kid"] = kid


_GENERATED: dict[str, Any] = {}  # making an RSA key takes a tenth of a second


def _generate(alg: str) -> Any:
    if alg[:2] in {"RS", "PS"}:
        return rsa.generate_private_key(65537, 2048)
    if alg == "EdDSA":
        return ed25519.Ed25519PrivateKey.generate()
    return ec.generate_private_key({"ES256": ec.SECP256R1, "ES384": ec.SECP384R1, "ES512": ec.SECP521R1}[alg]())


class Issuer:
    """``with Issuer(Key("RS256", "one")) as issuer``: serves its ``keys``; ``answer`` replaces what ``/keys`` does."""

    def __init__(self, *keys: Key) -> None:
        self.keys = list(keys)
        self.asked: list[str] = []
        self.answer: Callable[[BaseHTTPRequestHandler], None] | None = None
        self.arrived, self.released = threading.Event(), threading.Event()
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer.asked.append(self.path)
                issuer.arrived.set()
                try:
                    issuer._serve(self)
                except OSError:  # the client has had enough
                    self.close_connection = True

            def log_message(self, *_: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Refuse connections from now on."""
        if self._thread.is_alive():
            self.released.set()
            self._server.shutdown()
            self._thread.join()
            self._server.server_close()

    @property
    def fetches(self) -> int:
        """How often the keys were asked for."""
        return self.asked.count(KEYS)

    def document(self) -> bytes:
        """The key set."""
        return json.dumps({"keys": [key.entry for key in self.keys]}).encode()

    def token(self, key: Key | None = None, *, headers: dict[str, Any] | None = None, **claims: Any) -> bytes:
        """A token of Mina's, good for an hour; a claim or header of None is left out."""
        key = key or self.keys[0]
        kept = {
            "iss": self.url,
            "aud": AUDIENCE,
            "exp": int(time.time()) + 3600,
            "email": "mina@acme.example",
            "email_verified": True,
            "workspace": "acme",
            **claims,
        }
        head = {"kid": key.kid, **(headers or {})}
        return jwt.encode(
            {name: value for name, value in kept.items() if value is not None},
            key.private,
            algorithm=key.alg,
            headers={name: value for name, value in head.items() if value is not None},
        ).encode()

    def _serve(self, request: BaseHTTPRequestHandler) -> None:
        if request.path == CONFIGURATION:
            reply(request, json.dumps({"issuer": self.url, "jwks_uri": self.url + KEYS}).encode())
        elif self.answer is not None:
            self.answer(request)
        else:
            reply(request, self.document())

    def hang(self, request: BaseHTTPRequestHandler) -> None:
        """Never answer."""
        self.released.wait(30)

    def drip(self, request: BaseHTTPRequestHandler) -> None:
        """Send a byte now and then, so that no single read is slow."""
        request.send_response(200)
        request.end_headers()
        while not self.released.wait(0.05):
            request.wfile.write(b" ")


def reply(request: BaseHTTPRequestHandler, body: bytes = b"", status: int = 200, **headers: str) -> None:
    """A complete answer; underscores in header names stand for dashes."""
    request.send_response(status)
    for name, value in headers.items():
        request.send_header(name.replace("_", "-"), value)
    request.send_header("Content-Length", str(len(body)))
    request.end_headers()
    request.wfile.write(body)
