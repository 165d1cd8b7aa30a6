"""What a shell needs besides the commands: entries taken apart, and the editing of lines."""
