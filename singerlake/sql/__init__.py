"""What a query may ask for, and what comes back of it."""
