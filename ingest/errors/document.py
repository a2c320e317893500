"""The OpenAPI description of the errors route, by hand: Litestar describes handlers, not ASGI routes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from litestar.openapi.spec import (
    OpenAPIHeader,
    OpenAPIMediaType,
    OpenAPIResponse,
    Operation,
    PathItem,
    Reference,
    RequestBody,
    Schema,
)
from litestar.openapi.spec.enums import OpenAPIType

from ingest.errors.report import KINDS, MAX_REPEAT
from ingest.errors.route import MAX_BODY_BYTES, PATH

if TYPE_CHECKING:
    from litestar import Litestar

_ANY_JSON = "Null, numbers and other JSON are kept as text."


def document_errors_route(app: Litestar) -> None:
    """Add the operation to the application's OpenAPI document; call it once all routes are registered."""
    paths = app.openapi_schema.paths
    assert paths is not None, "Litestar always builds a table of paths"
    paths[PATH] = PathItem(post=_operation())


def _operation() -> Operation:
    return Operation(
        operation_id="ReportBrowserError",
        summary="Report a browser error",
        description=(
            "Writes one log line with the caller's email and workspace. The reader is lenient: unknown keys are "
            "ignored, of equal keys the last one counts, half surrogates become '?', values of a wrong type are "
            "coerced. The credentials are checked before the body is read."
        ),
        tags=["browser"],
        security=[{"bearer": []}],
        request_body=RequestBody(
            required=True,
            description=f"One JSON object in UTF-8, at most {MAX_BODY_BYTES:,} bytes, uncompressed; as JSON, as a "
            "beacon's plain text, or without a Content-Type.",
            content={name: OpenAPIMediaType(schema=_report()) for name in ("application/json", "text/plain")},
        ),
        responses={
            "204": OpenAPIResponse(
                description="Logged; or counted as a repeat, to be logged when its window ends; or dropped as noise."
            ),
            "400": problem_response("Not a JSON object in UTF-8, or nested too deeply."),
            "401": problem_response("No valid token.", "www-authenticate"),
            "403": problem_response(
                "A cookie or a proxy's session from an origin that is not allowed, or a workspace that the caller is "
                "not entitled to."
            ),
            "405": problem_response("Any method but POST.", "allow"),
            "413": problem_response(f"More than {MAX_BODY_BYTES:,} bytes, declared or counted."),
            "415": problem_response("A Content-Encoding other than identity, or another Content-Type."),
            "429": problem_response(
                "More reports than the caller, or all callers together, may send; Retry-After says in how many "
                "seconds to try again.",
                "retry-after",
            ),
            "503": problem_response("Who is speaking can't be found out now.", "retry-after"),
        },
    )


def _report() -> Schema:
    text = {
        "message": f"What went wrong. {_ANY_JSON}",
        "stack": f"Frames, innermost first, as the engine wrote them. {_ANY_JSON}",
        "url": "Where it happened; query and fragment are dropped.",
        "build": "The build mode: production or development.",
        "release": "The console's release, when the page opted in.",
    }
    properties = {name: Schema(description=description) for name, description in text.items()}
    return Schema(
        type=OpenAPIType.OBJECT,
        properties={
            "kind": Schema(description=f"One of {', '.join(KINDS)}; anything else counts as 'other'."),
            **properties,
            "trace_id": Schema(description="32 hex digits of the trace of the failing call; else ignored."),
            "repeat": Schema(description=f"Occurrences this report stands for, clamped to 1-{MAX_REPEAT}; else 1."),
        },
        examples=[
            {
                "kind": "error",
                "message": "TypeError: x is undefined",
                "stack": "TypeError: x is undefined\n    at save (https://console.example/app.js:10:5)",
                "url": "https://console.example/jobs",
                "build": "production",
            }
        ],
    )


def problem_response(description: str, header: str | None = None) -> OpenAPIResponse:
    """A response whose body is a problem (RFC 9457), with ``header`` in it."""
    schema = Schema(
        type=OpenAPIType.OBJECT,
        required=["title", "status", "detail"],
        properties={
            "title": Schema(type=OpenAPIType.STRING),
            "status": Schema(type=OpenAPIType.INTEGER),
            "detail": Schema(type=OpenAPIType.STRING, description="One sentence."),
        },
    )
    headers: dict[str, OpenAPIHeader | Reference] | None = None
    if header is not None:
        headers = {header: OpenAPIHeader(schema=Schema(type=OpenAPIType.STRING))}
    return OpenAPIResponse(
        description=description,
        headers=headers,
        content={"application/problem+json": OpenAPIMediaType(schema=schema)},
    )
