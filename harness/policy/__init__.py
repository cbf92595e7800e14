"""Language models as policies: load, sample, fine-tune."""
