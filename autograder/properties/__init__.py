"""Properties that code on Transformers must have; each check returns Evidence, which is true where the property holds.

evidence      Evidence, require                           what a check returns, and how a test insists on it
calling       ask, batched                                many calls at once, where the function under test can
comparison    agrees, finite, rows_sum_to_one             one answer
dependence    dependency_matrix, future_perturbation,     which output moves when which input moves
              prefix_consistency, batch_independence, padding_invariance
symmetry      permutation_equivariance, permutation_invariance
algebra       linearity, gradient_check
parameters    parameter_count
care          keeps_inputs, keeps_dtype, any_layout, repeatable
statistics    mean_within, variance_within, frequency_within
"""

from autograder.properties.algebra import gradient_check, linearity
from autograder.properties.calling import ask, batched
from autograder.properties.care import any_layout, keeps_dtype, keeps_inputs, repeatable
from autograder.properties.comparison import agrees, finite, rows_sum_to_one
from autograder.properties.dependence import (
    batch_independence,
    dependency_matrix,
    future_perturbation,
    padding_invariance,
    prefix_consistency,
)
from autograder.properties.evidence import Evidence, PropertyFailed, require
from autograder.properties.parameters import parameter_count
from autograder.properties.statistics import frequency_within, mean_within, variance_within
from autograder.properties.symmetry import permutation_equivariance, permutation_invariance

__all__ = [
    "Evidence",
    "PropertyFailed",
    "agrees",
    "any_layout",
    "ask",
    "batch_independence",
    "batched",
    "dependency_matrix",
    "finite",
    "frequency_within",
    "future_perturbation",
    "gradient_check",
    "keeps_dtype",
    "keeps_inputs",
    "linearity",
    "mean_within",
    "padding_invariance",
    "parameter_count",
    "permutation_equivariance",
    "permutation_invariance",
    "prefix_consistency",
    "repeatable",
    "require",
    "rows_sum_to_one",
    "variance_within",
]
