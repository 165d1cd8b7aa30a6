"""The Spark jobs. The only room that imports pyspark."""
