"""SQL that asks and checks rows that change."""
