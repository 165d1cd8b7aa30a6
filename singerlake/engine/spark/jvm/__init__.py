"""The JVM and the session on it: found, configured, started, and its failures."""
