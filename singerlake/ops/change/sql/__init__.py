"""What SQL asks and checks of rows that change."""
