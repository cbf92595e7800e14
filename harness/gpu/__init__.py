"""The backend `cuda`: launch plans on a GPU, in processes that run no candidate's Python and hold no reference."""
