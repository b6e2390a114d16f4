"""`make train`: makes the embedded model anew from the base weights, then prints its accuracy."""

from training import evaluate, sentiment

sentiment.main()
evaluate.main()
