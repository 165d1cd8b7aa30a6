"""What people say of a table's columns, beside what its tap says: the plan and the commit."""
