"""A resident verifier: one server, its worker processes, and the client that other programs use."""

TOKEN_VARIABLE = "TRITONRL_TOKEN"
