"""Plans for freeze, revert, vacuum and repair: plain data, no Spark."""
