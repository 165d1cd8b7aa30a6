"""Dead-letter tables: the columns by which they are recognised."""

from __future__ import annotations

from singerlake.format.log import SchemaEntry

_MAYBE = ["string", "null"]
UNCHECKED = "the setting validate_records: false accepts records unchecked"
"""How the reason of a record ends that its schema does not allow."""
FORMATS_UNCHECKED = "the setting validate_formats: false leaves formats unchecked"
"""How the reason of a record ends that was rejected for nothing but a format."""
SCHEMA = SchemaEntry(
    {
        "type": "object",
        "description": "Lines that target-singerlake rejected, as the tap sent them.",
        "properties": {
            "digest": {
                "type": "string",
                "description": "SHA-256 of the record, or of the whole line if it has none.",
            },
            "line": {
                "type": "integer",
                "description": "Line number in the input of the run, or in the file of a BATCH.",
            },
            "file": {"type": _MAYBE, "description": "The file of a BATCH that contains it."},
            "stream": {"type": _MAYBE, "description": "The stream that it names."},
            "reason": {"type": "string", "description": "Why it was rejected."},
            "message": {"type": _MAYBE, "description": "The line, if it is text."},
            "message_base64": {"type": _MAYBE, "description": "The line in Base64, if it is not."},
        },
    },
    ["digest"],
)
"""By the digest a line that comes again, as after a run that failed, is the same row."""

EARLIER = SchemaEntry(
    {
        **SCHEMA.schema,
        "properties": {
            **{name: spec for name, spec in SCHEMA.schema["properties"].items() if name != "file"},
            "line": {"type": "integer", "description": "Line number in the input of the run."},
        },
    },
    ["digest"],
)
"""As releases had it that took no BATCH: so it comes out of their lakes."""


def are_in(schema: SchemaEntry) -> bool:
    """Tell whether a table with this schema holds refused lines."""
    names = set(schema.schema.get("properties") or ())
    own = (set(one.schema["properties"]) for one in (SCHEMA, EARLIER))
    return schema.key_properties == SCHEMA.key_properties and names in own
