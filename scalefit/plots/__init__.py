"""Every figure; the only room that knows matplotlib."""
