"""What is a secret and where it is: by its name (`names`), by its value (`texts`), and in commands
and addresses (`command`). Pure.
"""
