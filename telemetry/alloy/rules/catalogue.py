"""Every rule by name, with what it is about; the docs and ``fleetglass: allow`` know the same names."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

RULES: Mapping[str, str] = {
    # What Alloy itself refuses, when it validates or when it starts.
    "syntax": "the text is not Alloy",
    "unknown-component": "no such component, module or block",
    "unknown-attribute": "the block has no such attribute",
    "unknown-block": "the block has no such block",
    "unknown-reference": "a name that does not exist, or is out of scope",
    "unknown-export": "the component exports something else",
    "unknown-function": "the standard library has no such function",
    "unknown-argument": "the module has no such argument",
    "missing-attribute": "a required attribute is missing",
    "missing-block": "a required block is missing",
    "missing-argument": "a required argument of a module is missing",
    "repeated": "an attribute or block stands twice where it may stand once",
    "duplicate": "two blocks have one name and label",
    "label": "a label is missing, or stands where none is taken",
    "misplaced": "a block that can't stand here",
    "wrong-kind": "a value of another kind than is taken, a receiver of another signal among them",
    "bad-value": "a duration, size, number or name that can't be read",
    "circle": "components that refer to each other in a circle",
    "stability": "less stable than what Alloy was told to allow",
    "deprecated": "an old name that Alloy's validate refuses",
    "import": "an import that can't be followed",
    "at-start": "settings that Alloy refuses only when it builds the component",
    "not-in-table": "a component that exists and is not checked",
    # What Alloy starts with.
    "port": "the port speaks another protocol, or belongs to another server",
    "path": "a URL whose path this component's server does not have",
    "address": "an address without what the component needs: a scheme, a host",
    "tls": "a gRPC exporter that expects TLS of a plain host",
    "empty-env": "an address from a variable that has no default",
    "localhost": "a receiver that only this machine can reach",
    "unreached": "a component that nothing sends to or uses",
    "nowhere": "a component whose output goes nowhere",
    "payload-label": "a label with a value for each user or request",
    "label-count": "more labels than Loki takes",
    "replicas": "tail sampling whose replicas see parts of traces",
    "sampled-metrics": "metrics derived from spans after sampling",
    "every-node": "each replica reads the logs of all nodes, or none reads them",
    "old-lines": "lines that Loki refuses as too old after a restart",
    "open-door": "a receiver for browsers that takes anything from anybody",
    "livedebugging": "live debugging left on",
    # About the check itself.
    "upstream": "said by the alloy on PATH",
    "allow": "a comment that means to allow a rule and doesn't",
}


class Options(msgspec.Struct, frozen=True):
    """How a check is meant.

    ``stability`` is the least trusted level that Alloy will be started with (``stable``, ``preview``,
    ``experimental``), ``replicas`` how many of it run (0: not said), ``local`` that nothing outside of this
    machine has to reach it, ``as_one`` that the files of a folder are one configuration. ``at`` maps folders
    as Alloy will see them (mounted in its container) to where they lie here, for imports.
    """

    stability: str = "stable"
    replicas: int = 0
    local: bool = False
    as_one: bool = False
    at: tuple[tuple[str, str], ...] = ()
