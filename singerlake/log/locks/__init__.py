"""The writers' lock: its file, its heartbeat, and who holds it."""
