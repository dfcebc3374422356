"""The custom operators in Python, and the choice between them and those in C++."""
