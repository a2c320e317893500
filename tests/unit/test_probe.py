"""The probe's decisions: which way each signal goes, what an answer holds, and which sentence fits what was seen."""

from __future__ import annotations

import base64
import json
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest

from telemetry.catalogue import METRICS
from telemetry.config import load
from telemetry.probe import answers, report
from telemetry.probe.answers import METRIC, Marks, found, request, same_id
from telemetry.probe.plan import derived, plan
from telemetry.probe.records import Contact, Expected, Found, Outcome, Query, Read, Route, Sent
from telemetry.probe.verdicts import absent, hopeless, judge
from telemetry.probe.wire import skew

TRACE = "00c1cbe02a5b8f0f35f4a51ac6ba3843"
MARKS = Marks(TRACE, "p0123456789abcdef", 1796051011.22)
EXPECTED = Expected("shop", "shop", "shop-0", 20.0)
SETTINGS: dict[str, object] = {}


def routes(environ: dict[str, str], settings: dict[str, object] | None = None) -> dict[str, Route]:
    loaded = load({"service": "shop"}, environ)
    return {route.signal: route for route in plan(loaded.config, settings or {})}


# --- which way, and where to read -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("signal", "sent_to", "expected"),
    [
        ("logs", "http://loki:3100/loki/api/v1/push", ("http://loki:3100", "loki", "push")),
        ("logs", "http://gw/logs/loki/api/v1/push", ("http://gw/logs", "loki", "push")),
        ("logs", "http://loki:3100/otlp/v1/logs", ("http://loki:3100", "loki", "push")),
        ("logs", "http://vl:9428/insert/loki/api/v1/push", ("http://vl:9428", "victorialogs", "push")),
        ("logs", "http://vl:9428/insert/opentelemetry/v1/logs", ("http://vl:9428", "victorialogs", "push")),
        ("logs", "http://alloy:4318/v1/logs", ("http://alloy:3100", "loki", "guess")),
        ("metrics", "http://vm:8428/api/v1/import/prometheus", ("http://vm:8428", "metrics", "push")),
        ("metrics", "http://vm:8428/opentelemetry/v1/metrics", ("http://vm:8428", "metrics", "push")),
        ("metrics", "http://alloy:4318/v1/metrics", ("http://alloy:8428", "metrics", "guess")),
        (
            "metrics",
            "http://vminsert:8480/insert/0/prometheus/api/v1/import/prometheus",
            ("http://vminsert:8480/select/0/prometheus", "metrics", "push"),
        ),
        ("traces", "https://tempo:4318/v1/traces", ("https://tempo:3200", "tempo", "guess")),
        ("traces", "http://[::1]:4317", ("http://[::1]:3200", "tempo", "guess")),
    ],
)
def test_where_a_signal_is_read_follows_from_where_it_is_sent(signal, sent_to, expected):
    assert derived(signal, sent_to) == expected


def test_each_signal_says_which_setting_gives_its_address():
    found = routes(
        {
            "OTEL_EXPORTER_OTLP_ENDPOINT": "http://alloy:4318",
            "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://vm:8428/opentelemetry/v1/metrics",
            "OTEL_METRICS_EXPORTER": "otlp",
        }
    )
    assert {signal: (route.path, route.url, route.setting) for signal, route in found.items()} == {
        "traces": ("OTLP over HTTP", "http://alloy:4318/v1/traces", "OTEL_EXPORTER_OTLP_ENDPOINT"),
        "logs": ("OTLP over HTTP", "http://alloy:4318/v1/logs", "OTEL_EXPORTER_OTLP_ENDPOINT"),
        "metrics": (
            "OTLP over HTTP",
            "http://vm:8428/opentelemetry/v1/metrics",
            "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
        ),
    }


def test_nothing_configured_is_said_for_each_signal():
    found = routes({})
    assert all(route.unsent for route in found.values())
    assert "OTEL_EXPORTER_OTLP_ENDPOINT" in found["traces"].unsent
    assert "FLEETGLASS_LOKI_URL" in found["logs"].unsent
    assert "FLEETGLASS_METRICS_PUSH_URL" in found["metrics"].unsent


