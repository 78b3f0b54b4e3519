#!/usr/bin/env python3
"""What torch.optim.SGD makes of five steps: the numbers of tests/unit/kernels/test_kernels_optimizer.c.

The decay is decoupled, so it is applied before the step, as torch.optim.AdamW does."""
import torch

LR, MOMENTUM, DECAY = 0.1, 0.9, 0.1
p = torch.tensor([(i - 3) / 4 for i in range(8)], dtype=torch.float64, requires_grad=True)
optimizer = torch.optim.SGD([p], lr=LR, momentum=MOMENTUM)
for t in range(5):
    p.grad = torch.tensor([((i * 7 + t * 3) % 11 - 5) / 8 for i in range(8)], dtype=torch.float64)
    with torch.no_grad():
        p.mul_(1 - LR * DECAY)
    optimizer.step()
print(", ".join(f"{x:.12g}" for x in p.tolist()))
print(", ".join(f"{x:.12g}" for x in optimizer.state[p]["momentum_buffer"].tolist()))
