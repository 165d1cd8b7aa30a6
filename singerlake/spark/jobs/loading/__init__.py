"""Jobs that bring rows in as a whole: new tables from queries or files, uploads."""
