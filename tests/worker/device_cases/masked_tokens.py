"""mask_tokens(ids, mask_id, vocab_size, p, generator, special_ids) -> (inputs, targets), as for BERT.

What is right depends on the generator: none, one on the CPU, or one on the device of the ids.
"""

import numpy as np
import torch

from tests.worker.device_cases.case import Exercise


def drive(mask_tokens, device, generator=None):
    ids = torch.randint(5, 30, (4, 16), device=device)
    return mask_tokens(ids, 3, 30, p=0.3, generator=generator, special_ids=(0, 1))


def drive_with_cpu_generator(mask_tokens, device):
    return drive(mask_tokens, device, torch.Generator().manual_seed(0))


def drive_with_device_generator(mask_tokens, device):
    return drive(mask_tokens, device, torch.Generator(device=device).manual_seed(0))


without = Exercise("mask_tokens", drive)
cpu_generator = Exercise("mask_tokens_with_a_generator_on_the_cpu", drive_with_cpu_generator)
device_generator = Exercise("mask_tokens_with_a_generator_on_the_device", drive_with_device_generator)


def hidden(ids, chosen, mask_id):
    return ids.masked_fill(chosen, mask_id), ids.masked_fill(~chosen, -100)


# -- right ------------------------------------------------------------------------------------------------------------
@without.right
def drawn_like_the_ids(ids, mask_id, vocab_size, p, generator, special_ids):
    special = torch.zeros_like(ids, dtype=torch.bool)
    for s in special_ids:
        special |= ids == s
    chosen = (torch.rand_like(ids, dtype=torch.float) < p) & ~special
    kind = torch.rand(ids.shape, device=ids.device)
    inputs, targets = ids.clone(), ids.masked_fill(~chosen, -100)
    inputs[chosen & (kind < 0.8)] = mask_id
    random = chosen & (kind >= 0.9)
    inputs[random] = torch.randint(vocab_size, (int(random.sum()),), device=ids.device)
    return inputs, targets


@without.right
def bernoulli_of_a_full_tensor(ids, mask_id, vocab_size, p, generator, special_ids):
    def coin(q):
        return torch.bernoulli(torch.full(ids.shape, q, device=ids.device)).bool()

    inputs, targets = ids.clone(), ids.clone()
    chosen = coin(p) & ~torch.isin(ids, torch.tensor(special_ids, device=ids.device))
    targets[~chosen] = -100
    replaced = coin(0.8) & chosen
    inputs[replaced] = mask_id
    random = coin(0.5) & chosen & ~replaced
    inputs[random] = torch.randint(vocab_size, ids.shape, dtype=torch.long, device=ids.device)[random]
    return inputs, targets


@device_generator.right
def device_and_generator_handed_on(ids, mask_id, vocab_size, p, generator, special_ids):
    u = torch.rand(ids.shape, generator=generator, device=ids.device)
    special = sum((ids == s for s in special_ids), torch.zeros_like(ids)).bool()
    chosen = (u < p) & ~special
    words = torch.randint(0, vocab_size, ids.shape, generator=generator, device=ids.device)
    replaced = torch.where(u < 0.8 * p, mask_id, torch.where(u < 0.9 * p, words, ids))
    return torch.where(chosen, replaced, ids), torch.where(chosen, ids, torch.tensor(-100))


@device_generator.right
def drawn_in_place_into_empty_like(ids, mask_id, vocab_size, p, generator, special_ids):
    u = torch.empty_like(ids, dtype=torch.float32).uniform_(generator=generator)
    words = torch.empty_like(ids).random_(vocab_size, generator=generator)
    inputs, chosen = ids.clone(), u < p
    inputs[chosen] = torch.where(u < 0.8 * p, torch.full_like(ids, mask_id), words)[chosen]
    return inputs, ids.where(chosen, torch.full_like(ids, -100))


@cpu_generator.right
def drawn_on_the_cpu_then_moved(ids, mask_id, vocab_size, p, generator, special_ids):
    u = torch.rand(ids.shape, generator=generator).to(ids.device)
    words = torch.randint(vocab_size, ids.shape, generator=generator).to(ids)
    inputs, targets = ids.clone(), ids.clone()
    targets[u >= p] = -100
    inputs[u < 0.8 * p] = mask_id
    return torch.where((u < p) & (u >= 0.9 * p), words, inputs), targets


