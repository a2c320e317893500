"""SQL that runbooks tell people to type runs on the tables that it names."""

from __future__ import annotations

import re
from pathlib import Path

import psycopg
import pytest

RUNBOOKS = Path(__file__).parents[2] / "docs" / "runbooks"
PAGES = ("queue.md", "fleet.md")
INLINE = re.compile(r"`((?:SELECT|VACUUM|ALTER TABLE) [^`]*)`")


def statements(page: str) -> list[str]:
    """Each statement of a page, from blocks and from the text."""
    text = (RUNBOOKS / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^ *```sql\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL)
    found = [each for block in blocks for each in block.split(";")] + INLINE.findall(text)
    return [" ".join(each.strip(" ;\n").split()) for each in found if each.strip(" ;\n")]


CASES = [pytest.param(each, id=f"{page}-{number}") for page in PAGES for number, each in enumerate(statements(page))]


def test_there_is_something_to_type() -> None:
    assert all(len(statements(page)) > 3 for page in PAGES)


@pytest.mark.parametrize("statement", CASES)
def test_a_statement_of_a_runbook_can_be_typed_as_it_is(fleet: str, statement: str) -> None:
    # A pid of nobody's: what it would end is the reader's to know.
    typed = statement.replace("pg_terminate_backend(pid)", "pg_terminate_backend(0)")
    with psycopg.connect(fleet, autocommit=True) as connection:
        cursor = connection.execute(typed.encode())
        if typed.startswith("SELECT"):
            cursor.fetchall()


def test_the_registrys_query_finds_what_the_observer_calls_broken(fleet: str) -> None:
    (query,) = [each for each in statements("fleet.md") if "autoscale_min IS NULL" in each]
    with psycopg.connect(fleet, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO worker_group (name, desired_replicas, autoscale_min, autoscale_max) VALUES "
            "('right', 1, NULL, NULL), ('breathes', 0, 0, 3), ('half', 1, 1, NULL), ('crossed', 1, 5, 2), "
            "('negative', -1, NULL, NULL)"
        )
        found = {row[0] for row in connection.execute(query.encode()).fetchall()}
    assert found == {"half", "crossed", "negative"}
