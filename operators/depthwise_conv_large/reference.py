"""Depthwise convolution with a large square kernel, stride 1, zeros around the image so that its size stays.

Ding et al., "Scaling Up Your Kernels to 31x31: Revisiting Large Kernel Design in CNNs" (2022), section 3: the layer
that RepLKNet consists of, with `K // 2` of padding, written down from memory of it; in two dimensions, because long
kernels in one are computed by FFT. The convolution is torch's, in bfloat16 with sums in float32: by float32 images it
would be a slow thing to compare with.
"""

import torch


def depthwise_conv_large(x, weight):
    channels, size = weight.shape[0], weight.shape[-1]
    return torch.nn.functional.conv2d(x, weight.unsqueeze(1), padding=size // 2, groups=channels)
