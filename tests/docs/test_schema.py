"""drift/report/report.schema.json is the JSON Schema of the report, as its models are."""

from docs import schema


def test_the_schema_is_current() -> None:
    """`python docs/schema.py` writes it again."""
    is_current = schema.FILE.read_text(encoding="utf-8") == schema.text()
    assert is_current, "report.schema.json is out of date: run python docs/schema.py"
