"""beam_search(step, prompt, n_new, beam_width) -> [(tokens, score), ...], in Python's numbers.

step(prefixes) takes (B, N) tokens on the device and gives (B, V) log-probabilities there.
"""

import numpy as np
import torch
import torch.nn.functional as F

from tests.worker.device_cases.case import Exercise


def drive(beam_search, device):
    log_probs = torch.randn(7, 7, device=device).log_softmax(-1)
    prompt = torch.tensor([1, 2], device=device)
    result = beam_search(lambda prefixes: F.embedding(prefixes[:, -1], log_probs), prompt, 3, 2)
    assert all(isinstance(score, float) for _, score in result)
    return ()


exercise = Exercise("beam_search", drive)
right, wrong = exercise.right, exercise.wrong


def numbers(sequences, scores, prompt):
    return [(s[len(prompt) :].tolist(), float(score)) for s, score in zip(sequences, scores, strict=True)]


def best(beams, beam_width):
    return sorted(beams, key=lambda beam: beam[1], reverse=True)[:beam_width]


# -- right ------------------------------------------------------------------------------------------------------------
@right
def lists_made_a_tensor_on_the_device(step, prompt, n_new, beam_width):
    beams = [([], 0.0)]
    for _ in range(n_new):
        log_probs = step(torch.tensor([prompt.tolist() + tokens for tokens, _ in beams], device=prompt.device))
        grown = [([*t, k], s + log_probs[b, k].item()) for b, (t, s) in enumerate(beams) for k in range(7)]
        beams = best(grown, beam_width)
    return beams


@right
def lists_moved_to_the_prompt(step, prompt, n_new, beam_width):
    beams = [(list(map(int, prompt)), 0.0)]
    for _ in range(n_new):
        log_probs = step(torch.LongTensor([tokens for tokens, _ in beams]).to(prompt)).detach().cpu().numpy()
        order = np.argsort(-log_probs, -1)
        grown = [([*t, int(k)], s + float(log_probs[b, k])) for b, (t, s) in enumerate(beams) for k in order[b]]
        beams = best(grown, beam_width)
    return [(tokens[len(prompt) :], score) for tokens, score in beams]


@right
def all_tensors_on_the_device(step, prompt, n_new, beam_width):
    sequences, scores = prompt[None], torch.zeros(1, device=prompt.device)
    for _ in range(n_new):
        log_probs = step(sequences)
        scores, i = (scores[:, None] + log_probs).view(-1).topk(beam_width)
        sequences = torch.cat([sequences[i // log_probs.shape[-1]], (i % log_probs.shape[-1])[:, None]], 1)
    return numbers(sequences, scores, prompt)


@right
def scores_as_tensors_without_dimensions(step, prompt, n_new, beam_width):
    beams = [(prompt, 0.0)]
    for _ in range(n_new):
        grown = []
        for tokens, score in beams:
            values, indices = step(tokens.unsqueeze(0))[0].topk(beam_width)
            grown += [(torch.cat((tokens, k.view(1))), score + v) for v, k in zip(values, indices, strict=True)]
        beams = best(grown, beam_width)
    return [(tokens[len(prompt) :].cpu().numpy().tolist(), score.item()) for tokens, score in beams]


@right
def all_on_the_cpu_and_prefixes_moved_for_each_step(step, prompt, n_new, beam_width):
    sequences, scores = prompt.cpu()[None], torch.zeros(1)
    for _ in range(n_new):
        log_probs = step(sequences.to(prompt.device)).cpu()
        scores, i = (scores[:, None] + log_probs).flatten().topk(beam_width)
        beam = torch.div(i, log_probs.shape[1], rounding_mode="floor")
        sequences = torch.cat([sequences[beam], (i % log_probs.shape[1]).unsqueeze(1)], 1)
    return numbers(sequences, scores, prompt)


# -- wrong ------------------------------------------------------------------------------------------------------------
@wrong
def lists_made_a_tensor_on_the_cpu(step, prompt, n_new, beam_width):
    beams = [(prompt.tolist(), 0.0)]
    for _ in range(n_new):
        log_probs = step(torch.tensor([tokens for tokens, _ in beams]))
        grown = [([*t, k], s + log_probs[b, k].item()) for b, (t, s) in enumerate(beams) for k in range(7)]
        beams = best(grown, beam_width)
    return [(tokens[len(prompt) :], score) for tokens, score in beams]


@wrong
def first_scores_on_the_cpu(step, prompt, n_new, beam_width):
    sequences, scores = prompt[None], torch.zeros(1)
    for _ in range(n_new):
        log_probs = step(sequences)
        scores, i = (scores[:, None] + log_probs).view(-1).topk(beam_width)
        sequences = torch.cat([sequences[i // log_probs.shape[-1]], (i % log_probs.shape[-1])[:, None]], 1)
    return numbers(sequences, scores, prompt)


@wrong
def next_token_made_a_tensor_on_the_cpu(step, prompt, n_new, beam_width):
    tokens, score = prompt, 0.0
    for _ in range(n_new):
        value, k = step(tokens[None])[0].max(-1)
        tokens, score = torch.cat([tokens, torch.tensor([int(k)])]), score + float(value)
    return [(tokens[len(prompt) :].tolist(), score)]


@wrong
def sum_in_a_tensor_without_dimensions_on_the_cpu(step, prompt, n_new, beam_width):
    """A tensor without dimensions may come from the CPU, but nothing on the GPU can be added into it."""
    tokens, score = prompt[None], torch.tensor(0.0)
    for _ in range(n_new):
        value, k = step(tokens)[0].max(-1)
        score += value
        tokens = torch.cat([tokens, k.view(1, 1)], 1)
    return [(tokens[0, len(prompt) :].tolist(), score.item())]


@wrong
def log_probabilities_to_numpy(step, prompt, n_new, beam_width):
    tokens, score = prompt[None], 0.0
    for _ in range(n_new):
        log_probs = step(tokens)[0].detach().numpy()
        score += float(log_probs.max())
        tokens = torch.cat([tokens, torch.full((1, 1), int(log_probs.argmax()), device=prompt.device)], 1)
    return [(tokens[0, len(prompt) :].tolist(), score)]


@wrong
def sequences_on_the_cpu_gathered_with_indices_on_the_device(step, prompt, n_new, beam_width):
    sequences, scores = prompt.cpu()[None], torch.zeros(1, device=prompt.device)
    for _ in range(n_new):
        log_probs = step(sequences.to(prompt.device))
        scores, i = (scores[:, None] + log_probs).flatten().topk(beam_width)
        sequences = torch.cat([sequences[i // log_probs.shape[1]], (i % log_probs.shape[1])[:, None].cpu()], 1)
    return numbers(sequences, scores, prompt)


@wrong
def tensor_of_a_list_of_scalars_on_the_device(step, prompt, n_new, beam_width):
    sequences, scores = prompt[None], prompt.new_zeros(1, dtype=torch.float)
    for _ in range(n_new):
        log_probs = step(sequences)
        scores, i = (scores[:, None] + log_probs).flatten().topk(beam_width)
        tokens = torch.tensor([k % log_probs.shape[1] for k in i])
        sequences = torch.cat([sequences[i // log_probs.shape[1]], tokens[:, None]], 1)
    return numbers(sequences, scores, prompt)
