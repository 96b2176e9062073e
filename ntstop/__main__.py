"""`python -m ntstop`: the command line, where the console script is not on the PATH."""

from ntstop.cli import main

if __name__ == "__main__":
    main()