@cpu_generator.right
def permutation_on_the_cpu_as_indices(ids, mask_id, vocab_size, p, generator, special_ids):
    chosen = torch.randperm(ids.numel(), generator=generator)[: int(p * ids.numel())]
    inputs, targets = ids.clone().view(-1), torch.full_like(ids, -100).view(-1)
    targets[chosen] = inputs[chosen]
    inputs[chosen[: int(0.8 * len(chosen))]] = mask_id
    return inputs.view_as(ids), targets.view_as(ids)


@cpu_generator.right
@device_generator.right
def drawn_where_the_generator_is(ids, mask_id, vocab_size, p, generator, special_ids):
    device = generator.device if isinstance(generator, torch.Generator) else ids.device
    return hidden(ids, (torch.rand(ids.shape, generator=generator, device=device) < p).to(ids.device), mask_id)


# -- wrong ------------------------------------------------------------------------------------------------------------
@without.wrong
def drawn_on_the_cpu(ids, mask_id, vocab_size, p, generator, special_ids):
    return hidden(ids, torch.rand(ids.shape) < p, mask_id)


@without.wrong
def random_words_on_the_cpu(ids, mask_id, vocab_size, p, generator, special_ids):
    u = torch.rand_like(ids, dtype=torch.float)
    return torch.where(u < p, torch.randint(vocab_size, ids.shape), ids), torch.where(u < p, ids, -100)


@without.wrong
def words_on_the_cpu_assigned_under_a_mask(ids, mask_id, vocab_size, p, generator, special_ids):
    inputs, chosen = ids.clone(), torch.rand(ids.shape, device=ids.device) < p
    inputs[chosen] = torch.randint(vocab_size, (int(chosen.sum()),))
    return inputs, ids.masked_fill(~chosen, -100)


@without.wrong
def special_ids_on_the_cpu(ids, mask_id, vocab_size, p, generator, special_ids):
    special = torch.isin(ids, torch.tensor(list(special_ids)))
    return hidden(ids, (torch.rand(ids.shape, device=ids.device) < p) & ~special, mask_id)


@without.wrong
def targets_on_the_cpu(ids, mask_id, vocab_size, p, generator, special_ids):
    chosen = torch.rand(ids.shape, device=ids.device) < p
    targets = torch.full(ids.shape, -100)
    targets[chosen] = ids[chosen]
    return ids.masked_fill(chosen, mask_id), targets


@without.wrong
def all_in_numpy(ids, mask_id, vocab_size, p, generator, special_ids):
    a = ids.numpy().copy()
    chosen = np.random.default_rng(0).random(a.shape) < p
    return torch.from_numpy(np.where(chosen, mask_id, a)), torch.from_numpy(np.where(chosen, a, -100))


@cpu_generator.wrong
def drawn_on_the_device(ids, mask_id, vocab_size, p, generator, special_ids):
    return hidden(ids, torch.rand(ids.shape, generator=generator, device=ids.device) < p, mask_id)


@cpu_generator.wrong
def bernoulli_of_a_tensor_on_the_device(ids, mask_id, vocab_size, p, generator, special_ids):
    probability = torch.full_like(ids, p, dtype=torch.float)
    return hidden(ids, torch.bernoulli(probability, generator=generator).bool(), mask_id)


@device_generator.wrong
def drawn_on_the_cpu_then_moved_too_late(ids, mask_id, vocab_size, p, generator, special_ids):
    return hidden(ids, (torch.rand(ids.shape, generator=generator) < p).to(ids.device), mask_id)


@device_generator.wrong
def permutation_without_a_device(ids, mask_id, vocab_size, p, generator, special_ids):
    chosen = torch.randperm(ids.numel(), generator=generator)[:2]
    inputs, targets = ids.clone().view(-1), torch.full_like(ids, -100).view(-1)
    targets[chosen], inputs[chosen] = inputs[chosen], mask_id
    return inputs.view_as(ids), targets.view_as(ids)
