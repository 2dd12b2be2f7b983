"""Writes two JSON Schemas, by the models that check the same: of the report, and of a cluster file.

`python docs/schema.py` writes drift/report/report.schema.json and inventories/cluster.schema.json
again; a test fails when they do not match the models.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema
from typing_extensions import override

from gpu_node.drift.report.json import WrittenReport
from gpu_node.inventories.fields.paths import Directory
from gpu_node.inventories.model import Model
from gpu_node.inventories.schema import HostEntry, Layer, WholeFile

REPOSITORY = Path(__file__).parents[1]
FILE = REPOSITORY / "drift" / "report" / "report.schema.json"
CLUSTER = REPOSITORY / "inventories" / "cluster.schema.json"
_DIALECT = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
# Those whose needed keys no other level of a cluster file can set.
_WHOLE = (WholeFile, HostEntry, Directory)


class _Report(GenerateJsonSchema):
    """The report, in which the title of a field would be its name once more."""

    @override
    def field_title_should_be_set(self, schema: object) -> bool:
        return False


class _Written(GenerateJsonSchema):
    """What a person may write in a cluster file, which the models do not express alone.

    A section may be a word, and lack keys that another level has; a key needs a value.
    """

    @override
    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        made = super().model_schema(schema)
        model, properties = schema["cls"], made["properties"]
        if not issubclass(model, _WHOLE):
            made.pop("required", None)
        if issubclass(model, Layer):  # workspace: [...] is workspaces: [...]
            kinds = [properties["workspace"], properties["workspaces"]]
            properties["workspace"] = {"anyOf": kinds}
        if issubclass(model, Model) and model.SHORT:
            return {"anyOf": [properties[model.SHORT], made]}
        return made

    @override
    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        inner = self.generate_inner(schema["schema"])
        return {"anyOf": [inner, {"type": "null"}]} if "$ref" in inner else inner

    @override
    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        """Leave defaults out: many are values as the models hold them, not as they are written."""
        return self.generate_inner(schema["schema"])


def schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of the report as the models define it."""
    made = WrittenReport.model_json_schema(mode="serialization", schema_generator=_Report)
    return {**_DIALECT, **made}


def cluster() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of a cluster file, for editors.

    It accepts each file that `gpu-node check` accepts, and knows all keys; of the values it knows
    the types. Names, and what keys mean together, are checked by `gpu-node check` alone.
    """
    return {**_DIALECT, **WholeFile.model_json_schema(schema_generator=_Written)}


def text(made: Mapping[str, Any]) -> str:
    """Return what the file of a schema must hold."""
    return json.dumps(made, indent=2, sort_keys=True) + "\n"


FILES = {FILE: schema, CLUSTER: cluster}

if __name__ == "__main__":
    for file, made in FILES.items():
        file.write_text(text(made()), encoding="utf-8")
