"""Answers that break off, told from whole ones where boto3 still repeats the request.

boto3 reads an error's body only after the point where it decides whether to repeat a request that
asks for an object, and does not compare what came with what the answer announced. So an answer
that was cut either left boto3 as an exception of urllib3's, or was taken for a whole one.
"""

from __future__ import annotations

import time
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any

from botocore.exceptions import BotoCoreError, ConnectionClosedError


def repeat_cut_answers(client: Any) -> None:
    """Let a client take an answer that breaks off for a connection that did, and repeat it.

    Args:
        client: boto3's.
    """
    # There is no public way to what sends a client's requests.
    client._endpoint.http_session = _WholeAnswers(client._endpoint.http_session)


def clock_ahead(client: Any) -> float | None:
    """Return the seconds by which this machine's clock is ahead of the service's, to about one.

    By the last answer that a client got; None where none told the time.

    Args:
        client: boto3's, as :func:`repeat_cut_answers` made it.
    """
    date, at = client._endpoint.http_session.told
    try:
        return float(at - parsedate_to_datetime(date).timestamp()) if date else None
    except (TypeError, ValueError):
        return None


class _WholeAnswers:
    """Sends requests, and reads answers as a whole but for the objects that are asked for.

    Attributes:
        told: The time by the service's last answer, and by this machine's clock meanwhile.
    """

    def __init__(self, session: Any) -> None:
        self._session = session
        self.told: tuple[str, float] = ("", 0.0)

    def send(self, request: Any) -> Any:
        """Send a request.

        Raises:
            ConnectionClosedError: The answer broke off.
        """
        before = time.time()
        try:
            answer = self._session.send(request)
            if "Age" not in answer.headers:  # of a cache, that is not the time
                self.told = (answer.headers.get("Date", ""), (before + time.time()) / 2)
            if request.stream_output and answer.status_code < HTTPStatus.MULTIPLE_CHOICES:
                return answer  # who asked for the object reads it
            size = len(answer.content)
        except BotoCoreError:
            raise
        except Exception as error:
            raise _closed(request, error) from error
        announced = answer.headers.get("Content-Length", "")
        if request.method != "HEAD" and announced.isdecimal() and size < int(announced):
            raise _closed(request, EOFError())
        return answer

    def close(self) -> None:
        """Close all connections."""
        self._session.close()


def _closed(request: Any, error: Exception) -> ConnectionClosedError:
    return ConnectionClosedError(error=error, request=request, endpoint_url=request.url)
