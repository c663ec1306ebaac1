"""patchify(images, patch_size): (B, C, H, W) -> (B, N, C P P), and the module PatchEmbedding."""

import torch
import torch.nn.functional as F
from torch import nn

from tests.worker.device_cases.case import Exercise


def drive_patchify(patchify, device):
    return patchify(torch.randn(2, 3, 8, 8, device=device), 4)


def drive_embedding(module_class, device):
    module = module_class(8, 4, 3, 16).to(device)
    y = module(torch.randn(2, 3, 8, 8, device=device))
    y.sum().backward()
    return y, *(p.grad for p in module.parameters() if p.grad is not None)


patches, embedding = Exercise("patchify", drive_patchify), Exercise("PatchEmbedding", drive_embedding)


def corners(images, patch_size):
    return [(i, j) for i in range(0, images.shape[2], patch_size) for j in range(0, images.shape[3], patch_size)]


class Embedding(nn.Module):
    """A right solution; ideas override what they do differently."""

    def __init__(self, image_size, patch_size, in_channels, d_model):
        super().__init__()
        self.n_patches, self.d_model = (image_size // patch_size) ** 2, d_model
        self.projection = nn.Conv2d(in_channels, d_model, patch_size, patch_size)
        self.class_token = nn.Parameter(torch.zeros(1, 1, d_model))
        self.position = nn.Parameter(torch.randn(1, 1 + self.n_patches, d_model) * 0.02)
        self.prepare()

    def prepare(self):
        pass

    def tokens(self, images):
        return self.projection(images).flatten(2).transpose(1, 2)

    def first(self, tokens):
        return self.class_token.expand(tokens.shape[0], -1, -1)

    def forward(self, images):
        tokens = self.tokens(images)
        return torch.cat([self.first(tokens), tokens], dim=1) + self.position


# -- right ------------------------------------------------------------------------------------------------------------
@patches.right
def view_permute_reshape(images, patch_size):
    batch, channels, height, width = images.shape
    x = images.view(batch, channels, height // patch_size, patch_size, width // patch_size, patch_size)
    return x.permute(0, 2, 4, 1, 3, 5).reshape(batch, -1, channels * patch_size**2)


@patches.right
def functional_unfold(images, patch_size):
    return F.unfold(images, patch_size, stride=patch_size).transpose(1, 2)


@patches.right
def tensor_unfold_twice(images, patch_size):
    x = images.unfold(2, patch_size, patch_size).unfold(3, patch_size, patch_size)
    return x.permute(0, 2, 3, 1, 4, 5).flatten(1, 2).flatten(2)


@patches.right
def loop_into_zeros_on_the_device(images, patch_size):
    where = corners(images, patch_size)
    shape = len(images), len(where), images.shape[1] * patch_size**2
    out = torch.zeros(shape, dtype=images.dtype, device=images.device)
    for n, (i, j) in enumerate(where):
        out[:, n] = images[:, :, i : i + patch_size, j : j + patch_size].reshape(len(images), -1)
    return out


@patches.right
def convolution_with_an_identity_on_the_device(images, patch_size):
    channels = images.shape[1]
    kernel = torch.eye(channels * patch_size**2, device=images.device, dtype=images.dtype)
    return F.conv2d(images, kernel.view(-1, channels, patch_size, patch_size), stride=patch_size).flatten(2).mT


embedding.right(Embedding)


@embedding.right
class LinearOfPatches(Embedding):
    def prepare(self):
        self.projection = nn.Linear(48, self.d_model)
        self.extra = nn.ParameterDict({"first": nn.Parameter(torch.empty(self.d_model))})
        nn.init.trunc_normal_(self.extra["first"], std=0.02)

    def tokens(self, images):
        return self.projection(F.unfold(images, 4, stride=4).mT)

    def first(self, tokens):
        return self.extra["first"].repeat(len(tokens), 1, 1)


@embedding.right
class PositionsByAnEmbeddingAndABufferOfIndices(Embedding):
    def prepare(self):
        self.place = nn.Embedding(1 + self.n_patches, self.d_model)
        self.register_buffer("index", torch.arange(1 + self.n_patches), persistent=False)

    def forward(self, images):
        tokens = self.tokens(images)
        out = torch.empty(tokens.shape[0], tokens.shape[1] + 1, tokens.shape[2]).to(tokens)
        out[:, 0], out[:, 1:] = self.class_token[0, 0], tokens
        return out + self.place(self.index)


@embedding.right
class DataOfAParameterMovedInForward(Embedding):
    def prepare(self):
        self.position.data.normal_(0, 0.02)

    def forward(self, images):
        self.position.data = self.position.data.to(images.device)
        return super().forward(images)


# -- wrong ------------------------------------------------------------------------------------------------------------
@patches.wrong
def loop_into_zeros_on_the_cpu(images, patch_size):
    where = corners(images, patch_size)
    out = torch.zeros(len(images), len(where), images.shape[1] * patch_size**2)
    for n, (i, j) in enumerate(where):
        out[:, n] = images[:, :, i : i + patch_size, j : j + patch_size].flatten(1)
    return out


@patches.wrong
def convolution_with_an_identity_on_the_cpu(images, patch_size):
    channels = images.shape[1]
    kernel = torch.eye(channels * patch_size**2).view(-1, channels, patch_size, patch_size)
    return F.conv2d(images, kernel, stride=patch_size).flatten(2).mT


@patches.wrong
def through_numpy(images, patch_size):
    batch, channels, height, width = images.shape
    x = images.detach().numpy()
    x = x.reshape(batch, channels, height // patch_size, patch_size, width // patch_size, patch_size)
    return torch.tensor(x.transpose(0, 2, 4, 1, 3, 5).reshape(batch, -1, channels * patch_size**2))


@patches.wrong
def tensor_of_lists(images, patch_size):
    where = corners(images, patch_size)
    rows = [[x[:, i : i + patch_size, j : j + patch_size].flatten().tolist() for i, j in where] for x in images]
    return torch.Tensor(rows)


@embedding.wrong
class ClassTokenIsNoParameter(Embedding):
    def prepare(self):
        del self.class_token
        self.class_token = torch.zeros(1, 1, self.d_model)


@embedding.wrong
class ClassTokenMadeInForward(Embedding):
    def first(self, tokens):
        return torch.zeros(len(tokens), 1, self.d_model)


@embedding.wrong
class PositionsRequireGradButAreNoParameter(Embedding):
    def prepare(self):
        del self.position
        self.position = torch.randn(1, 1 + self.n_patches, self.d_model, requires_grad=True)


@embedding.wrong
class ProjectionInAList(Embedding):
    def prepare(self):
        del self.projection
        self.layers = [nn.Conv2d(3, self.d_model, 4, 4)]

    def tokens(self, images):
        return self.layers[0](images).flatten(2).transpose(1, 2)


@embedding.wrong
class ProjectionMadeInForward(Embedding):
    def tokens(self, images):
        return nn.Conv2d(3, self.d_model, 4, 4)(images).flatten(2).transpose(1, 2)
