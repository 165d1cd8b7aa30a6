"""Update: columns of rows set, in this process and on Spark."""
