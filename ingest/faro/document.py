"""The OpenAPI description of the Faro route, by hand: Litestar describes handlers, not ASGI routes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from litestar.openapi.spec import OpenAPIMediaType, OpenAPIResponse, Operation, PathItem, RequestBody, Schema
from litestar.openapi.spec.enums import OpenAPIType

from ingest.errors.document import problem_response
from ingest.faro.payload import LEFT, MAX_ITEM_BYTES, MAX_ITEMS
from ingest.faro.route import MAX_BODY_BYTES, PATH

if TYPE_CHECKING:
    from litestar import Litestar


def document_faro_route(app: Litestar) -> None:
    """Add the operation to the application's OpenAPI document; call it once all routes are registered."""
    paths = app.openapi_schema.paths
    assert paths is not None, "Litestar always builds a table of paths"
    paths[PATH] = PathItem(post=_operation())


def _operation() -> Operation:
    return Operation(
        operation_id="ReportFaroBatch",
        summary="Report what Grafana's Faro Web SDK collected",
        description=(
            "Each exception is treated as a report of its own, under the caller's email and workspace; "
            f"{', '.join(LEFT)} are counted and left. Of equal Idempotency-Keys within 60 s the first one counts."
        ),
        tags=["browser"],
        security=[{"bearer": []}],
        request_body=RequestBody(
            required=True,
            description=(
                f"One JSON object in UTF-8, at most {MAX_BODY_BYTES:,} bytes, plain or gzip; {MAX_ITEMS} exceptions of "
                f"at most {MAX_ITEM_BYTES:,} bytes each, those beyond are dropped."
            ),
            content={name: OpenAPIMediaType(schema=_batch()) for name in ("application/json", "text/plain")},
        ),
        responses={
            "202": OpenAPIResponse(
                description="Read; or not even read, for a caller at the limit. Refused items are counted."
            ),
            "400": problem_response("Not a JSON object in UTF-8, nested too deeply, or not the gzip it says it is."),
            "401": problem_response("No valid token.", "www-authenticate"),
            "403": problem_response(
                "A cookie or a proxy's session from an origin that is not allowed, or a workspace that the caller is "
                "not entitled to."
            ),
            "405": problem_response("Any method but POST.", "allow"),
            "413": problem_response(f"More than {MAX_BODY_BYTES:,} bytes, declared, sent or decoded."),
            "415": problem_response("A Content-Encoding other than gzip and identity, or another Content-Type."),
            "503": problem_response("Who is speaking can't be found out now.", "retry-after"),
        },
    )


def _batch() -> Schema:
    exceptions = Schema(description="type, value, stacktrace.frames and trace of each; the rest is ignored.")
    meta = Schema(description="page.url, app.release or app.version, app.environment; user and session are ignored.")
    return Schema(
        type=OpenAPIType.OBJECT,
        properties={"exceptions": exceptions, "meta": meta},
        examples=[
            {
                "meta": {
                    "app": {"name": "console", "version": "1.4.2", "environment": "production"},
                    "page": {"url": "https://console.example/jobs"},
                },
                "exceptions": [
                    {
                        "type": "TypeError",
                        "value": "x is undefined",
                        "stacktrace": {
                            "frames": [
                                {
                                    "filename": "https://console.example/app.js",
                                    "function": "save",
                                    "lineno": 10,
                                    "colno": 5,
                                }
                            ]
                        },
                    }
                ],
            }
        ],
    )
