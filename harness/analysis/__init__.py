"""What the tables of a run say: rates, effects, costs and noise, and the sentences that follow from them."""
