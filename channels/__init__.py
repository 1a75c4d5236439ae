"""The physics of the uplink: fading, OFDMA grid, power control, superposition, noise.

This package knows numpy, torch and scipy, and never imports `airfl`. Everything is complex baseband; a payload is real
and sits on the real part of a resource element (or on both parts, under I/Q packing). `noise_std` is always sigma_0,
the standard deviation of the noise on one *observed real entry*: complex noise CN(0, N_0) has sigma_0^2 = N_0/2.
"""
