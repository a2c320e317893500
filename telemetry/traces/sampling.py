"""The sampler that ``OTEL_TRACES_SAMPLER`` names (SDK environment variable specification)."""

from __future__ import annotations

from opentelemetry.sdk.trace import sampling

NAMES = (
    "always_on",
    "always_off",
    "traceidratio",
    "parentbased_always_on",
    "parentbased_always_off",
    "parentbased_traceidratio",
)


def sampler(name: str, argument: float | None) -> sampling.Sampler:
    """The sampler called ``name``; ``argument`` is the ratio (0 to 1, default 1) of those that take one.

    Raises:
        KeyError: no standard sampler has that name (``Config`` has refused it before).
    """
    ratio = 1.0 if argument is None else argument
    roots = {
        "always_on": sampling.ALWAYS_ON,
        "always_off": sampling.ALWAYS_OFF,
        "traceidratio": sampling.TraceIdRatioBased(ratio),
    }
    if name.startswith("parentbased_"):
        return sampling.ParentBased(roots[name.removeprefix("parentbased_")])
    return roots[name]
