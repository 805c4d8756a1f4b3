"""The configuration's schema, for editors and for reading; made from the typed model."""

from __future__ import annotations

import yaml

from stair.config.model import Config


def schema_text() -> str:
    """The JSON schema of the configuration, as YAML."""
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **Config.model_json_schema()}
    return "# Made by `stair schema`; a test holds it to the typed model.\n" + yaml.safe_dump(
        schema, sort_keys=False, allow_unicode=True, width=120
    )
