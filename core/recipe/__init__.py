"""The training recipe under study: extensions, reward, curriculum, selection."""
