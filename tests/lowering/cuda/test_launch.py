"""What is passed to the driver, with a driver and tensors made up here; tests/gpu has real ones."""

from __future__ import annotations

import ctypes
import gc
import weakref
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest

from lowering.cuda import launch, launch_maps
from lowering.cuda.launch import LoadedKernel
from lowering.cuda.launch_block import LaunchAttribute
from lowering.cuda.tensormap import layout_of
from lowering.ground.errors import InternalError, UnsupportedError
from lowering.ground.types import Swizzle
from lowering.kernel.kernel import TraceBuffer
from lowering.kernel.text import parse_kernel
from tests.blackwell import Tile, final
from tests.lowering.cuda.fake_driver import LAUNCH, Driver, Result, Tensor
from tests.lowering.cuda.kernels import copy_kernel
from tests.lowering.cuda.test_prepared import prepare


def go(k: LoadedKernel, a: Tensor, d: Tensor, grid: int = 2, stream: int | None = None) -> None:
    params = {"M": a.shape[0], "N": a.shape[-1]}
    k.launch({"A": a, "D": d}, params, grid, stream)  # type: ignore[dict-item]


def test_launch_passes_maps_scalars_and_the_current_stream(driver: Driver) -> None:
    go(LoadedKernel(copy_kernel(), b"cubin"), Tensor(), Tensor(address=8192))
    assert driver.named("launch") == [(42, [2, 1, 1, 128, 1, 1], 8200, 1234)]
    assert driver.params == [(b"map1", b"map2", 100, 128)]
    assert driver.named("attribute") == [
        ("CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES", 8200, 42, 0)
    ]


def test_descriptor_has_the_innermost_dimension_first(driver: Driver) -> None:
    a = Tensor(shape=(100, 120), strides=(256, 1))
    go(LoadedKernel(copy_kernel(), b""), a, Tensor())
    assert driver.named("encode")[0] == (
        "CU_TENSOR_MAP_DATA_TYPE_BFLOAT16",
        2,
        4096,
        [120, 100],
        [512],
        [64, 64],
        [1, 1],
        "CU_TENSOR_MAP_INTERLEAVE_NONE",
        "CU_TENSOR_MAP_SWIZZLE_128B",
        "CU_TENSOR_MAP_L2_PROMOTION_L2_256B",
        "CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE",
    )


@pytest.mark.parametrize("swizzle", Swizzle)
def test_the_driver_has_a_mode_for_each_swizzle(driver: Driver, swizzle: Swizzle) -> None:
    """A span of one chunk permutes nothing; the driver has no mode of its own for it."""
    a, _ = copy_kernel().tensor_maps
    loaded = LoadedKernel(copy_kernel().redeclare(replace(a, swizzle=swizzle)), b"")
    go(loaded, Tensor(), Tensor())
    mode = f"{swizzle.value}B" if swizzle.value > 16 else "NONE"
    assert driver.named("encode")[0][8] == f"CU_TENSOR_MAP_SWIZZLE_{mode}"


@pytest.mark.parametrize(("rows", "box"), [(100, 64), (64, 64), (63, 63), (1, 1), (0, 1)])
def test_a_clipped_box_has_no_more_rows_than_the_tensor(
    driver: Driver, rows: int, box: int
) -> None:
    a, _ = copy_kernel().tensor_maps
    loaded = LoadedKernel(copy_kernel().redeclare(replace(a, clipped=True)), b"")
    go(loaded, Tensor(shape=(rows, 128)), Tensor(shape=(rows, 128)))
    assert [args[5] for args in driver.named("encode")] == [[64, box], [64, 64]]


def test_second_launch_prepares_nothing(driver: Driver) -> None:
    k = LoadedKernel(copy_kernel(), b"")
    for _ in range(3):
        go(k, Tensor(), Tensor(), stream=5)
    assert len(driver.named("encode")) == 2 and len(driver.named("attribute")) == 1
    assert len(driver.named("launch")) == 3


def test_each_layout_has_its_descriptor(driver: Driver) -> None:
    k = LoadedKernel(copy_kernel(), b"")
    first, second = Tensor(), Tensor(address=1 << 20)
    for a in (first, second, first):
        go(k, a, Tensor())
    assert [p[0] for p in driver.params] == [b"map1", b"map3", b"map1"]


def test_descriptors_are_bounded(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch_maps, "_REMEMBERED", 4)
    k = LoadedKernel(copy_kernel(), b"")
    for i in range(1, 10):
        go(k, Tensor(address=4096 * i), Tensor())
    assert len(k._packing.descriptors) == 4


def test_empty_grid_launches_nothing(driver: Driver) -> None:
    go(LoadedKernel(copy_kernel(), b""), Tensor(shape=(0, 8)), Tensor(), grid=0)
    assert not driver.named("launch")


