"""Files of published rows that executors write."""
