"""Settings under which PyTorch calls operators that every device has.

Recurrent layers are computed step by step, attention is the project's own operator (`fused_attention`): a trace made on
one kind of device runs on any. What a device has of its own (cuDNN's recurrent layers) is not used. Nor are the checks
of anomaly detection, which read numbers.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from graphsched.tracing.fused_attention import by_products, fused_attention


@contextlib.contextmanager
def neutral() -> Iterator[None]:
    """Leave out operators that only one kind of device has."""
    import torch

    fast, mkldnn = torch.backends.mha.get_fastpath_enabled(), torch._C._get_mkldnn_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    torch._C._set_mkldnn_enabled(False)
    try:
        with by_products(), fused_attention(), torch.autograd.set_detect_anomaly(False):
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
        torch._C._set_mkldnn_enabled(mkldnn)