def test_other_device_is_made_current_and_prepared(driver: Driver) -> None:
    k = LoadedKernel(copy_kernel(), b"")
    go(k, Tensor(index=1), Tensor(index=1))
    assert driver.named("device") == [(1,)] * 4  # two descriptors, to prepare it, and to launch
    assert driver.named("attribute")[0][3] == 1
    assert len(driver.named("launch")) == 1


def test_code_stays_loaded_for_launches_in_flight_and_in_graphs(driver: Driver) -> None:
    k = LoadedKernel(copy_kernel(), b"")
    go(k, Tensor(), Tensor())
    gone = weakref.ref(k)
    del k
    gc.collect()
    assert gone() is None
    assert not driver.named("unload")


def test_an_address_has_a_descriptor_for_each_device(driver: Driver) -> None:
    k = LoadedKernel(copy_kernel(), b"")
    for index in (0, 1, 0):
        go(k, Tensor(index=index), Tensor(index=index))
    assert [p[0] for p in driver.params] == [b"map1", b"map3", b"map1"]


@pytest.mark.slow
def test_a_dependent_kernel_may_start_early(driver: Driver) -> None:
    """Attribute 6 of cuda.h, programmatic stream serialization; only where the kernel waits."""
    alone = 1152  # threads, of which an SM has no more than one CTA
    for kernel in (copy_kernel(), replace(copy_kernel(), dependent=True, threads=alone)):
        prepared = prepare(LoadedKernel(kernel, b""))
        gc.collect()
        prepared(5)
    assert driver.attributes == [[], [(6, 1)]]


def test_a_grid_that_would_pile_up_on_few_multiprocessors_starts_late(driver: Driver) -> None:
    """Its CTAs would take the places of the first ones that a persistent grid leaves."""
    small = replace(copy_kernel(), dependent=True, threads=512)
    sms = small.target.sms
    made = LoadedKernel(small, b"")
    assert [made.starts_early(n) for n in (1, sms, 4 * sms - 1, 4 * sms)] == [False] * 3 + [True]
    assert LoadedKernel(replace(small, threads=1152), b"").starts_early(1)
    assert not LoadedKernel(replace(small, dependent=False), b"").starts_early(4 * sms)


def test_a_kernel_that_loads_early_follows_a_grid_that_is_known(driver: Driver) -> None:
    """Whoever else launches it may have written what it loads by the kernel in front."""
    plain = replace(copy_kernel(), dependent=True, threads=1152)
    early = plain.redeclare(*(replace(m, early=True) for m in plain.tensor_maps[:1]))
    assert LoadedKernel(plain, b"").starts_early(1)
    assert not LoadedKernel(early, b"").starts_early(1)
    assert LoadedKernel(early, b"", follows=True).starts_early(1)


def test_launch_attribute_as_cuda_bindings_has_it() -> None:
    bindings = pytest.importorskip("cuda.bindings.driver")
    wanted = bindings.CUlaunchAttribute()
    ids = bindings.CUlaunchAttributeID
    wanted.id = ids.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
    wanted.value.programmaticStreamSerializationAllowed = 1
    ours = LaunchAttribute.programmatic_stream_serialization()
    assert bytes(ours) == ctypes.string_at(wanted.getPtr(), ctypes.sizeof(ours))
    assert ctypes.sizeof(ours) == 72


def test_whole_clusters_are_resident(driver: Driver) -> None:
    alone = LoadedKernel(copy_kernel(), b"")
    k = LoadedKernel(replace(copy_kernel(), cluster=4), b"")
    assert [x.resident_ctas(0) for x in (alone, k, k)] == [10, 12, 12]
    assert driver.named("occupancy") == [(43, 8, 4)]


def test_clusters_are_counted_as_they_are_launched(driver: Driver) -> None:
    """Once the kernel has its shared memory on that device: whole clusters, and one attribute."""
    k = LoadedKernel(replace(copy_kernel(), cluster=4), b"")
    assert k.resident_ctas(1) == 12
    names = [name for name, _ in driver.calls]
    assert names.index("attribute") < names.index("occupancy")
    assert driver.named("attribute")[0][1:] == (k.kernel.shared_bytes, 42, 1)
    (config,) = driver.counted
    assert (config.gridDimX, config.gridDimY, config.gridDimZ) == (8, 1, 1)
    assert (config.blockDimX, config.blockDimY, config.blockDimZ) == (k.kernel.threads, 1, 1)
    assert config.sharedMemBytes == k.kernel.shared_bytes
    assert config.numAttrs == len(config.attrs) == 1
    assert config.attrs[0].id == "CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION"
    assert vars(config.attrs[0].value.clusterDim) == {"x": 4, "y": 1, "z": 1}


