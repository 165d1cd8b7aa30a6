"""The documentation site: a lake's metadata as pages, the pages as files. No Java, no data read."""
