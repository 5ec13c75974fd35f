"""Operators: specs from files, shapes to check, names, and sources as syntax trees."""
