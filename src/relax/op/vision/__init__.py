"""The operators of object detection."""