@pytest.mark.parametrize(
    ("environ", "signal", "word"),
    [
        ({"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://a:4318"}, "traces", "OTEL_SDK_DISABLED"),
        ({"OTEL_LOGS_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://a:4318"}, "logs", "OTEL_LOGS_EXPORTER"),
        ({"OTEL_METRICS_EXPORTER": "none", "FLEETGLASS_METRICS_PUSH_URL": "http://v:8428"}, "metrics", "push address"),
    ],
)
def test_a_signal_that_is_switched_off_says_by_what(environ, signal, word):
    assert word in routes(environ)[signal].unsent


def test_the_tenant_goes_along_to_any_host_and_credentials_only_to_their_own():
    environ = {
        "FLEETGLASS_LOKI_URL": "http://u:secret@push:3100",
        "FLEETGLASS_LOKI_TENANT": "team",
    }
    same = routes(environ, {"loki_query_url": "http://push:3101"})["logs"].query
    other = routes(environ, {"loki_query_url": "http://elsewhere:3100"})["logs"].query
    told = routes(environ, {"loki_query_url": "http://me:mine@elsewhere:3100"})["logs"].query
    assert (same.url, same.headers.keys()) == ("http://push:3101", {"x-scope-orgid", "authorization"})
    assert other.headers == {"x-scope-orgid": "team"}
    assert told.headers.keys() == {"x-scope-orgid", "authorization"}
    assert told.url == "http://elsewhere:3100"
    assert same.headers["authorization"] != told.headers["authorization"]


def test_headers_for_reading_win_over_those_of_the_push():
    environ = {"FLEETGLASS_LOKI_URL": "http://loki:3100", "FLEETGLASS_LOKI_TENANT": "team"}
    query = routes(environ, {"query_headers": {"x-scope-orgid": "other"}})["logs"].query
    assert query.headers == {"x-scope-orgid": "other"}


def test_victorialogs_is_known_by_its_path():
    environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://alloy:4318"}
    query = routes(environ, {"loki_query_url": "http://vl:9428/select/logsql"})["logs"].query
    assert (query.reader, query.url) == ("victorialogs", "http://vl:9428")


# --- asking and reading -----------------------------------------------------------------------------------


def query(reader: str, **headers: str) -> Query:
    return Query(reader, "http://store:1234", headers, "setting", "FLEETGLASS_X_QUERY_URL")


def test_a_trace_is_asked_for_by_id_since_search_leaves_out_the_last_half_minute():
    assert request(query("tempo"), MARKS, EXPECTED).url == f"http://store:1234/api/traces/{TRACE}"


def test_samples_are_asked_for_raw_so_that_no_latency_offset_hides_them():
    asked = parse_qs(urlsplit(request(query("metrics"), MARKS, EXPECTED).url).query)
    assert asked["query"] == [f'{METRIC}{{attempt!="p0123456789abcdef-0"}}[1200s]']
    assert asked["nocache"] == ["1"]
    assert float(asked["time"][0]) > MARKS.value + 60


def test_a_service_name_with_quotes_stays_one_string_in_logql():
    odd = msgspec.structs.replace(EXPECTED, service='a"b\\c')
    asked = parse_qs(urlsplit(request(query("loki"), MARKS, odd).url).query)
    assert asked["query"] == ['{service_name="a\\"b\\\\c"} |= "p0123456789abcdef"']


def test_the_probe_metric_is_in_the_catalogue():
    assert METRICS[METRIC].kind == "gauge"


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (TRACE, TRACE.lstrip("0"), True),  # Tempo's search strips zeros
        (TRACE, TRACE.upper(), True),
        (TRACE, base64.b64encode(bytes.fromhex(TRACE)).decode(), True),
        (TRACE, "1" + TRACE[1:], False),
        (TRACE, "", False),
        (TRACE, "not a number", False),
        ("f" * 40, "f" * 40, False),
    ],
)
def test_trace_ids_are_compared_as_numbers(one, other, same):
    assert same_id(one, other) is same


def _trace(trace_id: str) -> dict[str, object]:
    attributes = [
        {"key": "service.name", "value": {"stringValue": "shop"}},
        {"key": "service.instance.id", "value": {"stringValue": "shop-0"}},
        {"key": "process.pid", "value": {"intValue": "7"}},
    ]
    return {"resource": {"attributes": attributes}, "scopeSpans": [{"spans": [{"traceId": trace_id}]}]}


