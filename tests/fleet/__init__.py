"""Tests of which node of a fleet owns what."""
