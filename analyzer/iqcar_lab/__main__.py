"""Lets ``python -m iqcar_lab`` run the command line."""

from iqcar_lab.commands.main import main

if __name__ == "__main__":
    main()
