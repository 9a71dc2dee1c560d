"""Evidence from outside: metrics, logs and jobs asked by providers, compared by the judge, turned into readings."""
