"""What the tap and the target share: their command line, their settings, their start."""
