"""Jobs that keep a lake in order: freeze, vacuum, verify."""
