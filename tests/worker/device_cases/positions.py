"""PositionalEncoding(d_model, max_len), a module that adds to x, and sinusoidal_encoding(n_positions, d_model)."""

import math

import numpy as np
import torch
from torch import nn

from tests.worker.device_cases.case import Exercise


def drive(module_class, device):
    return module_class(16, 32).to(device)(torch.randn(2, 5, 16, device=device))


def drive_used_before_it_is_moved(module_class, device):
    module, x = module_class(16, 32), torch.randn(2, 5, 16)
    module(x)
    return module.to(device)(x.to(device))


def drive_table(sinusoidal_encoding, device):
    """The table has no input to follow: it must be fit to be a buffer."""
    module = nn.Module()
    module.register_buffer("table", sinusoidal_encoding(6, 8))
    return module.to(device).table + torch.zeros(6, 8, device=device)


exercise = Exercise("PositionalEncoding", drive)
moved = Exercise("PositionalEncoding_used_before_it_is_moved", drive_used_before_it_is_moved)
table = Exercise("sinusoidal_encoding", drive_table)
right, wrong = exercise.right, exercise.wrong


class Positions(nn.Module):
    """Ideas override `prepare` and `added`."""

    def __init__(self, d_model, max_len):
        super().__init__()
        self.d_model, self.max_len = d_model, max_len
        self.prepare(max_len, d_model)

    def prepare(self, max_len, d_model):
        pass

    def forward(self, x):
        return x + self.added(x, x.shape[1])


# -- right ------------------------------------------------------------------------------------------------------------
@right
class Buffer(Positions):
    def prepare(self, max_len, d_model):
        angle = torch.arange(max_len).unsqueeze(1) * torch.exp(torch.arange(0, d_model, 2) * (-math.log(1e4) / d_model))
        encoding = torch.zeros(max_len, d_model)
        encoding[:, 0::2], encoding[:, 1::2] = torch.sin(angle), torch.cos(angle)
        self.register_buffer("encoding", encoding.unsqueeze(0))

    def added(self, x, n):
        return self.encoding[:, :n]


@right
class PlainAttributeMovedAtUse(Positions):
    def prepare(self, max_len, d_model):
        self.encoding = torch.randn(max_len, d_model)

    def added(self, x, n):
        return self.encoding[:n].to(x.device)


@right
class FrozenParameterAddedInPlace(Positions):
    def prepare(self, max_len, d_model):
        self.encoding = nn.Parameter(torch.randn(1, max_len, d_model), requires_grad=False)

    def forward(self, x):
        x += self.encoding[:, : x.shape[1]].requires_grad_(False)
        return x


@right
class EmbeddingOfARangeOnTheDevice(Positions):
    def prepare(self, max_len, d_model):
        self.embedding = nn.Embedding(max_len, d_model)

    def added(self, x, n):
        return self.embedding(torch.arange(n, device=x.device))


@right
class TiedWeightAndABufferOfIndices(Positions):
    def prepare(self, max_len, d_model):
        self.embedding, self.linear = nn.Embedding(max_len, d_model), nn.Linear(d_model, max_len, bias=False)
        self.linear.weight = self.embedding.weight
        self.register_buffer("positions", torch.arange(max_len).expand(1, -1))

    def added(self, x, n):
        assert self.linear.weight is self.embedding.weight, "moving the module must keep the tie"
        return self.embedding(self.positions[:, :n])


@right
class ComputedEachTimeAsTheTypeOfX(Positions):
    def added(self, x, n):
        frequency = 10000 ** (torch.arange(0, self.d_model, 2).type_as(x) / self.d_model)
        angle = torch.arange(n).type_as(x)[:, None] / frequency
        return torch.stack([angle.sin(), angle.cos()], -1).flatten(-2)


@right
class ParameterIndexedOnTheCPU(Positions):
    """CUDA takes indices from the CPU."""

    def prepare(self, max_len, d_model):
        self.encoding, self.positions = nn.Parameter(torch.randn(max_len, d_model)), torch.arange(max_len)

    def added(self, x, n):
        return self.encoding[self.positions[:n]]


