"""``python -m iqcar``."""

from iqcar.cli.main import main

if __name__ == "__main__":
    main()
