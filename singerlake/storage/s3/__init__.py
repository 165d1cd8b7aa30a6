"""A lake below a prefix of an S3 bucket. The only room that imports boto3."""
