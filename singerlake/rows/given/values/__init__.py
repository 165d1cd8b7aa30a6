"""What files hold: of which type each of their columns is, and their cells as such values."""
