"""Ways to remove by attention mask that compute less, each proven against plain masking before it is used."""
