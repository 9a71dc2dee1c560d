"""Sources of numbers, one module each behind one interface: what is asked, how the answer is read, and what makes it no answer."""
