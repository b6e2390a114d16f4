"""The rule of each operation, by kind; `table` says which operation has which."""
