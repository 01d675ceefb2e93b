"""Settings under which PyTorch calls operators that every device has.

Attention is computed by products and softmax, recurrent layers step by step: a trace made on one kind of device
runs on any. What a device has of its own (fused attention, cuDNN's recurrent layers) is not used. Nor are the checks of
anomaly detection, which read numbers.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator


@contextlib.contextmanager
def neutral() -> Iterator[None]:
    """Leave out operators that only one kind of device has."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    fast, mkldnn = torch.backends.mha.get_fastpath_enabled(), torch._C._get_mkldnn_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    torch._C._set_mkldnn_enabled(False)
    try:
        with sdpa_kernel(SDPBackend.MATH), torch.autograd.set_detect_anomaly(False):
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
        torch._C._set_mkldnn_enabled(mkldnn)
