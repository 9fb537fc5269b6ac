"""Follow a running application, and act on what is seen."""
