"""Where bytes live: a local folder or an S3 bucket, behind one small interface."""
