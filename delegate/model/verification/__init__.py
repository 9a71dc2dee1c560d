"""What is wanted of evidence and what is made of it: units, rules, checks, windows, readings and how they add up. Pure."""
