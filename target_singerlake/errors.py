"""The input errors as the Singer SDK's callers expect them: of its types and of ours."""

from __future__ import annotations

from typing import Any

from singer_sdk import exceptions as sdk
from singer_sdk.singerlib.exceptions import InvalidInputLine

from singerlake.errors import InputError, SingerlakeError


class InvalidLineError(InputError, InvalidInputLine):
    """A line that is no Singer message."""


class RecordBeforeSchemaError(InputError, sdk.RecordsWithoutSchemaException):
    """A RECORD or ACTIVATE_VERSION of a stream that no SCHEMA has announced."""


class MissingKeyError(InputError, sdk.MissingKeyPropertiesError):
    """A record without one of its stream's key properties."""


class InvalidRecordError(InputError, sdk.InvalidRecord):
    """A record that its stream's schema does not allow."""

    def __init__(self, message: str, record: dict[str, Any]) -> None:
        sdk.InvalidRecord.__init__(self, message, record)

    def __str__(self) -> str:
        return str(self.error_message)


class InvalidSchemaError(InputError, sdk.InvalidJSONSchema):
    """A SCHEMA message whose schema is no JSON Schema."""


class TerminatedError(SingerlakeError):
    """A signal ended the run."""

    def __init__(self, signum: int, name: str) -> None:
        super().__init__(f"ended by {name}: what was committed stays, the rest was dropped")
        self.exit_code = 128 + signum
