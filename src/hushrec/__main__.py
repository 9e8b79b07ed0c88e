"""The program `hushrec`, also as `python -m hushrec`: what interrupts it while it is loaded is one sentence, too."""

import sys


def main() -> None:
    """Load the command line and run it."""
    try:
        from hushrec.cli import main as program

        program()
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
