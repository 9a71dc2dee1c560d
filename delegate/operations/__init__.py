"""What people do to a delegate from outside: examine it, bundle what support needs."""
