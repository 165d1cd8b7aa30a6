"""Signatures of versions: added by people, and checked against a list of signers."""
