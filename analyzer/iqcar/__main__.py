"""``python -m iqcar``."""

from iqcar.apps.cli.main import main

if __name__ == "__main__":
    main()
