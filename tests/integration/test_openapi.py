"""The OpenAPI document against the service, with limits off: schemathesis looks for answers that it doesn't tell.

The document says what the lenient reader accepts, so nearly every JSON object is a valid report, and what is
refused is what no JSON object can be: other types, other methods, other callers.
"""

from __future__ import annotations

import pytest
import schemathesis
from hypothesis import settings

from ingest.app import create_app
from ingest.errors.route import PATH
from ingest.faro.route import PATH as FARO
from ingest.principal import Principal
from ingest.settings import Settings

TOKEN = "t0ken"
EXAMPLES = 150
TAKEN = {PATH: 204, FARO: 202}

app = create_app(
    Settings(
        tokens={TOKEN: Principal("mina@acme.example", "acme")},
        limit_rate=0,
        limit_ceiling=0,
        limit_fingerprints=0,
        dedupe_window=0,
        noise=(),
    )
)
schema = schemathesis.openapi.from_asgi("/schema/openapi.json", app)


@schema.parametrize()
@settings(max_examples=EXAMPLES, deadline=None)
def test_every_operation_does_what_its_description_says(case):
    answer = case.call_and_validate(headers={"Authorization": f"Bearer {TOKEN}"})
    # Some cases leave the token or the type out, or spoil them, to see that this is told.
    if case.media_type == "application/json" and answer.status_code not in (401, 405, 415):
        assert (answer.status_code in (TAKEN[case.path], 413)) == isinstance(case.body, dict)


@pytest.mark.parametrize("path", list(TAKEN))
def test_the_operation_tells_every_type_and_every_answer(path):
    operation = app.openapi_schema.to_schema()["paths"][path]["post"]
    assert set(operation["requestBody"]["content"]) == {"application/json", "text/plain"}
    assert {"400", "401", "403", "405", "413", "415", "503", str(TAKEN[path])} <= set(operation["responses"])
    assert ("429" in operation["responses"]) == (path == PATH)
