"""Reports for people and for other programs: text, HTML, SARIF, annotations of GitHub, and node data."""
