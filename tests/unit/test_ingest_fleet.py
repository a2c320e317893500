"""The console's reads over HTTP: who may read, what comes, and that a request asks nobody but the observer."""

from __future__ import annotations

import threading

import msgspec
import pytest
import schemathesis
from hypothesis import settings as examples
from litestar import Litestar
from litestar.testing import TestClient
from schemathesis.specs.openapi.checks import negative_data_rejection

from ingest.app import IngestPlugin, create_app
from ingest.principal import Principal, Unavailable
from ingest.routes.fleet import COVERAGE_PATH, FLEET_PATH
from ingest.settings import Settings
from telemetry.config import ConfigError
from telemetry.fleet.console import coverage_view, fleet_view
from telemetry.fleet.facts import CoverageView, FleetView
from tests.unit.test_fleet_console import snapshot

PATHS = [FLEET_PATH, COVERAGE_PATH]
TOKENS = {
    "0perator": Principal("root@acme.example", "acme", ("member", "super_admin")),
    "m3mber": Principal("mina@acme.example", "acme", ("member",)),
    "sre": Principal("sre@acme.example", "acme", ("platform-sre",)),
}
SETTINGS = Settings(tokens=TOKENS)
OPERATOR = {"authorization": "Bearer 0perator"}


def client(settings: Settings = SETTINGS, **more) -> TestClient:
    return TestClient(create_app(settings, fleet=more.pop("fleet", snapshot), **more))


@pytest.mark.parametrize("path", PATHS)
def test_without_a_token_nothing_is_told(path):
    with client() as http:
        for headers in ({}, {"authorization": "Bearer wrong"}):
            answer = http.get(path, headers=headers)
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"] == "Bearer"
            assert answer.headers["content-type"].startswith("application/problem+json")
            assert answer.json()["detail"].startswith("A valid token is required")


@pytest.mark.parametrize("path", PATHS)
def test_a_refusal_is_no_fault_of_the_service(path, caplog):
    with client() as http:
        http.get(path)
        http.get(path, headers={"authorization": "Bearer m3mber"})
    assert not [record for record in caplog.records if record.levelname in {"ERROR", "CRITICAL"}]


@pytest.mark.parametrize("path", PATHS)
def test_a_member_is_forbidden_and_a_super_admin_is_not(path):
    with client() as http:
        refused = http.get(path, headers={"authorization": "Bearer m3mber"})
        assert (refused.status_code, refused.json()["title"]) == (403, "Forbidden")
        assert "groups" not in refused.text
        assert http.get(path, headers=OPERATOR).status_code == 200


@pytest.mark.parametrize("path", PATHS)
def test_the_operator_says_which_roles_may_read(path):
    with client(Settings(tokens=TOKENS, admin_roles=("platform-sre", "root"))) as http:
        assert http.get(path, headers={"authorization": "Bearer sre"}).status_code == 200
        assert http.get(path, headers=OPERATOR).status_code == 403


def test_roles_come_from_the_environment():
    assert Settings.load({}, {"FLEETGLASS_ADMIN_ROLES": "sre, root"}).admin_roles == ("sre", "root")
    assert Settings.load({}, {}).admin_roles == ("super_admin",)
    with pytest.raises(ConfigError):
        Settings(admin_roles=("a\nb",))


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_reads_are_read_only(path, method):
    with client() as http:
        assert http.request(method, path, headers=OPERATOR).status_code == 405


@pytest.mark.parametrize("path", PATHS)
def test_who_is_speaking_cannot_be_found_out_is_503_and_not_403(path, caplog):
    async def away(scope):
        raise Unavailable("the issuer is away")

    with client(resolver=away) as http:
        for _ in range(3):
            answer = http.get(path, headers=OPERATOR)
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "10")
    assert len([record for record in caplog.records if record.levelname == "ERROR"]) == 1


