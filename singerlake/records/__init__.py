"""What the bytes of records mean: columns, decoding, keys, activations, Parquet parts. No Spark."""