@pytest.mark.parametrize(
    "document",
    [
        {"batches": [_trace(base64.b64encode(bytes.fromhex(TRACE)).decode())]},
        {"trace": {"resourceSpans": [_trace(TRACE.lstrip("0"))]}},
    ],
    ids=["v1", "v2"],
)
def test_a_trace_is_read_from_both_forms_of_tempos_answer(document):
    seen = found(query("tempo"), MARKS, json.dumps(document).encode())
    assert (seen.service, seen.instance, seen.labels["process.pid"]) == ("shop", "shop-0", "7")


def test_another_trace_is_not_taken_for_ours():
    assert found(query("tempo"), MARKS, json.dumps({"batches": [_trace("ab" * 16)]}).encode()) is None


def test_a_line_is_read_with_labels_and_metadata_apart():
    values = [["1", "msg=probe probe=p0123456789abcdef", {"structuredMetadata": {"service_instance_id": "shop-0"}}]]
    body = {"data": {"result": [{"stream": {"service_name": "shop"}, "values": values}]}}
    assert found(query("loki"), MARKS, json.dumps(body).encode()) == Found("shop", "shop-0", {"service_name": "shop"})


def test_a_sample_of_an_earlier_run_is_not_taken_for_ours():
    def body(value: str) -> bytes:
        series = {"metric": {"__name__": METRIC, "job": "shop", "instance": "shop-0"}, "values": [[1, value]]}
        return json.dumps({"data": {"result": [series]}}).encode()

    assert found(query("metrics"), MARKS, body("1796050990.24")) is None
    assert found(query("metrics"), MARKS, body("1796051011.22")).labels == {"job": "shop", "instance": "shop-0"}


@pytest.mark.parametrize("reader", ["tempo", "loki", "victorialogs", "metrics"])
@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"[]", b'{"data":{"result":[{}]}}', b'{"batches":[{"scopeSpans":3}]}']
)
def test_an_answer_of_something_else_is_no_find_and_no_crash(reader, body):
    assert found(query(reader), MARKS, body) is None


def test_labels_of_something_else_are_none():
    assert answers.labels(b"<html>") == []
    assert answers.labels(b'{"data":["app","service_name"]}') == ["app", "service_name"]


def test_strays_are_looked_for_by_each_label_that_loki_knows():
    asked = [
        parse_qs(urlsplit(each.url).query)["query"][0]
        for each in answers.strays(query("loki"), MARKS, ["app", "service_name", "__stream_shard__"])
    ]
    assert asked == ['{service_name=~".+"} |= "p0123456789abcdef"', '{app=~".+"} |= "p0123456789abcdef"']


# --- verdicts ---------------------------------------------------------------------------------------------

LOKI = Route(
    signal="logs",
    kind="loki",
    path="Loki push",
    url="http://loki:3100/loki/api/v1/push",
    setting="FLEETGLASS_LOKI_URL",
    query=Query("loki", "http://loki:3100", {}, "push", "FLEETGLASS_LOKI_QUERY_URL"),
)
PUSH = Route(
    signal="metrics",
    kind="push",
    path="push of Prometheus text",
    url="http://vm:8428/api/v1/import/prometheus",
    setting="FLEETGLASS_METRICS_PUSH_URL",
    query=Query("metrics", "http://vm:8428", {}, "push", "FLEETGLASS_METRICS_QUERY_URL"),
)
HTTP = Route(
    signal="traces",
    kind="otlp-http",
    path="OTLP over HTTP",
    url="http://tempo:4318/v1/traces",
    setting="OTEL_EXPORTER_OTLP_ENDPOINT",
    query=Query("tempo", "http://tempo:3200", {}, "guess", "FLEETGLASS_TEMPO_QUERY_URL"),
)
GRPC = msgspec.structs.replace(HTTP, kind="otlp-grpc", path="OTLP over gRPC", url="http://tempo:4317")
DELIVERED = Sent("delivered", 0.1)


def unsent(route: Route, error: str = "", url: str = "", **seen: object) -> Outcome:
    contact = Contact(url=url or route.url, **seen) if seen else None  # type: ignore[arg-type]
    return judge(route, EXPECTED, Sent("refused" if "answered" in error else "waiting", 1.0, error, contact), None)