@pytest.mark.parametrize(("shape", "dims"), [((1, 8), [8, 1]), ((0, 8), [8, 1]), ((2, 8), [8, 2])])
def test_dimensions_of_a_descriptor(
    driver: Driver, shape: tuple[int, int], dims: list[int]
) -> None:
    """Innermost first; one without elements counts as one."""
    go(LoadedKernel(copy_kernel(), b""), Tensor(shape=shape), Tensor())
    kind, rank, _, found, strides, _, steps, *_ = driver.named("encode")[0]
    assert kind == "CU_TENSOR_MAP_DATA_TYPE_BFLOAT16"
    assert (rank, found, steps) == (2, dims, [1, 1])
    assert strides == [256 if shape[0] > 1 else 16]


def test_plain_tensors_are_passed_by_address_and_stride(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the tensor maps and the scalars."""
    k = parse_kernel(
        """
        kernel k threads 128 cluster 1 grid 1 {
          param M: i32
          tensormap A: bf16[M, M] box 64x64 swizzle 128
          global T: bf16[M, M]
          global U: bf16[1, M]
        }
        """
    )
    seen: list[list[int]] = []

    def read(config: Any, kernel: Any, params: Any, extra: Any) -> int:
        (_, *values) = (ctypes.c_void_p * 6).from_address(params)
        numbers = [ctypes.c_int64.from_address(p or 0).value for p in values[:4]]
        seen.append([*numbers, ctypes.c_int32.from_address(values[4] or 0).value])
        return 0

    monkeypatch.setattr(launch, "launch_function", lambda: LAUNCH(read))
    loaded = LoadedKernel(k, b"")
    t, u = Tensor(address=1 << 40, strides=(200, 1)), Tensor(shape=(1, 128), address=4098)
    tensors = {"A": Tensor(), "T": t, "U": u}
    loaded.launch(tensors, {"M": 100}, 1)  # type: ignore[arg-type]
    assert seen == [[1 << 40, 200, 4098, 0, 100]]
    tensors["U"] = replace(u, index=1)
    with pytest.raises(UnsupportedError, match="tensors of several devices"):
        loaded.launch(tensors, {"M": 100}, 1)  # type: ignore[arg-type]
    with pytest.raises(InternalError, match="launch: no argument U"):
        loaded.launch({"A": Tensor(), "T": t}, {"M": 100}, 1)  # type: ignore[dict-item]


# --- rejected ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tensor", "text"),
    [
        (
            Tensor(strides=(100, 1)),
            "A: 200 bytes from row to row is not supported; supported: multiples of 16 bytes",
        ),
        (
            Tensor(strides=(0, 1)),
            "A: 0 bytes from row to row is not supported; supported: multiples of 16 bytes",
        ),
        (
            Tensor(address=4100),
            "A: a base address of 0x1004 is not supported; supported: multiples of 16 bytes",
        ),
        (
            Tensor(strides=(1, 128)),
            "A: stride 128 between columns is not supported; supported: contiguous columns "
            "(stride 1)",
        ),
        (
            Tensor(shape=(1 << 31, 8), strides=(8, 1)),
            "A: 2147483648 x 8 elements is not supported; supported: at most 2147483647 along "
            "each dimension",
        ),
        (
            Tensor(dtype="torch.float32"),
            "A: 2-D torch.float32 on cuda is not supported; supported: a 2-D CUDA tensor of "
            "torch.bfloat16",
        ),
        (
            Tensor(shape=(8,), strides=(1,)),
            "A: 1-D torch.bfloat16 on cuda is not supported; supported: a 2-D CUDA tensor of "
            "torch.bfloat16",
        ),
        (
            Tensor(is_cuda=False),
            "A: 2-D torch.bfloat16 on cpu is not supported; supported: a 2-D CUDA tensor of "
            "torch.bfloat16",
        ),
        (
            Tensor(index=2),
            "a GPU of compute capability 8.0 is not supported; supported: compute capability 9.0 "
            "(H100, H200)",
        ),
    ],
)
def test_unsupported_tensor_is_rejected(driver: Driver, tensor: Tensor, text: str) -> None:
    with pytest.raises(UnsupportedError) as e:
        go(LoadedKernel(copy_kernel(), b""), tensor, Tensor(index=tensor.index))
    assert str(e.value) == text
    assert not driver.named("launch")


def test_a_kernel_for_blackwell_is_launched_there_only(driver: Driver) -> None:
    """No other GPU has its instructions, nor it those of others."""
    kernel = final(Tile())

    def launched(index: int) -> None:
        given = Tensor(shape=(128, 64), strides=(64, 1), index=index)
        tensors: Any = dict.fromkeys(("T0", "T1", "T5"), given)
        LoadedKernel(kernel, b"cubin").launch(tensors, {"M": 128, "N": 64, "K": 64}, 1)

    launched(3)
    threads = [1, 1, 1, kernel.threads, 1, 1]
    assert [call[1:3] for call in driver.named("launch")] == [(threads, kernel.shared_bytes)]
    assert len(driver.named("encode")) == 3
    with pytest.raises(UnsupportedError) as e:
        launched(0)
    assert str(e.value) == (
        "a GPU of compute capability 9.0 is not supported; supported: compute capability 10.0 "
        "(B200, GB200)"
    )
    with pytest.raises(UnsupportedError, match=r"capability 10\.0 is not supported; .* 9\.0 "):
        go(LoadedKernel(copy_kernel(), b""), Tensor(index=3), Tensor(index=3))


def test_tensors_of_several_devices_are_rejected(driver: Driver) -> None:
    with pytest.raises(UnsupportedError) as e:
        go(LoadedKernel(copy_kernel(), b""), Tensor(), Tensor(index=1))
    assert str(e.value) == (
        "tensors of several devices is not supported; supported: tensors of one device"
    )


@pytest.mark.parametrize("size", [8, 16])
def test_a_cluster_that_does_not_fit_the_device_is_rejected(driver: Driver, size: int) -> None:
    """None is active, or it has more CTAs than there are SMs: the grid would be empty."""
    driver.active_clusters = 0
    k = LoadedKernel(replace(copy_kernel(), cluster=size), b"")
    for _ in range(2):
        with pytest.raises(UnsupportedError) as e:
            k.resident_ctas(1)
        assert str(e.value) == (
            f"a cluster of {size} CTAs with 8200 bytes of shared memory each on cuda:1 (H0, 10 "
            "multiprocessors), which cannot hold one, is not supported; supported: clusters that "
            "the device can hold. Take smaller cluster_dims"
        )
    assert len(driver.named("occupancy")) == (2 if size <= 10 else 0)


def test_missing_arguments_are_rejected(driver: Driver) -> None:
    k = LoadedKernel(copy_kernel(), b"")
    with pytest.raises(InternalError, match="launch: no argument D"):
        k.launch({"A": Tensor()}, {}, 1)  # type: ignore[dict-item]
    with pytest.raises(InternalError, match="launch: no argument M"):
        k.launch({"A": Tensor(), "D": Tensor()}, {}, 1)  # type: ignore[dict-item]


def test_refusals_of_the_driver_are_named(driver: Driver) -> None:
    k = LoadedKernel(copy_kernel(), b"")
    driver.launch_status = [1]
    with pytest.raises(InternalError) as e:
        go(k, Tensor(), Tensor())
    assert e.value.why == "copy with grid 2 x 1 x 1: CUDA_ERROR_INVALID_VALUE"
    prepared = prepare(k)
    for refused in (0, 1, 1):
        driver.launch_status = [refused]
        with pytest.raises(InternalError) if refused else nullcontext() as again:
            prepared()
    assert again.value.why == e.value.why
    driver.encode_status = Result.CUDA_ERROR_INVALID_VALUE
    with pytest.raises(InternalError, match=r"tensor map A of Layout.*CUDA_ERROR_INVALID_VALUE"):
        go(k, Tensor(address=1 << 20), Tensor())


def test_too_much_shared_memory_is_rejected() -> None:
    k = copy_kernel()
    big = k.redeclare(replace(k.shared[0], stages=30))
    with pytest.raises(InternalError) as e:
        LoadedKernel(big, b"")
    assert e.value.why == "245760 bytes of shared memory of 232448"


def test_strides_of_single_rows_and_columns_mean_nothing() -> None:
    def stride(shape: tuple[int, int], strides: tuple[int, int]) -> int:
        tensor = Tensor(shape=shape, strides=strides)
        m = copy_kernel().tensor_maps[0]
        (found,) = layout_of(m, tensor).strides  # type: ignore[arg-type]
        return found

    assert stride((1, 10), (3, 1)) == 32
    assert stride((10, 1), (8, 77)) == 16
    assert stride((0, 0), (1, 1)) == 16


def test_a_trace_buffer_is_a_pointer_behind_the_maps(driver: Driver) -> None:
    kernel = copy_kernel().declare(TraceBuffer("spans", 8, ("cta",)))
    tensors = {"A": Tensor(), "D": Tensor(address=8192), "spans": Tensor(address=12288)}
    LoadedKernel(kernel, b"").launch(tensors, {"M": 100, "N": 128}, 2)  # type: ignore[arg-type]
    assert driver.params == [(b"map1", b"map2", 12288, 100)]
