"""What a request may say: whatever else comes in gets a line of error, and no question takes for ever."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pytest
from starlette.routing import Route

from graphsearch.query.source import KeptFile
from graphsearch.web.api.requests import Wanted, read_request
from graphsearch.web.api.work import ExportWanted, SearchWanted
from graphsearch.web.app import application
from graphsearch.web.jobs.tasks import EXPORTS
from graphsearch.web.served_file import ServedFile

from .client import Client

BROKEN = {
    "deep list": b"[" * 100_000,
    "deep object": b'{"root":' * 100_000 + b"1",
    "deep value": b'{"root": ' + b"[" * 50_000 + b"]" * 50_000 + b"}",
    "lone surrogate": b'{"root": "\\ud800"}',
    "lone surrogate as a name": b'{"\\udfff": 1}',
    "no UTF-8": b'{"root": "\xff"}',
    "list": b"[1]",
    "number": b"1",
    "nothing": b"null",
    "no JSON": b"{",
    "no such field": b'{"colour": "red"}',
    "object as text": b'{"root": {}, "text": {}, "statement": [], "other": [1], "action": {}, "form": 1}',
    "infinity": b'{"seconds": Infinity, "number": 1e999, "other": 1e999}',
}


def posts() -> list[str]:
    """Returns the addresses of all requests that bring a JSON object."""
    routes = application(ServedFile(Path("no.graph"))).routes
    found = [route.path for route in routes if isinstance(route, Route) and route.methods == {"POST"}]
    return [path for path in found if "import" not in path and "review" not in path]


def test_a_broken_body_of_any_request_gets_a_line_of_error(reader: Client) -> None:
    assert len(posts()) >= 9
    for path in posts():
        for name, body in BROKEN.items():
            answer = reader.ask("POST", path, body)
            assert (answer.status, "\n" in answer.error) == (400, False), (path, name)
            assert 0 < len(answer.error) < 300, (path, name)


def test_a_number_that_is_none_is_named_with_its_field(reader: Client) -> None:
    values: tuple[object, ...] = ("-1", "1e3", "x", "9" * 40, "٣", "1.5", "nan", [1], {}, True)
    queries = (("transpositions", "look"), ("lines", "lines"), ("find", "limit"), ("tree", "depth"))
    for value in values:
        answer = reader.post("search", visits=value)
        assert (answer.status, "visits" in answer.error) == (400, True), value
        for path, field in queries if isinstance(value, str) else ():
            found = reader.get(path, **{field: value})
            assert (found.status, field in found.error) == (400, True), (path, value)


def test_numbers_come_as_forms_write_them_and_blanks_are_nothing(reader: Client) -> None:
    found = read_request(SearchWanted, b'{"visits": " 12 ", "seconds": "0.5", "evaluations": ""}')
    assert (found.visits, found.seconds, found.evaluations) == (12, 0.5, None)
    assert reader.get("lines", lines="").status == 200


def models(kind: type[Wanted] = Wanted) -> list[type[Wanted]]:
    """Returns all models of requests."""
    return [found for below in kind.__subclasses__() for found in (below, *models(below))]


def bounds_of(form: dict[str, Any]) -> set[str]:
    """Returns the bounds that a field of a form needs."""
    if form.get("type") in ("integer", "number"):
        return {"minimum", "maximum"}
    if form.get("type") == "string" and "enum" not in form:
        return {"maxLength"}
    return {"maxProperties"} if form.get("type") == "object" else set()


def test_every_field_of_a_request_has_bounds() -> None:
    for kind in models():
        schema: dict[str, Any] = kind.model_json_schema()
        assert schema["additionalProperties"] is False, kind
        for name, field in schema.get("properties", {}).items():
            for form in field.get("anyOf", [field]):
                assert bounds_of(form) <= form.keys(), (kind, name)


def test_an_export_may_have_every_form(reader: Client) -> None:
    assert set(get_args(ExportWanted.model_fields["form"].annotation)) == set(EXPORTS)
    assert "form" in reader.post("export", form="exe").error


# ------------------------------------------------------------------ time
def test_a_question_that_reads_too_many_records_ends_with_a_line(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, dict[str, Any]] = {
        "transpositions": {"look": 20_000},
        "tree": {"depth": 20},
        "neighbourhood": {},
        "lines": {},
        "parents": {"line": "e2e4"},
    }
    for path, given in asked.items():
        assert client.get(path, **given).status == 200
    monkeypatch.setattr("graphsearch.web.api.requests.QUESTION_SECONDS", -1.0)
    served = client.server.served
    for path, given in asked.items():
        served.kept = KeptFile(served.path, served.stamp)  # forgets what was read
        answer = client.get(path, **given)
        assert (answer.status, "may take" in answer.error) == (400, True), path
