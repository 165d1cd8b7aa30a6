"""What is read of a lake: SQL, frames, the difference of two states, the versions of a row."""
