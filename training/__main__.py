"""`make train`: makes the embedded model anew from the base weights and prints its accuracy."""

from training.sentiment import main

main()
