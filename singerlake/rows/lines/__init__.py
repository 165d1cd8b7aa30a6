"""Lines that are written: records of new rows, and members set anew in lines that are there."""
