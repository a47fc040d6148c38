"""Apps, a module or package for each kind; `targets` makes the app for a TARGET."""
