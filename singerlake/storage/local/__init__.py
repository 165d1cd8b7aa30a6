"""A lake in a folder of the machine's own disks."""
