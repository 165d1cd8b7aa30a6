"""What Spark and its workers raise, turned into Singerlake's errors in one place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import AnalysisException, PySparkException, PythonException

from singerlake import errors
from singerlake.errors import (
    DamagedError,
    InvalidQueryError,
    RuntimeMissingError,
    SingerlakeError,
)
from singerlake.rows.columns.weights import too_heavy
from singerlake.rows.state.parquet_parts import IndexDamagedError

# The last line of a worker's traceback: the error's class and what it says. Arrow's are named
# otherwise, ArrowInvalid for one.
_RAISED = re.compile(r"^(?:[a-z][\w.]*\.)?([A-Z]\w*Error|Arrow[A-Z]\w*): (.+?)\s*$", re.MULTILINE)
_OURS = {
    name: kind
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, SingerlakeError)
}
_OURS[IndexDamagedError.__name__] = IndexDamagedError
_CONDITION = re.compile(r"^\[[A-Z0-9_.]+\]\s*")
# Advice to read other values than are there; the setting is not for a query to change.
_ANSI = re.compile(r'\s*\bIf [^.]*"spark\.sql\.ansi\.enabled"[^.]*\.')
# What Java raises where the query asked for the impossible: 1/0, a cast of 'a' to a number.
_REFUSED_VALUE = re.compile(
    r"Spark(?:Arithmetic|ArrayIndexOutOfBounds|DateTime|IllegalArgument|NoSuchElement|"
    r"NumberFormat|Runtime|UnsupportedOperation)Exception: (\[[A-Z0-9_.]+\] .+)"
)
_NO_ROOM = re.compile(r"\[NUMERIC_VALUE_OUT_OF_RANGE[.\w]*\] .+ as Decimal\(")
_MORE_ROOM = " Reduce the digits of its operands to what you need: cast(price as decimal(18,4))"
MISFIT_MARK = "singerlake: "
"""Begins the error that Spark raises for a row that does not fit its table."""
_MISFIT = re.compile(rf"\[USER_RAISED_EXCEPTION\] {MISFIT_MARK}(.+)")
WEIGHT_MARK = "singerlake weight: "
"""Begins the error that Spark raises for a row that is too heavy: its bytes, and the limit."""
_WEIGHT = re.compile(rf"\[USER_RAISED_EXCEPTION\] {WEIGHT_MARK}(\d+) (\d+)")
_TOO_MUCH = re.compile(
    r"\(([\d.]+ \wi?B)\) is bigger than (spark\.driver\.maxResultSize) \(([^)]+)\)"
)
_MORE_MEMORY = (
    "request less at once, or give it more with --conf spark.driver.memory=8g (on a cluster also "
    "spark.executor.memory)"
)
_JAVA_GONE = (Py4JNetworkError, ConnectionRefusedError, ConnectionResetError, EOFError)
_FILE_GONE = "[FAILED_READ_FILE."
_CHECKSUM = "could not verify page integrity"


@contextmanager
def plain_errors() -> Iterator[None]:
    """Run a Spark job; its failures come out as Singerlake's errors, without Java's stack.

    Raises:
        SingerlakeError: What an executor raised, in its own class where it is one of ours.
        InvalidQueryError: Spark refused a value at run time, such as a division by zero.
        DamagedError: A file of an index could not be read.
    """
    try:
        yield
    except (PySparkException, Py4JError, *_JAVA_GONE) as error:
        raise translated(error) from None


def translated(error: Exception) -> SingerlakeError:
    """Return the error of ours that says what an error of Spark's means."""
    text = str(error)
    raised = _RAISED.findall(text)
    for name, message in reversed(raised):
        if name in _OURS:
            return _OURS[name](message)
    if _FILE_GONE in text or _CHECKSUM in text:
        return IndexDamagedError(
            "a file of a materialized snapshot is damaged, or was deleted while it was read; it "
            "is only a cache: delete the folder index/ of the lake, and run it again"
        )
    if misfit := _MISFIT.search(text):
        return DamagedError(_cut(misfit.group(1)))
    if (exhausted := _exhausted(error, text)) is not None:
        return exhausted
    if refused := _REFUSED_VALUE.search(text):
        way_out = _MORE_ROOM if _NO_ROOM.search(text) else ""
        return InvalidQueryError(_cut(refused.group(1)) + way_out)
    if isinstance(error, PySparkException) and not isinstance(error, PythonException):
        return InvalidQueryError(first_line(error))
    if raised:
        name, message = raised[-1]
        if name == "ModuleNotFoundError":
            return RuntimeMissingError(
                f"the Python of Spark's workers lacks a package ({message}): install it there "
                "(jobs need singerlake[spark]), or name another Python before Spark starts: with "
                "the environment variable PYSPARK_PYTHON, or with spark.pyspark.python for "
                "spark-submit"
            )
        return SingerlakeError(f"a Spark worker failed with {name}: {message}")
    causes = re.findall(r"^(?:Caused by|: )?:? ?[\w.$]+Exception: (.+)$", text, re.MULTILINE)
    message = causes[-1] if causes else text.strip().partition("\n")[0]
    return SingerlakeError(f"Spark failed: {message[:300] or type(error).__name__}")


def _exhausted(error: Exception, text: str) -> SingerlakeError | None:
    """What asks for more memory than there is."""
    if heavy := _WEIGHT.search(text):
        return too_heavy(int(heavy[1]), int(heavy[2]))
    if much := _TOO_MUCH.search(text):
        return SingerlakeError(
            f"a part of the result takes {much[1]}, and the driver accepts {much[3]} at once: "
            f"select fewer rows or columns, or allow more with --conf {much[2]}=…"
        )
    if "java.lang.OutOfMemoryError" in text:
        return SingerlakeError(f"Java has not enough memory for this: {_MORE_MEMORY}")
    if isinstance(error, _JAVA_GONE):
        return SingerlakeError(f"Java ended, most likely for lack of memory: {_MORE_MEMORY}")
    return None


def first_line(error: Exception) -> str:
    """Return what Spark says, without its error class, its position marks and its stack."""
    text = str(error)
    if isinstance(error, PySparkException) and (message := error.getMessage()):
        text = message
    return _cut(text) or type(error).__name__


def condition(error: AnalysisException) -> str:
    """Return Spark's name for what is wrong with a query."""
    getter = getattr(error, "getCondition", None) or error.getErrorClass
    return str(getter() or "")


def _cut(text: str) -> str:
    text = _CONDITION.sub("", text.strip())
    for end in (" SQLSTATE:", "\n== SQL", "\nJVM stacktrace"):
        text = text.partition(end)[0]
    return _ANSI.sub("", text).strip().partition("\n")[0]
