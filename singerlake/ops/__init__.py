"""Operations on tables, one module a verb: options, plan, run, result."""
