"""The tags of a platform's apps and actions, read from a real PostgreSQL."""

from __future__ import annotations

import msgspec
import psycopg
import pytest

from telemetry.fleet.catalogue import Catalogue, read_catalogue
from telemetry.fleet.profiles import WINDFORCE, WINDMILL, Profile, load
from telemetry.fleet.session import SchemaError
from tests.postgres.test_fleet_doctor import doctor

pytestmark = pytest.mark.timeout(180)

APPS = """
INSERT INTO app (workspace_id, app_key, tag, tag_override, capabilities) VALUES
    ('acme', 'mail', 'cpu', NULL, '{}'),
    ('acme', 'shots', 'default', NULL, '{browser}'),
    ('acme', 'moved', 'cpu', 'mem', '{}'),
    ('acme', 'own', '$workspace-io', '', '{}'),
    ('big', 'anything', 'cpu', NULL, '{}');
INSERT INTO action (workspace_id, app_key, action_key, tag) VALUES
    ('acme', 'mail', 'sync', NULL), ('acme', 'mail', 'render', 'gpu'), ('big', 'anything', 'train', 'gpu');
INSERT INTO worker_group (name, tags, dedicated_workspace_id) VALUES ('big-pool', '{big-only}', 'big');
"""


def read(url: str, profile: Profile = WINDFORCE) -> Catalogue:
    with psycopg.connect(url) as connection:
        return read_catalogue(connection, profile)


@pytest.fixture
def apps(queue: str) -> str:
    with psycopg.connect(queue, autocommit=True) as connection:
        connection.execute(APPS)
    return queue


def test_tags_are_those_that_jobs_get_and_not_those_that_were_declared(apps):
    assert read(apps) == Catalogue(
        tags=frozenset({"cpu", "gpu", "browser", "mem", "acme-io", "big-only"}), capabilities=frozenset({"browser"})
    )


def test_without_those_tables_there_is_no_catalogue(database):
    assert read(database) == Catalogue(there=False)
    assert read(database, WINDMILL) == Catalogue(there=False)


def test_tables_that_differ_are_told_column_by_column(apps):
    with psycopg.connect(apps, autocommit=True) as connection:
        connection.execute("ALTER TABLE app RENAME tag_override TO rerouted_to")
        connection.execute("ALTER TABLE action RENAME TO actions")
    with pytest.raises(SchemaError) as raised:
        read(apps)
    assert raised.value.problems == (
        "apps: app.tag_override (override) is missing",
        "actions: there is no table action, or this role may not see its schema",
    )


def test_other_names_are_mapped(apps, tmp_path):
    with psycopg.connect(apps, autocommit=True) as connection:
        connection.execute("ALTER TABLE app RENAME tag_override TO rerouted_to")
        connection.execute("ALTER TABLE worker_group RENAME dedicated_workspace_id TO tenant")
    file = tmp_path / "ours.toml"
    file.write_text('actions = false\n[apps]\noverride = "rerouted_to"\n[registry]\ndedicated = "tenant"\n')
    assert read(apps, load(str(file))).tags == {"cpu", "browser", "mem", "acme-io", "big-only"}


def test_a_query_of_the_platform_s_own_goes_before_its_tables(apps):
    assert read(apps, msgspec.structs.replace(WINDFORCE, catalogue="SELECT 'night'")).tags == {"night"}


def test_the_doctor_says_whether_there_is_a_catalogue(apps, capsys, monkeypatch):
    status, text = doctor(capsys, monkeypatch, apps)
    assert status == 0
    assert "ok catalogue: " in text
    with psycopg.connect(apps, autocommit=True) as connection:
        connection.execute("DROP TABLE action")
    status, text = doctor(capsys, monkeypatch, apps)
    assert status == 1
    assert "!! actions: there is no table action" in text
    with psycopg.connect(apps, autocommit=True) as connection:
        connection.execute("DROP TABLE app")
    status, text = doctor(capsys, monkeypatch, apps)
    assert status == 0
    assert "-- nothing says which tags the platform's actions use" in text
