"""Small modules with branches, loops and functions that slice."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F


class Halves(nn.Module):
    """An If with another slice in each branch."""

    def forward(self, x, flag: bool):
        if flag:
            return x[:, :2] * 2
        return x[:, -2:] + 1


class Steps(nn.Module):
    """A loop whose body slices the carried value."""

    def forward(self, x, n: int):
        for _ in range(n):
            x = torch.cat((x[:, 1:], x[:, :1]), 1)
        return x


class Branches(nn.Module):
    """`torch.cond`: a slice in each branch, in one of them on a reversed axis."""

    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda x: x[:, :3] * 2, lambda x: x.flip(1)[:, 1:4] + 1, (x,))


class Recurrence(nn.Module):
    """`scan`: each step splits a projection into halves, the gate and the value."""

    def __init__(self):
        super().__init__()
        self.project = nn.Linear(4, 8)

    def forward(self, x, state):
        from torch._higher_order_ops.scan import scan

        weight, bias = self.project.weight, self.project.bias

        def step(state, x):
            gate, value = F.linear(x, weight, bias).split(4, -1)
            state = torch.sigmoid(gate) * state + value
            return state, state * 1.0

        return scan(step, state, x, dim=0)


class While(nn.Module):
    """`while_loop`: rotations by one place; an input is their number."""

    def forward(self, x, n):
        from torch._higher_order_ops.while_loop import while_loop

        def rotate(x, n):
            return torch.cat((x[:, 1:], x[:, :1]), 1), n - 1

        return while_loop(lambda x, n: n > 0, rotate, (x, n))


class BranchInLoop(nn.Module):
    """A loop whose body has an If with slices in one branch and a flip in the other."""

    def forward(self, x, n: int):
        for i in range(n):
            if i % 2 == 0:
                x = torch.cat((x[:, 2:], x[:, :2]), 1)
            else:
                x = x.flip(1)
        return x


class Gate(nn.Module):
    """A gated unit that is exported as a function."""

    __module__ = "gated"

    def forward(self, x):
        value, gate = x.chunk(2, -1)
        return value * torch.sigmoid(gate)


class Gates(nn.Module):
    """A function that is called with two shapes."""

    def __init__(self):
        super().__init__()
        self.gate, self.up = Gate(), nn.Linear(4, 12)

    def forward(self, x):
        return self.gate(self.up(self.gate(x)))
