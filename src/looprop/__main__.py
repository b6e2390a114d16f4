"""`python -m looprop` is the command `looprop`."""

from looprop.cli.main import main

if __name__ == "__main__":
    main()
