"""BATCH messages: records that a tap left in files, found, checked, read and cleaned up."""
