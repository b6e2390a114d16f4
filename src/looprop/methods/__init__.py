"""The methods, one file each: a subject in, one score per feature out."""
