"""One decoding for envelope and record alike: what decodes is a valid RECORD of its stream."""

from __future__ import annotations

from typing import Any, Union

import msgspec

from target_singerlake import messages

MAX_STREAMS = 500
"""With more streams the types would take longer to build than they save."""


class Prover:
    """Knows the streams whose records can be proven valid by types.

    Attributes:
        streams: The stream of a decoded message, by the message's type.
    """

    def __init__(self) -> None:
        self._kinds: dict[str, type[msgspec.Struct]] = {}
        self.streams: dict[type[msgspec.Struct], str] = {}
        self._decoder: msgspec.json.Decoder[Any] | None = None
        self._changed = False

    def learn(self, stream: str, proof: Any) -> None:
        """Take up a stream's type.

        Args:
            stream: The stream.
            proof: The type that only its valid records decode to; None where there is none.
        """
        self._changed = True
        old = self._kinds.pop(stream, None)
        if old is not None:
            del self.streams[old]
        if proof is not None and len(self._kinds) < MAX_STREAMS:
            kind = messages.record_type(stream, proof)
            self._kinds[stream] = kind
            self.streams[kind] = stream

    def decoder(self) -> msgspec.json.Decoder[Any] | None:
        """Decodes the RECORDs of the streams known; None while there are none."""
        if self._changed:
            self._changed = False
            self._decoder = None
            if self._kinds:
                union: Any = Union[tuple(self._kinds.values())]  # noqa: UP007
                self._decoder = msgspec.json.Decoder(union)
        return self._decoder
