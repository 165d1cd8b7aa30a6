"""The server that speaks S3, as the stores' own tests start it."""

from tests.storage.conftest import no_aws_settings, s3_port, s3_store

__all__ = ["no_aws_settings", "s3_port", "s3_store"]
