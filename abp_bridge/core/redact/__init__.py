"""Find secrets by name (`names`), by value (`texts`), and in commands and addresses (`command`)."""
