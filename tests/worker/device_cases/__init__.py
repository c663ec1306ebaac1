"""Right and wrong ways to treat devices, as people write them, in solutions of the eight core exercises.

Every solution answers on the CPU. A right one also works on a GPU, and leaves its result there; a wrong one raises
there, or leaves a part of its result on the CPU. Nothing here knows whether the GPU is real or pretended.
"""

from tests.worker.device_cases import attention, beam, heads, masked_tokens, masks, multi_head, patches, positions
from tests.worker.device_cases.case import Case

EXERCISES = [
    attention.exercise,
    masks.causal,
    masks.padding,
    heads.split,
    heads.merge,
    multi_head.exercise,
    positions.exercise,
    positions.moved,
    positions.table,
    masked_tokens.without,
    masked_tokens.cpu_generator,
    masked_tokens.device_generator,
    beam.exercise,
    patches.patches,
    patches.embedding,
]
CASES: list[Case] = [case for exercise in EXERCISES for case in exercise.cases]
