"""`python -m auxo` is `auxo`."""

from auxo.cli import main

if __name__ == "__main__":
    main()
