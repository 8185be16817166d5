"""Formulas of object detection."""
