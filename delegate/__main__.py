"""`python -m delegate` is the same as `delegate`."""

from delegate.cli.program import main

if __name__ == "__main__":
    main()
