"""The values file of alerts: what is wrong is said with file, line and place, and nothing is ignored."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from telemetry.catalogue import HTTP_DURATION_BUCKETS
from telemetry.grafana.alerts.values import _MEANT, Latency, Service, Values, ValuesError, parse, read

EXAMPLE = Path(__file__).parents[2] / "examples" / "alerts" / "values.yaml"
HEAD = "runbooks: https://docs.example/runbooks\ndashboards: https://grafana.example\n"


def refused(text: str, head: str = HEAD) -> str:
    with pytest.raises(ValuesError) as caught:
        parse(head + text, "alerts.yaml")
    return str(caught.value)


def test_the_example_can_be_read():
    values = read(EXAMPLE)
    assert values.services[0] == Service(
        "windforce-server", availability=0.999, latency=Latency(threshold=0.5, objective=0.99), browser_errors=True
    )
    assert [service.name for service in values.services] == [
        "windforce-server",
        "gshare",
        "windforce-worker",
        "windforce-observer",
    ]
    assert values.services[2].slos == ()
    assert values.jobs[-1] == "grafana"
    assert values.routing is not None
    assert values.routing.routes[0].match == {"severity": "critical"}


def test_two_addresses_are_all_that_is_needed():
    values = parse(HEAD)
    assert (values.services, values.exporters, values.contact_points, values.routing) == ((), (), (), None)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("service: []\n", "alerts.yaml:3: service: no such key; did you mean services?"),
        (
            "services:\n  - name: a\n    availabilty: 0.999\n",
            "alerts.yaml:5: services[0].availabilty: no such key; did you mean availability?",
        ),
        (
            "services:\n  - name: a\n    availability: high\n",
            "alerts.yaml:5: services[0].availability: expected a number, got text",
        ),
        ("services:\n  - availability: 0.999\n", "alerts.yaml:4: services[0]: name is missing"),
        (
            "services:\n  - {name: a b}\n",
            "alerts.yaml:4: services[0].name: expected a name of letters, digits and _ . : / -",
        ),
        (
            "services:\n  - name: a\n    availability: 99.9\n",
            "alerts.yaml:5: services[0].availability: expected a share from 0.931 to below 1, such as 0.999",
        ),
        (
            "services:\n  - name: a\n    latency: {threshold: 0.5, objective: 0.9}\n",
            "alerts.yaml:5: services[0].latency.objective: expected a share from 0.931 to below 1, such as 0.999",
        ),
        (
            "services:\n  - {name: a}\n  - {name: b}\n  - name: a\n",
            "alerts.yaml:6: services[2].name: a stands here twice",
        ),
        ("exporters:\n  - {kind: nod, job: n}\n", "alerts.yaml:4: exporters[0].kind: no such kind; did you mean node?"),
        (
            "exporters:\n  - {kind: x, job: n}\n",
            "alerts.yaml:4: exporters[0].kind: no such kind, there are alloy, flux",
        ),
        (
            "exporters:\n  - {kind: node, job: n, metric: a-b}\n",
            "alerts.yaml:4: exporters[0].metric: expected the name of a metric",
        ),
        (
            "exporters:\n  - {kind: other, job: n}\n",
            "alerts.yaml:4: exporters[0]: of kind other, metric must be said: what it always has",
        ),
        (
            "exporters:\n  - {kind: node, job: n}\n  - {kind: alloy, job: n}\n",
            "alerts.yaml:5: exporters[1].job: n stands here twice",
        ),
        ("tenants: {logs: a b}\n", "alerts.yaml:3: tenants.logs: expected a tenant"),
        ("dashboards: https://other\n", "alerts.yaml:3: dashboards stands here twice"),
        ("services: [\n", "alerts.yaml:4: "),
        ("- 1\n", "alerts.yaml:3: "),
        ("services:\n", "alerts.yaml:3: services: expected a list, got nothing"),
        (
            "services: [{name: on}]\n",
            "alerts.yaml:3: services[0].name: expected text, got true or false: put it into quotes",
        ),
        ("services: [{name: 2026-01-01}]\n", "alerts.yaml:3: services[0].name: expected text, got a date: put it into"),
        ("services: [{name: [a]}]\n", "alerts.yaml:3: services[0].name: expected text, got a list"),
        ("services: [a]\n", "alerts.yaml:3: services[0]: expected keys with values, got text"),
        ("services: !!python/name:os.system x\n", "alerts.yaml:3: this is no plain value"),
        ("services: [{name: 2026-13-45}]\n", "alerts.yaml:3: this is no plain value"),
        ("services: *a\n", "alerts.yaml:3: found undefined alias 'a'"),
        ("\0\n", "alerts.yaml:1: this is no YAML"),
        ("? [a]\n: 1\n", "alerts.yaml:3: a key must be a word"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(text: str, said: str):
    assert refused(text).startswith(said)


def test_an_address_is_needed_and_must_be_one():
    assert refused("", "dashboards: https://grafana.example\n") == "alerts.yaml:1: runbooks is missing"
    assert refused("", "") == "alerts.yaml:1: the file is empty; runbooks and dashboards are needed at least"
    assert "alerts.yaml:1: runbooks: expected an http or https address" in refused("", HEAD.replace("https", "ftp", 1))


def test_a_latency_threshold_is_a_bound_of_the_histogram():
    said = refused("services:\n  - name: a\n    latency:\n      objective: 0.99\n      threshold: 0.3\n")
    assert said.startswith("alerts.yaml:7: services[0].latency.threshold: expected a bound of the histogram")
    assert all(f"{bound:g}" in said for bound in HTTP_DURATION_BUCKETS)


CHAT = "contact_points:\n  - {name: chat, kind: slack, url: %s}\nrouting: {default: chat}\n"


def test_secrets_are_refused_and_placeholders_taken():
    values = parse(HEAD + CHAT % '"${SLACK_URL}"')
    assert values.contact_points[0].settings == {"url": "${SLACK_URL}"}
    said = refused(CHAT % "https://hooks.slack.example/T0/B0/secret")
    expected = "expected ${NAME} of an environment variable; secrets don't stand in this file"
    assert said == f"alerts.yaml:4: contact_points[0].url: {expected}"
    assert "secret" not in said.replace("secrets", "")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("contact_points: [{name: a, kind: pager}]\n", "contact_points[0].kind: no such kind; did you mean pagerduty?"),
        (
            "contact_points: [{name: a, kind: webhook, url: http://u:p@h}]\n",
            "contact_points[0].url: expected an http or https address, or ${NAME}",
        ),
        ("routing: {default: a, routes: [{match: {severity: $x}, to: a}]}\n", "routing.routes[0].match"),
        ("routing: {default: a, routes: [{match: {}, to: a}]}\n", "routing.routes[0].match"),
        ("routing: {default: a, group_wait: soon}\n", "routing.group_wait: expected a duration such as 30s"),
        ("contact_points: [{name: a, kind: email, addresses: []}]\n", "contact_points[0].addresses: "),
        (
            "contact_points: [{name: a, kind: email, addresses: [a@b.example]}]\n",
            "contact_points: nothing goes to them",
        ),
        (
            "contact_points: [{name: a, kind: email, addresses: [a]}]\n",
            "contact_points[0].addresses[0]: expected one address of mail",
        ),
        ("contact_points: [{name: $a, kind: slack}]\n", "contact_points[0].name: expected text without $"),
        ("alertmanager: {smarthost: mail}\n", "alertmanager.smarthost: expected host:port"),
        ("alertmanager: {secrets: here}\n", "alertmanager.secrets: expected a folder, from / on"),
        ("alertmanager: {sender: me}\n", "alertmanager.sender: expected one address of mail"),
        ("routing: {default: a, group_by: [Job]}\n", "routing.group_by[0]: expected the name of a label"),
        ("routing: {default: nobody}\n", "routing.default: no contact point is called 'nobody'"),
    ],
)
def test_contact_points_and_routing_fit(text: str, said: str):
    assert refused(text).startswith(f"alerts.yaml:3: {said}")


def test_a_route_leads_to_a_contact_point_that_is_there():
    routes = CHAT % '"${URL}"' + "" + "  # end\n"
    text = routes.replace(
        "{default: chat}", "\n  default: chat\n  routes:\n    - match: {severity: critical}\n      to: chta\n"
    )
    assert refused(text) == "alerts.yaml:9: routing.routes[0].to: no contact point is called 'chta'; did you mean chat?"


def test_all_that_does_not_fit_is_said_at_once():
    said = refused("services:\n  - {name: a, availability: 2}\n  - {name: a, availability: 0.5}\n")
    assert [line.split(": ")[1] for line in said.splitlines()] == [
        "services[0].availability",
        "services[1].availability",
        "services[1].name",
    ]


def test_a_document_that_holds_itself_is_refused():
    assert "nested too deep" in refused("services: &a [*a]\n")


def patterns(kind: msgspec.inspect.Type) -> Iterator[str]:
    """The patterns of all texts in a type."""
    if isinstance(kind, msgspec.inspect.StrType) and kind.pattern is not None:
        yield kind.pattern
    for part in (getattr(kind, name, None) for name in ("key_type", "value_type", "item_type", "type")):
        if isinstance(part, msgspec.inspect.Type):
            yield from patterns(part)
    for part in (*getattr(kind, "types", ()), *(field.type for field in getattr(kind, "fields", ()))):
        yield from patterns(part)


def test_every_pattern_is_told_in_words():
    found = set(patterns(msgspec.inspect.type_info(Values)))
    assert len(found) > 10
    assert found == _MEANT.keys()
