"""Reports about nothing that the page's owners could mend.

- ``extension``: thrown by a browser extension that runs in the page;
- ``script_error``: ``Script error.`` without a stack, all that a browser tells about a script of another
  origin that was loaded without CORS;
- ``resize_observer``: the two spellings of a warning that browsers raise as an error, and that says nothing
  went wrong: https://www.w3.org/TR/resize-observer/#deliver-resize-error
"""

from __future__ import annotations

from typing import Final, Literal, get_args

from ingest.errors.fingerprint import in_extension
from ingest.errors.report import Report
from ingest.errors.stacks import frames

Reason = Literal["extension", "script_error", "resize_observer"]

REASONS: Final[tuple[Reason, ...]] = get_args(Reason)

_LONGEST = 128
_PREFIXES = ("Uncaught ", "Error: ")
_SCRIPT_ERRORS = frozenset({"script error", "javascript error: script error. on line 0"})
_RESIZE_LOOPS = frozenset(
    {"resizeobserver loop limit exceeded", "resizeobserver loop completed with undelivered notifications"}
)


def noise(report: Report) -> Reason | None:
    """Why ``report`` is noise; None when it isn't, or nobody can tell."""
    stack = report.stack
    if "-extension:" in stack or "webkit-masked-url:" in stack:
        # The innermost frame with a file threw; extensions further out only wrapped what the page called.
        for frame in frames(stack):
            if frame.file:
                if in_extension(frame):
                    return "extension"
                break
    if len(report.message) > _LONGEST:
        return None
    message = report.message.strip()
    for prefix in _PREFIXES:
        message = message.removeprefix(prefix)
    message = message.lower().removesuffix(".")
    if message in _RESIZE_LOOPS:
        return "resize_observer"
    if message in _SCRIPT_ERRORS and next(frames(stack), None) is None:
        return "script_error"
    return None
