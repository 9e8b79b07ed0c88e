"""`python -m hushrec` is the program `hushrec`."""

from hushrec.cli import main

main()
