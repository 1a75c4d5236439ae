"""Log-normal shadowing: a Gaussian loss in dB that a device keeps for as long as it stays where it is."""

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

Array = NDArray[np.float64]

# Half the step of a double's uniform numbers: a uniform of 0 would be an infinite gain.
_LEAST_UNIFORM = 2.0**-54


def shadowing_db(uniforms: Array, std_db: Array) -> Array:
    """Loss in dB to be added to the path loss, N(0, std_db^2), by inversion; [devices] from [devices] each.

    Independent between devices: the correlation over distance of TR 38.901 (section 7.6.3) is left out.
    """
    return np.asarray(std_db * ndtri(np.maximum(uniforms, _LEAST_UNIFORM)))
