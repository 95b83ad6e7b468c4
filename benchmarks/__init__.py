"""Peers and limits side by side, interleaved in one run: ratios that hold on a noisy machine."""
