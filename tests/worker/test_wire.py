"""The wire is a security border: what leaves one side arrives at the other; a hostile frame raises WireError only."""

import json
import math
import random
import struct
from contextlib import suppress

import numpy as np
import pytest
import torch

from autograder.worker import wire


def through(value, **options):
    frame = wire.encode(value)
    n_header, n_body = wire.HEAD.unpack(frame[:8])
    assert len(frame) == 8 + n_header + n_body
    return wire.decode(frame[8 : 8 + n_header], bytearray(frame[8 + n_header :]), **options)


@pytest.mark.parametrize("dtype", list(wire.DTYPES.values()), ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 3), (2, 3, 4)], ids=str)
def test_tensors_of_every_dtype_and_shape_arrive_bit_for_bit(dtype, shape):
    tensor = (torch.randn(shape) * 3).to(dtype)
    arrived = through(tensor)
    assert arrived.dtype == dtype and arrived.shape == tensor.shape and torch.equal(arrived, tensor)


def test_plain_values_keep_their_types_so_that_a_test_can_tell_a_list_from_a_tuple():
    value = [None, True, 1, -(2**63), 2.5, "text ☃", (1, [2, (3,)]), {"a": 1, 2: (3,)}, 1 + 2j, torch.float64]
    assert through(value) == value
    assert type(through((1, 2))) is tuple and type(through([1, 2])) is list


def test_floats_that_json_does_not_know_arrive():
    assert through([math.inf, -math.inf]) == [math.inf, -math.inf]
    assert math.isnan(through(math.nan))


def test_numpy_values_arrive_as_what_they_are():
    assert through(np.float32(1.5)) == 1.5 and through(np.int64(7)) == 7
    array = through(np.arange(6.0).reshape(2, 3))
    assert isinstance(array, np.ndarray) and array.tolist() == [[0, 1, 2], [3, 4, 5]]


def test_a_generator_arrives_in_the_same_state_since_random_functions_take_one():
    generator = torch.Generator().manual_seed(5)
    assert torch.equal(torch.randn(4, generator=through(generator)), torch.randn(4, generator=generator))


def test_a_tensor_on_the_meta_device_arrives_without_data_however_large_it_is():
    arrived = through(torch.empty(10**6, 10**6, device="meta"))
    assert arrived.device.type == "meta" and arrived.shape == (10**6, 10**6)


@pytest.mark.parametrize(
    "view", [lambda t: t.mT, lambda t: t[:, ::2], lambda t: t[:1].expand(4, 6), lambda t: t[:, None].expand(4, 3, 6)]
)
def test_a_worker_gets_the_memory_layout_that_the_judge_sent_for_layouts_are_tested(view):
    tensor = view(torch.randn(4, 6))
    arrived = through(tensor, keep_strides=True)
    assert torch.equal(arrived, tensor) and not arrived.is_contiguous()
    assert through(tensor).is_contiguous()  # while the judge takes no layout from a worker


def nested(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


def endless():
    value = []
    value += [value, value]
    return value


@pytest.mark.parametrize(
    "value",
    [
        object(),
        {1, 2},
        2**65,
        nested(10**5),
        endless(),
        torch.zeros(1).expand(10**12),
        torch.eye(2).to_sparse(),
        np.array(["text"]),
    ],
    ids=["object", "set", "bigint", "deep", "endless", "expanded", "sparse", "strings"],
)
def test_a_value_that_cannot_be_sent_says_so_and_costs_no_memory(value):
    with pytest.raises(wire.WireError):
        wire.encode(value)


def test_a_lone_surrogate_is_replaced_since_no_file_could_hold_it():
    assert through("a\ud800b") == "a?b"


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"x" * 10,
        b"[" * 60_000,
        b"null",
        b"[1]",
        b'[{"t": 0}, []]',
        b'[{"t": -1}, [["float32", [1], null, "cpu"]]]',
        b'[{"t": 0}, [["float32", [2000000000, 2000000000], null, "cpu"]]]',
        b'[{"t": 0}, [["float32", [-4], null, "cpu"]]]',
        b'[{"t": 0}, [["float32", [1.5], null, "cpu"]]]',
        b'[{"t": 0}, [["object", [1], null, "cpu"]]]',
        b'[{"t": 0}, [["float32", [0, 2000000000, 2000000000, 2000000000], null, "cpu"]]]',
        b'[{"t": 0}, [["float32", [1,1,1,1,1,1,1,1,1,1,1,1,1,1], null, "meta"]]]',
        b'[{"z": ["a", 1]}, []]',
        b'[{"y": "no"}, []]',
        b'[{"g": 0}, [["float32", [1], null, "cpu"]]]',
        b'[{"d": [[[1], 2]]}, []]',
        b'[{"a": 1, "b": 2}, []]',
        b"[{}, []]",
        b'[{"h": 1}, []]',
        b'[{"c": 1}, []]',
        b"[" + b"9" * 5000 + b", []]",
        b"\xff\xfe",
    ],
)
def test_a_hostile_header_raises_wire_error_and_nothing_else(header):
    with pytest.raises(wire.WireError):
        wire.decode(header, bytearray(4))


def test_a_frame_that_claims_to_be_huge_is_refused_before_anything_is_allocated():
    asked = []

    def read(n):
        asked.append(n)
        return bytearray(struct.pack("<II", 10, 2**32 - 1))

    with pytest.raises(wire.WireError):
        wire.receive(read)
    assert asked == [8]


def test_a_bool_whose_byte_is_not_0_or_1_is_made_one_since_torch_would_misbehave():
    header = json.dumps([{"t": 0}, [["bool", [3], None, "cpu"]]]).encode()
    arrived = wire.decode(header, bytearray([0, 2, 255]))
    assert arrived.tolist() == [False, True, True] and arrived.view(torch.uint8).tolist() == [0, 1, 1]


def test_random_damage_to_a_frame_never_raises_anything_but_wire_error():
    frame = wire.encode(["answers", "n", [["ok", (torch.randn(2, 3), {"a": [1.5, None]})]]])
    n = wire.HEAD.unpack(frame[:8])[0]
    rng = random.Random()
    for _ in range(3000):
        header, body = bytearray(frame[8 : 8 + n]), bytearray(frame[8 + n :])
        for _ in range(rng.randint(1, 4)):
            part = header if rng.random() < 0.8 else body
            part[rng.randrange(len(part))] = rng.randrange(256)
        with suppress(wire.WireError):
            wire.decode(bytes(header), body)
