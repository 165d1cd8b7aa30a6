"""What goes out with each request to S3, seen just before it is sent."""

from __future__ import annotations

import io
from typing import Any

import pytest
from botocore.awsrequest import AWSResponse, HeadersDict
from botocore.config import Config
from urllib3 import HTTPResponse

from singerlake.storage.options import StoreOptions
from singerlake.storage.s3.connection import AT_ONCE_BYTES, connect
from singerlake.version import __version__


def sent_by(**settings: Any) -> tuple[Any, list[Any]]:
    """A client, and what it sends; each request is answered with what an empty object would be."""
    account = {"access_key_id": "a", "secret_access_key": "b", "region": "us-east-1"}
    found = StoreOptions(**account, endpoint_url="http://localhost:1", **settings)
    _, client = connect(found, Config())
    sent: list[Any] = []

    def noted(request: Any, **_: Any) -> AWSResponse:
        sent.append(request)
        return AWSResponse(
            request.url,
            200,
            HeadersDict({"ETag": '"x"'}),
            HTTPResponse(io.BytesIO(), preload_content=False),
        )

    client.meta.events.register("before-send.s3", noted)
    return client, sent


def test_a_small_body_goes_out_with_its_headers() -> None:
    client, sent = sent_by()
    for size in (0, 1, AT_ONCE_BYTES, AT_ONCE_BYTES + 1):
        client.put_object(Bucket="b", Key="k", Body=bytes(size), IfNoneMatch="*")
    client.get_object(Bucket="b", Key="k")
    asks = ["Expect" in request.headers for request in sent]
    assert asks == [False, False, False, True, False]
    assert all(request.headers["If-None-Match"] == b"*" for request in sent[:-1])


def test_requests_say_who_makes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SDK_UA_APP_ID", "night sync\n2")
    monkeypatch.setenv("AWS_EXECUTION_ENV", "AWS ECS_FARGATE é\n")
    client, sent = sent_by()
    client.get_object(Bucket="b", Key="k")
    client.list_objects_v2(Bucket="b")
    for request in sent:
        names = request.headers["User-Agent"].decode().split(" ")
        assert len(names) == len(set(names))
        tools = {name.partition("/")[0] for name in names}
        assert tools >= {"Boto3", "Botocore", "Python"}
        assert "exec-env/AWS-ECS_FARGATE---" in names
        assert {f"Singerlake/{__version__}", "app/night-sync-2"} <= set(names)
