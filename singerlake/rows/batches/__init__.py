"""Rows on their way: names of their columns, steps over them, packing, what is wrong with them."""
