"""What people and jobs say of a lake: set, checked, kept, exported. Plain data; no terminal."""