CASES = {
    "a name that does not resolve": (unsent(LOKI, reach="unresolved"), "unresolved", "loki does not resolve"),
    "a refused connection": (unsent(HTTP, reach="refused"), "refused", "Nothing listens at tempo:4318"),
    "a black hole": (unsent(PUSH, reach="timeout"), "unreachable", "vm:8428 does not take a connection"),
    "no route": (unsent(PUSH, reach="unreachable", detail="OSError: no route"), "unreachable", "no route"),
    "a port that is silent": (unsent(PUSH, reach="silent"), "silent", "says nothing"),
    "gRPC port spoken HTTP": (
        unsent(HTTP, url="http://tempo:4317/v1/traces", reach="garbled", speaks="http2"),
        "protocol",
        "tempo:4317 speaks gRPC, not HTTP/1.1: use the port of OTLP over HTTP (4318)",
    ),
    "Loki's gRPC port": (
        unsent(LOKI, url="http://loki:9095/loki/api/v1/push", reach="garbled", speaks="http2"),
        "protocol",
        "use Loki's HTTP port (3100)",
    ),
    "HTTP port spoken gRPC": (
        unsent(GRPC, "OTLP answered UNAVAILABLE: x", reach="answered", speaks="http1"),
        "protocol",
        "speaks HTTP/1.1, not gRPC: use the port of OTLP over gRPC (4317)",
    ),
    "neither HTTP nor gRPC": (unsent(LOKI, reach="garbled", detail="BadStatusLine: SSH"), "protocol", "not HTTP"),
    "TLS port spoken plain": (unsent(LOKI, reach="garbled", speaks="tls"), "tls", "write https://"),
    "a Go server that wants TLS": (
        unsent(LOKI, "Loki answered 400: Client sent an HTTP request to an HTTPS server."),
        "tls",
        "write https://",
    ),
    "plain port spoken TLS": (
        unsent(GRPC, "OTLP answered UNAVAILABLE: x", "https://tempo:4317", reach="answered", speaks="http2"),
        "tls",
        "OTEL_EXPORTER_OTLP_INSECURE=true",
    ),
    "a certificate nobody knows": (
        unsent(LOKI, url="https://loki/push", reach="tls", speaks="tls", detail="self-signed certificate"),
        "tls",
        "(self-signed certificate)",
    ),
    "a wrong path": (unsent(HTTP, "OTLP answered 404: 404 page not found"), "path", "takes traces at /v1/traces"),
    "a path VictoriaMetrics has not": (
        unsent(PUSH, 'the metrics import answered 400: unsupported path requested: "/x"'),
        "path",
        "/api/v1/import/prometheus",
    ),
    "another gRPC service": (
        unsent(GRPC, "OTLP answered UNIMPLEMENTED: unknown service"),
        "path",
        "the port of something else",
    ),
    "no tenant": (unsent(LOKI, "Loki answered 401: no org id"), "tenant", "FLEETGLASS_LOKI_TENANT"),
    "no tenant over gRPC": (
        unsent(GRPC, "OTLP answered UNAUTHENTICATED: no org id"),
        "tenant",
        "x-scope-orgid in OTEL_EXPORTER_OTLP_HEADERS",
    ),
    "no credentials": (unsent(LOKI, "Loki answered 401: Unauthorized"), "auth", "FLEETGLASS_LOKI_USER"),
    "no credentials over gRPC": (
        unsent(GRPC, "OTLP answered PERMISSION_DENIED: no"),
        "auth",
        "OTEL_EXPORTER_OTLP_HEADERS",
    ),
    "a login page": (
        unsent(
            LOKI,
            "Loki answered 302, a redirect to /login: give the final push URL",
            reach="answered",
            status=302,
            location="/login",
        ),
        "redirect",
        "a redirect to /login",
    ),
    "a limit": (unsent(LOKI, "Loki answered 429: Ingestion rate limit exceeded"), "limit", "rate limit"),
    "a clock that is behind": (
        unsent(LOKI, "Loki answered 400: entry has timestamp too old: 2026", reach="answered", status=204, skew=7300.0),
        "clock",
        "(its clock is 2 h ahead of ours)",
    ),
    "a clock that is ahead": (
        unsent(LOKI, "Loki answered 400: entry has timestamp too new: 2026"),
        "clock",
        "refused the time of the record",
    ),
    "a record refused": (unsent(LOKI, "Loki answered 400: max line size"), "rejected", "max line size"),
    "a backend that starts": (unsent(LOKI, "Loki answered 503: starting"), "rejected", "is not ready"),
    "no answer, and none later": (
        unsent(LOKI, "TimeoutError: no whole answer in time", reach="answered", status=204),
        "lost",
        "no whole answer in time",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_each_failure_on_the_way_out_gets_its_sentence(case):
    outcome, trouble, words = CASES[case]
    assert (outcome.state, outcome.trouble, outcome.late) == ("failed", trouble, None)
    assert words in outcome.sentence


def arrived(route: Route, service: str, instance: str, skew: float | None = 0.2, /, **labels: str) -> Outcome:
    return judge(route, EXPECTED, DELIVERED, Read(Found(service, instance, labels), 1.5, None, skew))


def test_what_arrives_as_it_was_sent_has_no_sentence():
    for route in (LOKI, PUSH, HTTP):
        outcome = arrived(route, "shop", "" if route is LOKI else "shop-0")
        assert (outcome.state, outcome.trouble, outcome.sentence, outcome.late) == ("arrived", None, "", 1.5)


WRONG = {
    "another service": (arrived(HTTP, "shop-proxy", "shop-0"), "identity", 'resource.service.name="shop-proxy"'),
    "another job": (arrived(PUSH, "otel", "shop-0", job="otel"), "identity", 'job="otel" instead of "shop"'),
    "another instance": (arrived(PUSH, "shop", "vm:8428", job="shop"), "identity", 'instance="vm:8428"'),
    "an unknown service in Loki": (
        arrived(LOKI, "unknown_service", "", service_name="unknown_service"),
        "label",
        'service_name="unknown_service" instead of service_name="shop"',
    ),
    "no service in Loki": (arrived(LOKI, "", "", app="x"), "label", 'it has: app="x"'),
    "no service in Tempo": (arrived(HTTP, "", "", host="x"), "label", "no resource.service.name"),
    "VictoriaMetrics' own OTLP": (
        arrived(PUSH, "", "", service_name="shop"),
        "label",
        "VictoriaMetrics' own OTLP endpoint makes none",
    ),
    "no job": (arrived(PUSH, "", "", instance="a"), "label", "without the label job"),
    "no instance": (arrived(PUSH, "shop", "", job="shop"), "label", "without the label instance"),
    "a clock ahead": (arrived(HTTP, "shop", "shop-0", 61.0), "clock", "tempo:3200 is 61 s ahead of ours"),
    "a clock behind": (arrived(HTTP, "shop", "shop-0", -900.0), "clock", "15 min behind ours"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_arrives_otherwise_gets_its_sentence(case):
    outcome, trouble, words = WRONG[case]
    assert (outcome.state, outcome.trouble, outcome.late) == ("failed", trouble, 1.5)
    assert words in outcome.sentence


def unread(route: Route, tenant: str = "", skew: float | None = None, **seen: object) -> Outcome:
    answer = Contact(url=route.query.url + "/q?query=x", **seen)  # type: ignore[arg-type]
    return judge(route, EXPECTED, DELIVERED, Read(None, 0.0, answer, skew, tenant))


EMPTY = {"reach": "answered", "status": 200, "body": b'{"data":{"result":[]}}'}
TENANT = msgspec.structs.replace(
    LOKI, query=Query("loki", "http://loki:3100", {"x-scope-orgid": "b"}, "push", "FLEETGLASS_LOKI_QUERY_URL")
)
LOST = {
    "no Tempo at the guessed address": (
        unread(HTTP, reach="refused"),
        "refused",
        "That address was guessed: set FLEETGLASS_TEMPO_QUERY_URL",
    ),
    "not an API of Tempo's": (
        unread(HTTP, reach="answered", status=404, body=b"404 page not found"),
        "path",
        "Tempo's API lies at /api/traces",
    ),
    "a trace that Tempo does not know": (
        unread(HTTP, reach="answered", status=404, body=b"trace not found"),
        "lost",
        "Acknowledged by tempo:4318, but not in Tempo at tempo:3200 after 20 s: a collector between them drops it",
    ),
    "a push that nobody reads": (unread(PUSH, **EMPTY), "lost", "look at its log, its limits and its retention"),
    "reading needs a tenant": (
        unread(LOKI, reach="answered", status=401, body=b"no org id"),
        "tenant",
        "x-scope-orgid in FLEETGLASS_QUERY_HEADERS",
    ),
    "reading needs credentials": (
        unread(PUSH, reach="answered", status=401),
        "auth",
        "can't be read back. http://vm:8428/q answered 401: give credentials in FLEETGLASS_QUERY_HEADERS",
    ),
    "another tenant": (unread(TENANT, "a", **EMPTY), "tenant", "under tenant a, but is read under tenant b"),
    "not under that tenant": (unread(TENANT, **EMPTY), "lost", "under tenant b after 20 s"),
    "not found, and the clocks differ": (unread(LOKI, skew=-3600.0, **EMPTY), "clock", "60 min behind ours"),
}


@pytest.mark.parametrize("case", LOST)
def test_each_failure_on_the_way_back_gets_its_sentence(case):
    outcome, trouble, words = LOST[case]
    assert (outcome.state, outcome.trouble, outcome.late) == ("failed", trouble, None)
    assert words in outcome.sentence


def test_every_sentence_is_one_and_ends_as_one():
    for outcome, _, _ in [*CASES.values(), *WRONG.values(), *LOST.values()]:
        assert outcome.sentence.endswith((".", '".')), outcome.sentence
        assert "None" not in outcome.sentence
        assert outcome.sentence.isprintable()


def test_credentials_in_an_address_are_never_shown():
    secret = msgspec.structs.replace(LOKI, url="http://u:hunter2@loki:3100/x?token=hunter2")
    outcome = unsent(secret, "Loki answered 404: no")
    assert "hunter2" not in repr(outcome)


@pytest.mark.parametrize(
    ("answer", "again"),
    [
        (Contact(url="x", reach="refused"), True),
        (Contact(url="x", reach="answered", status=503), True),
        (Contact(url="x", reach="answered", status=429), True),
        (Contact(url="x", reach="answered", status=200), True),
        (Contact(url="x", reach="answered", status=404, body=b"trace not found"), True),
        (Contact(url="x", reach="answered", status=404, body=b"404 page not found"), False),
        (Contact(url="x", reach="answered", status=401), False),
        (Contact(url="x", reach="answered", status=302), False),
    ],
)
def test_an_answer_that_will_not_change_is_not_waited_for(answer, again):
    assert hopeless("tempo", answer) is not again
    assert not (hopeless("tempo", answer) and absent("tempo", answer))


@pytest.mark.parametrize(
    ("date", "expected"),
    [("Mon, 30 Nov 2026 15:01:00 GMT", 60.0), (None, None), ("yesterday", None)],
)
def test_the_clock_of_a_server_is_read_from_its_date(date, expected):
    assert skew(date, 1796050800.0) == expected


# --- report -----------------------------------------------------------------------------------------------


def test_the_exit_status_says_arrived_failed_or_nothing_to_do():
    good, bad = arrived(HTTP, "shop", "shop-0"), unsent(LOKI, reach="refused")
    off = judge(Route(signal="metrics", unsent="Not set."), EXPECTED, None, None)
    assert report.status([good, off]) == 0
    assert report.status([good, off], ("metrics",)) == 1
    assert report.status([good, bad, off]) == 1
    assert report.status([off, off, off]) == 2


def test_the_table_shows_path_delay_identity_and_a_sentence_for_each_failure():
    shown = report.table([arrived(HTTP, "shop", "shop-0"), unsent(LOKI, reach="refused")], EXPECTED, TRACE)
    lines = shown.splitlines()
    assert lines[1].split("  ")[0] == "traces"
    assert "http://tempo:4318/v1/traces   yes      1.5 s" in lines[1]
    assert lines[1].endswith("resource.service.name=shop resource.service.instance.id=shop-0")
    assert TRACE in shown
    assert "\nlogs: Nothing listens at loki:3100" in shown
    assert max(map(len, lines)) <= 160
