"""Whether records are what their JSON Schema says: at a glance by types, or in full."""
