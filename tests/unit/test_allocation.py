"""Large pages change where a tensor lies in memory, not what it holds."""

import pytest
import torch

from airfl.runtime.allocation import in_large_pages


@pytest.mark.parametrize("numbers", [0, 1, 1023, 1 << 20])
def test_a_tensor_in_large_pages_is_the_same(numbers: int) -> None:
    tensor = torch.arange(numbers, dtype=torch.float32)
    found = in_large_pages(tensor)
    assert found is tensor
    assert torch.equal(found, torch.arange(numbers, dtype=torch.float32))
