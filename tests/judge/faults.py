"""Wrong solutions of the lab's exercises: each replaces a definition, and names the tests that it must fail."""

SCALE = "def scale(x, factors=None):\n    if factors is None: return x.clone()\n"
CHECK = "    if len(factors) != len(x): raise ValueError('one factor for each row')\n"
GATE = """class Gate(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.left, self.right = nn.Linear(d, d, bias=False), nn.Linear(d, d, bias=False)
    def forward(self, x):
"""

FAULTS = {
    "columns instead of rows": (
        SCALE + CHECK + "    return x * factors[: x.shape[1]]\n",
        {"values", "scale_empty_batch"},
    ),
    "no error": (SCALE + "    return x * factors[:1, None]\n", {"values", "error"}),
    "in place": (SCALE + CHECK + "    return x.mul_(factors[:, None])\n", {"scale_keeps_inputs", "scale_gradients"}),
    "float32 inside": (
        SCALE + CHECK + "    return x.float() * factors[:, None].float()\n",
        {"scale_keeps_dtype", "scale_gradients"},
    ),
    "view of the input": (
        SCALE + CHECK + "    return (x.view(-1).view(x.shape)) * factors[:, None]\n",
        {"scale_any_layout"},
    ),
    "global random state": (
        SCALE + CHECK + "    return x * factors[:, None] + 1e-9 * torch.rand(1).double()\n",
        {"values", "keywords", "scale_device"}
        | {f"scale_{duty}" for duty in ("repeatable", "keeps_dtype", "any_layout", "gradients")},
    ),
    "detached": (SCALE + CHECK + "    return x.detach() * factors[:, None]\n", {"scale_gradients"}),
    "empty batch": (
        SCALE + CHECK + "    assert len(x), 'empty'\n    return x * factors[:, None]\n",
        {"scale_empty_batch"},
    ),
    "moved": (
        SCALE.replace("x.clone()", "x + 1") + CHECK + "    return x * factors[:, None]\n",
        {"picture", "keywords"},
    ),
    "overflow": (
        GATE + "        return self.left(x) * self.right(x).exp() / (1 + self.right(x).exp())\n",
        {"Gate_finite"},
    ),
}