def test_the_fleet_is_told_as_the_view_says():
    with client() as http:
        answer = http.get(FLEET_PATH, headers=OPERATOR)
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers["cache-control"] == "no-store"
        assert msgspec.json.decode(answer.content, type=FleetView) == fleet_view(snapshot())
        heavy = next(each for each in answer.json()["groups"] if each["group"] == "heavy")
        assert heavy["desired"] | {"value": None} == {
            "state": "known",
            "tier": "desired",
            "source": "worker_group",
            "age": 5.0,
            "why": "",
            "detail": "",
            "value": None,
        }
        assert heavy["workers"] is None
        whole = http.get(FLEET_PATH, params={"workers": "true"}, headers=OPERATOR)
        assert msgspec.json.decode(whole.content, type=FleetView) == fleet_view(snapshot(), workers=True)
        assert http.get(FLEET_PATH, params={"workers": "many"}, headers=OPERATOR).status_code == 400


def test_coverage_is_told_as_the_view_says():
    with client() as http:
        answer = http.get(COVERAGE_PATH, headers=OPERATOR)
        assert msgspec.json.decode(answer.content, type=CoverageView) == coverage_view(snapshot())


def test_what_is_unknown_is_null_with_a_state_of_its_own_and_the_status_is_200():
    with client(fleet=lambda: snapshot(workers=None, queue=None)) as http:
        fleet = http.get(FLEET_PATH, headers=OPERATOR)
        assert fleet.status_code == 200
        for each in fleet.json()["groups"]:
            for name in ("badge", "desired", "observed", "backlog"):
                assert (each[name]["state"], each[name]["value"]) == ("unknown", None)
        coverage = http.get(COVERAGE_PATH, headers=OPERATOR).json()
        assert (coverage["tags"]["state"], coverage["tags"]["value"]) == ("unknown", None)
        assert (coverage["waiting"]["state"], coverage["waiting"]["value"]) == ("unknown", None)


def test_judging_the_fleet_does_not_hold_up_the_event_loop():
    threads = []

    def slow():
        threads.append(threading.current_thread())
        return snapshot()

    loops = []

    async def resolver(scope):
        loops.append(threading.current_thread())
        return TOKENS["0perator"]

    with client(fleet=slow, resolver=resolver) as http:
        assert http.get(FLEET_PATH).status_code == 200
        assert http.get(COVERAGE_PATH).status_code == 200
    assert len(threads) == len(loops) == 2
    assert not set(threads) & set(loops)


def test_without_an_observer_there_are_no_such_routes():
    with TestClient(create_app(SETTINGS)) as http:
        for path in PATHS:
            assert http.get(path, headers=OPERATOR).status_code == 404


def test_a_host_mounts_them_with_the_others():
    app = Litestar(plugins=[IngestPlugin(SETTINGS, fleet=snapshot)], openapi_config=None)
    with TestClient(app) as http:
        assert http.get(FLEET_PATH, headers=OPERATOR).status_code == 200
        assert http.get(FLEET_PATH).status_code == 401


# --- the description

described = create_app(SETTINGS, fleet=lambda: snapshot(queue=None))
schema = schemathesis.openapi.from_asgi("/schema/openapi.json", described).include(path_regex="^/api/admin/")


@schema.parametrize()
@examples(max_examples=30, deadline=None)
def test_every_answer_is_one_that_the_description_has(case):
    # Parameters that it does not know are ignored, as everywhere.
    case.call_and_validate(headers={"Authorization": "Bearer 0perator"}, excluded_checks=[negative_data_rejection])


@pytest.mark.parametrize("path", PATHS)
def test_the_description_has_the_whole_answer_and_every_refusal(path):
    document = described.openapi_schema.to_schema()
    operation = document["paths"][path]["get"]
    assert operation["security"] == [{"bearer": []}]
    assert {"200", "401", "403", "503"} <= set(operation["responses"])
    reference = operation["responses"]["200"]["content"]["application/json"]["schema"]["$ref"]
    answer = document["components"]["schemas"][reference.rpartition("/")[2]]
    assert set(answer["properties"]) == set((FleetView if path == FLEET_PATH else CoverageView).__struct_fields__)
    states = [each for each in document["components"]["schemas"].values() if "tier" in each.get("properties", {})]
    assert len(states) >= 3
    assert all("unknown" in str(each["properties"]["state"]) for each in states)
