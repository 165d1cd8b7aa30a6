"""One decoding for envelope and record alike: what decodes is a valid RECORD of its stream."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Union

import msgspec

from singerlake.format.log import SchemaEntry
from singerlake.rows.blocks import bounded_keys
from target_singerlake import messages
from target_singerlake.buffer import Keys
from target_singerlake.values import ValueCheck

MAX_STREAMS = 500
"""With more streams the types would take longer to build than they save."""
_TAKES: tuple[Callable[[Sequence[Any]], list[Any]], ...] = (
    # A name that stands in the code is looked up in a quarter of the time of one that does not.
    lambda found: [one.record.k0 for one in found],
    lambda found: [one.record.k1 for one in found],
    lambda found: [one.record.k2 for one in found],
    lambda found: [one.record.k3 for one in found],
)
"""Take the values of a key's columns, by their place in it; columns behind these are left out."""


class Prover:
    """Knows the streams whose records can be proven valid by types.

    Attributes:
        streams: The stream of a decoded message, by the message's type.
    """

    def __init__(self) -> None:
        self._values: dict[str, ValueCheck] = {}
        self._kinds: dict[str, tuple[type[msgspec.Struct], ...]] = {}
        self._new: dict[str, Callable[[], Any]] = {}
        self._takes: dict[str, dict[str, Callable[[Sequence[Any]], list[Any]]]] = {}
        self.streams: dict[type[msgspec.Struct], str] = {}
        self._decoders: tuple[msgspec.json.Decoder[Any], ...] = ()
        self._changed = False

    def learn(
        self,
        stream: str,
        proof: Callable[[], Any] | None,
        values: ValueCheck | None = None,
        entry: SchemaEntry | None = None,
    ) -> None:
        """Take up a stream's type.

        Args:
            proof: Makes the type that only its valid records decode to, or None where there is
                none, once it is needed; None where records are not to be proven.
            values: Knows what the type does not see of their values.
            entry: The schema and the key that the type is of; None where nobody asks for keys.
        """
        if entry is not None:
            takes = dict(zip(entry.key_properties, _TAKES, strict=False))
            columns = None if values is None else values.columns
            names = [name for name, _ in bounded_keys.members(entry, columns)]
            self._takes[stream] = {name: takes[name] for name in names if name in takes}
        self._changed = True
        self._values.pop(stream, None)
        self._new.pop(stream, None)
        for old in self._kinds.pop(stream, ()):
            del self.streams[old]
        if proof is not None and len(self._kinds) + len(self._new) < MAX_STREAMS:
            self._new[stream] = proof
            if values is not None:
                self._values[stream] = values

    def _build(self) -> None:
        """Build the types of the streams that are new."""
        new, self._new = self._new, {}
        for stream, make in new.items():
            if (proof := make()) is None:
                self._values.pop(stream, None)
                continue
            kinds = tuple(messages.record_type(stream, proof, timed=t) for t in (True, False))
            self._kinds[stream] = kinds
            self.streams.update(dict.fromkeys(kinds, stream))

    def keys(self, stream: str, found: Sequence[msgspec.Struct]) -> Keys:
        """Return the values in a stream's keys whose bounds a block has.

        Args:
            stream: Which.
            found: Its messages, as they were decoded.
        """
        return {name: take(found) for name, take in self._takes.get(stream, {}).items()}

    def may_leave_the_calendar(self, data: bytes) -> bool:
        """Tell whether lines may hold a time that is beyond the calendar, which no type tells."""
        if not self._values:
            return False
        # The strictest speaks for all.
        strictest = max(
            self._values.values(), key=lambda one: (one.has_times, one.times_exact, one.strict)
        )
        return strictest.may_leave_the_calendar(data)

    def decoders(self) -> tuple[msgspec.json.Decoder[Any], ...]:
        """Decode the RECORDs of the streams known: with their times, and with or without.

        That all have one need then not be asked of each. None while no stream is known.
        """
        if self._changed:
            self._changed = False
            self._build()
            self._decoders = tuple(
                msgspec.json.Decoder(Union[kinds])  # noqa: UP007
                for kinds in zip(*self._kinds.values(), strict=True)
            )
        return self._decoders
