"""The parts of a shell besides the commands: parsing of entries, and editing of lines."""
