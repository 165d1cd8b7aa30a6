"""What is asked in SQL, and states as Spark frames: what a query may ask, and what comes back."""
