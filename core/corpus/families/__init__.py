"""Task families of the corpus: each module draws one subject's tasks and writes their programs and solutions."""
