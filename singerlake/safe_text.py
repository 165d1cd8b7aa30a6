"""What may be shown to people: no secret, and nothing that a terminal would obey.

Every message of the command line and of the plugins goes through :func:`for_people`, and every
log record and traceback, whatever its level: :func:`guard_logs`. Data that was asked for (rows,
CSV, JSON) stays as it is, for it must be exact.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import threading
import traceback
import warnings
from collections.abc import Iterable
from functools import cache
from types import TracebackType
from typing import Any, TextIO
from urllib.parse import quote, quote_plus

HIDDEN = "***"
SECRET_SETTINGS = (
    "aws_access_key_id",
    "aws_secret_access_key",
    "aws_session_token",
    "gcs_service_account_key",
    "gcs_token",
    "azure_storage_account_key",
    "azure_storage_sas_token",
    "azure_storage_connection_string",
    "azure_client_secret",
)
_SECRET_VARIABLES = (
    *SECRET_SETTINGS[1:],
    "aws_security_token",
    "google_service_account_key",
    "google_bearer_token",
    "azure_storage_access_key",
    "azure_storage_key",
    "azure_storage_sas_key",
    "azure_storage_client_secret",
    "azure_storage_token",
)
"""How variables end that hold a secret."""
_SHORTEST = 4
"""Anything shorter that is given as a secret is found in every other word."""
_LONG = 12
"""From so many characters on a secret is hidden inside of words too, and an id of a key is one."""

# A scheme begins where nothing of one stands before, so that a long word is looked at once.
_USERINFO = r"""(?<![A-Za-z0-9+.-]) ([A-Za-z0-9+.-]+://)
    (?: [^\s/?#'"]*
      | [^\s/?#'"@:\[]* : (?! \d* (?:[/?#\s'"] | $) ) [^\s'"]{0,256}  # a slash in a password
    ) @"""
_WORDS = ("key", "token", "secret", "sig", "credential", "password")
"""Every name of a secret has one of these in it."""
_NAMED = r"""(?P<name>
        (?: aws_ (?:access_key_id | secret_access_key | session_token | security_token)
          | access_?key_?id | secret_?access_?key | session_?token | private_?key
          | account_?key | shared_?access_?signature | sas_?(?:token|key) | client_?secret
          | gcs_token | (?<![\w-]) sig
          | x-amz-security-token | x-amz-credential | x-amz-signature
          | (?<![\w-]) (?:credential | signature | password) )
        (?: \\?["'] )? (?: \s* [:=] \s* (?: b (?=["']) )? | > )
    )
    (?: (?P<open> ["']) (?: \\. | (?!(?P=open)) [^\\] ){1,4096} (?P<close> (?P=open))
      | (?P<opens> \\["']) .{1,4096}? (?P<closes> \\["'])
      | (?<= >) [^<]{1,4096} (?= </)
      | (?P<half> \\?["'])? (?![\s*]) [^\s"',;<>&})\]\\]+
    )"""
"""A secret behind its name: in settings, environments, headers, URLs, answers in JSON or XML."""

_secrets: set[str] = set()
_pattern: re.Pattern[str] | None = None
_lock = threading.Lock()


def remember_secrets(values: Iterable[object]) -> None:
    """Hide these values from now on, wherever they turn up; what is in a list or object, too.

    A short one is hidden where it stands alone, and not as a part of a name: it may be ``test``.
    """
    global _pattern  # noqa: PLW0603  # one process, one set of secrets
    texts = {text for value in values for text in _texts(value) if len(text) >= _SHORTEST}
    with _lock:
        if texts <= _secrets:
            return
        _secrets.update(texts)
        forms = {
            form
            for text in _secrets
            for form in (text, quote(text, safe=""), quote(text), quote_plus(text))
        }
        # The longest first: one may begin as another does.
        _pattern = re.compile("|".join(map(_expression_for, sorted(forms, key=len, reverse=True))))


def _expression_for(secret: str) -> str:
    if len(secret) >= _LONG:
        return re.escape(secret)
    return rf"(?<![\w.-]){re.escape(secret)}(?![\w-]|\.\w)"


def remember_key_id(value: object) -> None:
    """Hide the id of a key; a short one is no real service's, and may be any word."""
    if not isinstance(value, str) or len(value) >= _LONG:
        remember_secrets([value])


def remember_environment() -> None:
    """Hide the secrets that the environment holds, under whatever prefix a plugin reads them."""
    ends = tuple(name.upper() for name in _SECRET_VARIABLES)
    remember_secrets(value for name, value in os.environ.items() if name.upper().endswith(ends))
    for name, value in os.environ.items():
        if name.upper().endswith(SECRET_SETTINGS[0].upper()):
            remember_key_id(value)
        if name.upper().startswith(("AWS_ENDPOINT_URL", "GOOGLE_BASE_URL", "AZURE_ENDPOINT")):
            remember_password(value)


def remember_password(url: str) -> None:
    """Hide the password that stands in a URL; it may hold characters that end a host."""
    if match := re.match(r"[^/]*://[^:/@]*:(.*)@", url):
        remember_secrets([match[1]])


def _texts(value: object) -> Iterable[str]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [text for part in value for text in _texts(part)]
    return [] if value is None or isinstance(value, bool) else [str(value)]


def redacted(text: str) -> str:
    """Return a text without secrets: those that are known, and what stands where one would."""
    if _pattern is not None:
        text = _pattern.sub(HIDDEN, text)
    if "://" in text:
        text = _userinfo().sub(rf"\1{HIDDEN}@", text)
    small = text.lower()
    # Letters beyond ASCII may stand for one within: to an expression, a long s is an s.
    if not text.isascii() or any(word in small for word in _WORDS):
        text = _named().sub(_hidden, text)
    return text


def _hidden(match: re.Match[str]) -> str:
    before = match["open"] or match["opens"] or match["half"] or ""
    return f"{match['name']}{before}{HIDDEN}{match['close'] or match['closes'] or ''}"


# Compiled when the first text comes that needs them: most runs of a plugin have none.
@cache
def _userinfo() -> re.Pattern[str]:
    return re.compile(_USERINFO, re.VERBOSE)


@cache
def _named() -> re.Pattern[str]:
    return re.compile(_NAMED, re.IGNORECASE | re.VERBOSE | re.DOTALL)


@cache
def _escapes() -> dict[int, str]:
    """Characters that a terminal obeys, that reorder a line, or that nothing can print."""
    controls = [*range(0x20), *range(0x7F, 0xA0)]
    bidirectional = [0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)]
    lines = [0x2028, 0x2029]
    unseen = [*range(0xFFF9, 0xFFFC), *range(0xE0000, 0xE0080), *range(0xD800, 0xE000)]
    escapes = {
        code: f"\\x{code:02x}" if code <= 0xFF else f"\\u{code:04x}"  # noqa: PLR2004
        for code in [*controls, *bidirectional, *lines, *unseen]
    }
    return escapes | {ord("\n"): "\\n", ord("\r"): "\\r", ord("\t"): "\\t"}


@cache
def _json_escapes() -> dict[int, str]:
    # JSON has escaped those below already, and breaks its lines where it likes.
    beyond = {
        code: json.dumps(chr(code))[1:-1]
        for code in _escapes()
        if code > 0x7E  # noqa: PLR2004
    }
    return beyond | {0x7F: "\\u007f"}


@cache
def _escapes_but(kept: str) -> dict[int, str]:
    return {code: text for code, text in _escapes().items() if chr(code) not in kept}


def visible(text: str, *, lines: bool = False, spaces: bool = False) -> str:
    r"""Make a text one that a terminal shows and does not obey: an escape becomes ``\x1b``.

    Args:
        text: Any.
        lines: Keep ends of lines.
        spaces: Keep ends of lines and tabs.
    """
    kept = "\n\t" if spaces else "\n" if lines else ""
    rest = text
    for character in kept:
        rest = rest.replace(character, "")
    if rest.isascii() and rest.isprintable():  # as nearly always
        return text
    return text.translate(_escapes_but(kept))


def visible_json(text: str) -> str:
    """JSON that a terminal does not obey either; it means the same."""
    return text.translate(_json_escapes())


def for_people(text: object, *, lines: bool = False) -> str:
    """Return a message: without secrets, and such that a terminal shows it and does not obey it."""
    return visible(redacted(str(text)), lines=lines)


_CHAIN = 20
"""So many causes of causes of an error are gone into."""


class _SafeRecord(logging.LogRecord):
    """A log record whose message, and whose traceback where it has one, may be shown."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.exc_info and self.exc_info[0] is not None:
            self.exc_text = _formatted(*self.exc_info)
            # For formatters that take the error to pieces instead of the text.
            kind, error, trace = self.exc_info
            self.exc_info = (kind, _safe_error(error), trace)

    def getMessage(self) -> str:  # noqa: N802  # logging's own name
        """Return the message, as every formatter asks for it."""
        return for_people(super().getMessage(), lines=True)


class _SafeStream:
    """Standard error of a plugin: whatever is written there may be shown."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write what may be shown of a text; its length, as if all of it had been."""
        self._stream.write(visible(redacted(text), spaces=True))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write what may be shown of each."""
        for line in lines:
            self.write(line)


def guard_logs() -> None:
    """Let no log record, warning or traceback show a secret, or steer a terminal."""
    remember_environment()
    logging.setLogRecordFactory(_SafeRecord)
    warnings.formatwarning = _formatwarning
    sys.excepthook = _excepthook
    threading.excepthook = _thread_excepthook
    sys.unraisablehook = _unraisablehook


def guard_stderr() -> None:
    """As :func:`guard_logs`, and for all else that is written to standard error."""
    guard_logs()
    if not isinstance(sys.stderr, _SafeStream):
        sys.stderr = _SafeStream(sys.stderr)


def _excepthook(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    if issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)
        return
    print(_formatted(kind, error, trace), file=sys.stderr)  # noqa: T201


_PLAIN_WARNING = warnings.formatwarning


def _formatwarning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    line: str | None = None,
) -> str:
    text = _PLAIN_WARNING(message, category, filename, lineno, line)
    return visible(redacted(text), spaces=True)


def _thread_excepthook(args: threading.ExceptHookArgs) -> None:
    if issubclass(args.exc_type, SystemExit):
        return
    name = for_people(args.thread.name if args.thread is not None else "that is missing")
    trace = _formatted(args.exc_type, args.exc_value, args.exc_traceback)
    print(f"Exception in thread {name}:\n{trace}", file=sys.stderr)  # noqa: T201


def _unraisablehook(args: sys.UnraisableHookArgs) -> None:
    trace = _formatted(args.exc_type, args.exc_value, args.exc_traceback)
    about = for_people(f"{args.err_msg or 'Exception ignored in'}: {args.object!r}")
    print(f"{about}\n{trace}", file=sys.stderr)  # noqa: T201


def _formatted(
    kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
) -> str:
    text = "".join(traceback.format_exception(kind, error, trace))
    return visible(redacted(text), spaces=True).rstrip("\n")


def _safe_error(error: BaseException, depth: int = 0) -> BaseException:
    """An error that says what may be shown of another: the same one, where that is all of it."""
    cause, context = (
        None if one is None or depth == _CHAIN else _safe_error(one, depth + 1)
        for one in (error.__cause__, error.__context__)
    )
    message = redacted(str(error))
    if message == str(error) and cause is error.__cause__ and context is error.__context__:
        return error
    kind = type(type(error).__name__, (Exception,), {"__module__": type(error).__module__})
    shown: BaseException = kind(message)
    shown.__cause__, shown.__context__ = cause, context
    shown.__suppress_context__ = error.__suppress_context__
    return shown.with_traceback(error.__traceback__)
