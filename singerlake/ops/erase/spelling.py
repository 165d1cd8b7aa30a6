"""All ways in which JSON may spell a text, as one pattern over bytes.

JSON may write any character as an escape, and a JSON document may be a string within another, as
refused lines are: then each backslash is doubled, once more at each depth. A pattern finds the
text at any depth, so that nothing has to be decoded to be searched. It may find a little more: a
backslash and an ``n`` where a line's end is looked for. Whoever searches would rather see that.
"""

from __future__ import annotations

import base64
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence

_SHORT = {'"': '"', "\\": "", "/": "/", "\b": "b", "\f": "f", "\n": "n", "\r": "r", "\t": "t"}
_WORD = 0x10000
_HIGH, _LOW = 0xD800, 0xDC00
QUOTED = rb"%[0-9A-Fa-f]{2}"
"""A byte that is percent-encoded."""
_BASE64 = re.compile(rb"[A-Za-z0-9+/]{16,}")
_UTF_16 = ("utf-16-le", "utf-16-be")
_LATIN = "latin-1"
_OTHER_ENCODINGS = (*_UTF_16, _LATIN)


_RAW = re.compile(r'[^"\\/\x00-\x1f]+')
_RAW_IN_LATIN = re.compile(r'[^"\\/\x00-\x1f\u0100-\U0010ffff]+')


def pattern_of(text: str) -> bytes:
    """Build the pattern of a text, for Arrow's regular expressions over binary values.

    Characters that can be composed in several ways are found in the composed form and in the
    decomposed one.
    """
    return either("".join(map(_character, form)).encode() for form in _forms(text))


def either(patterns: Iterable[bytes]) -> bytes:
    """Build the pattern that matches wherever one of some patterns does."""
    return b"(?:" + b"|".join(patterns) + b")"


def plain_bytes(text: str) -> list[bytes]:
    """Spell a text in the encodings, other than UTF-8, that documents are often in."""
    spelled = []
    for form in _forms(text):
        for encoding in _OTHER_ENCODINGS:
            try:
                spelled.append(form.encode(encoding))
            except UnicodeEncodeError:
                continue
    return [one for one in dict.fromkeys(spelled) if one != text.encode()]


def raw_parts(texts: Iterable[str]) -> dict[str, list[bytes]]:
    """Spell what JSON has as it is of some texts, by encoding: what has a letter beyond ASCII.

    JSON in Latin-1 has escapes for the letters that are not in Latin-1.
    """
    own = [*dict.fromkeys(texts)]
    parts = dict.fromkeys(_UTF_16, _RAW) | {_LATIN: _RAW_IN_LATIN}
    return {
        encoding: [
            part.encode(encoding, "surrogatepass")
            for text in own
            for part in pattern.findall(text)
            if not part.isascii()
        ]
        for encoding, pattern in parts.items()
    }


def in_utf8(data: bytes, parts: Mapping[str, Sequence[bytes]]) -> Iterator[bytes]:
    """Give in UTF-8 what bytes are in another encoding, if they have parts of texts in it."""
    for encoding in _UTF_16:
        if any(part in data for part in parts[encoding]):
            for skipped in (0, 1):
                yield data[skipped:].decode(encoding, "replace").encode()
    if any(part in data for part in parts[_LATIN]):
        yield data.decode(_LATIN).encode()


def quoted_pattern_of(text: str) -> bytes:
    """Build the pattern of a text that is percent-encoded, as names of objects and URLs are.

    Any byte may be encoded, and the sign itself again, however often.
    """
    return either("".join(map(_quoted, form)).encode() for form in _forms(text))


def base64_in(data: bytes) -> Iterator[bytes]:
    """Decode what may be Base64 amid other bytes: letters before it may not belong to it."""
    for run in _BASE64.findall(data):
        for skipped in range(4):
            yield base64.b64decode(run[skipped : len(run) - (len(run) - skipped) % 4])


def _forms(text: str) -> Iterable[str]:
    """Give a text composed, decomposed and as it is; each once."""
    return dict.fromkeys([*(unicodedata.normalize(form, text) for form in ("NFC", "NFD")), text])


def _character(one: str) -> str:
    literal = "".join(f"\\x{byte:02x}" for byte in one.encode())
    escapes = ["".join(r"\\+" + _unit(unit) for unit in _units(ord(one)))]
    if (short := _SHORT.get(one)) is not None:
        escapes.append(r"\\+" + short)
    return f"(?:{literal}|{'|'.join(escapes)})"


def _quoted(one: str) -> str:
    literal = "".join(f"\\x{byte:02x}" for byte in one.encode())
    encoded = "".join("%(?:25)*" + _either_case(f"{byte:02x}") for byte in one.encode())
    return f"(?:{literal}|{encoded})"


def _units(code: int) -> list[int]:
    if code < _WORD:
        return [code]
    high, low = divmod(code - _WORD, 0x400)
    return [_HIGH + high, _LOW + low]


def _unit(unit: int) -> str:
    return "u" + _either_case(f"{unit:04x}")


def _either_case(digits: str) -> str:
    return "".join(f"[{one}{one.upper()}]" if one.isalpha() else one for one in digits)