@right
class CacheRenewedForAnotherDevice(Positions):
    cache = None

    def added(self, x, n):
        if self.cache is None or self.cache.device != x.device:
            self.cache = torch.arange(self.max_len, device=x.device)[:, None] * torch.ones_like(x[0, 0])
        return self.cache[:n]


@table.right
def a_plain_table(n_positions, d_model, base=10000.0):
    angle = torch.arange(n_positions)[:, None] / base ** (torch.arange(0, d_model, 2) / d_model)
    return torch.stack([angle.sin(), angle.cos()], -1).reshape(n_positions, d_model)


@table.right
def a_table_by_numpy(n_positions, d_model, base=10000.0):
    encoding = np.arange(n_positions)[:, None] / base ** (2 * (np.arange(d_model)[None] // 2) / d_model)
    encoding[:, 0::2], encoding[:, 1::2] = np.sin(encoding[:, 0::2]), np.cos(encoding[:, 1::2])
    return torch.tensor(encoding, dtype=torch.float32)


# -- wrong ------------------------------------------------------------------------------------------------------------
@wrong
class PlainAttribute(Positions):
    def prepare(self, max_len, d_model):
        self.encoding = torch.randn(max_len, d_model)

    def added(self, x, n):
        return self.encoding[:n]


@wrong
class ListOfTensors(Positions):
    def prepare(self, max_len, d_model):
        self.encodings = [torch.randn(d_model) for _ in range(max_len)]

    def forward(self, x):
        return torch.stack([x[:, i] + self.encodings[i] for i in range(x.shape[1])], 1)


@wrong
class EmbeddingOfARangeOnTheCPU(Positions):
    def prepare(self, max_len, d_model):
        self.embedding = nn.Embedding(max_len, d_model)

    def added(self, x, n):
        return self.embedding(torch.arange(n))


@wrong
class FrequenciesKeptOnTheCPU(Positions):
    def prepare(self, max_len, d_model):
        self.frequency = torch.exp(torch.arange(0, d_model, 2) * (-math.log(1e4) / d_model))

    def added(self, x, n):
        angle = torch.arange(n, device=x.device).unsqueeze(1) * self.frequency
        return torch.stack((angle.sin(), angle.cos()), -1).flatten(1)


@wrong
class TableOnTheCPUIndexedOnTheDevice(Positions):
    def prepare(self, max_len, d_model):
        self.encoding = torch.randn(max_len, d_model)

    def added(self, x, n):
        return self.encoding[torch.arange(n, device=x.device)].to(x.device)


@wrong
class BufferOverwrittenByATableOnTheCPU(Positions):
    def prepare(self, max_len, d_model):
        self.register_buffer("encoding", torch.zeros(1, d_model))

    def added(self, x, n):
        if len(self.encoding) < n:
            self.encoding = torch.randn(n, self.d_model)
        return self.encoding


@exercise.wrong_module
def table_at_the_top_of_the_module():
    table = torch.randn(64, 16)

    class PositionalEncoding(Positions):
        def added(self, x, n):
            return table[:n]

    return PositionalEncoding


@moved.wrong
class CacheOnTheFirstDevice(Positions):
    cache = None

    def added(self, x, n):
        if self.cache is None:
            self.cache = torch.arange(n, device=x.device)[:, None] * torch.ones(self.d_model, device=x.device)
        return self.cache


@table.wrong_module
def only_the_positions_on_the_device_of_the_module():
    device = "cuda" if torch.cuda.is_available() else "cpu"

    def sinusoidal_encoding(n_positions, d_model, base=10000.0):
        angle = torch.arange(n_positions, device=device)[:, None] / base ** (torch.arange(0, d_model, 2) / d_model)
        return torch.stack([angle.sin(), angle.cos()], -1).reshape(n_positions, d_model)

    return sinusoidal_encoding
