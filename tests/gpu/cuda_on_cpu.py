"""The card's code without a card: its very CUDA C, compiled by g++, and as much of CuPy as onkel calls, on NumPy arrays.

Blocks run one after the other; a thread is a fiber and runs until it has to wait for others. Arguments are held to the kernel's
parameters, memory that nobody has set is NaN, and waiting for ever is an error. What this cannot show: races between threads,
how streams overlap, how nvcc compiles, how fast anything is.
"""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

SHIM = r"""
#include <algorithm>
#include <cmath>
#include <csetjmp>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <string>
#include <utility>
#include <vector>
#include <ucontext.h>
using std::isfinite; using std::isnan; using std::max; using std::min;
#define __global__
#define __device__
#define __forceinline__ inline
#define __shared__ static
#define __launch_bounds__(...)
#define __align__(n) alignas(n)

struct dim3 { unsigned x, y, z; };
struct uint4 { unsigned x, y, z, w; };
struct Barrier { int arrived = 0; std::vector<int> waiting; };
struct Fiber { jmp_buf here; ucontext_t first; dim3 index; int turn = 0; };
struct Warp { Barrier barrier; char held[2][32 * 8]; };
static dim3 blockIdx, blockDim, gridDim;
static Fiber fibers[1024];
static Warp warps_of_block[32];
static Barrier named[16];
static std::deque<int> ready;
static jmp_buf home;
static ucontext_t maker;
static std::function<void()> work;
static int made = 0, me = 0, finished = 0;
static bool making = false;
alignas(16) static char dynamic_shared[256 << 10];  // what was asked for, and untouched memory behind it
#define threadIdx (fibers[me].index)

static void next()
{
    if (ready.empty()) _longjmp(home, 1);
    me = ready.front();
    ready.pop_front();
    _longjmp(fibers[me].here, 1);
}
static void body()
{
    for (;;) {
        if (!_setjmp(fibers[me].here)) { if (making) setcontext(&maker); next(); }
        work();
        finished++;
    }
}
static void meet(Barrier& barrier, int many, bool stay = true)
{
    if (++barrier.arrived == many) {
        barrier.arrived = 0;
        ready.insert(ready.end(), barrier.waiting.begin(), barrier.waiting.end());
        barrier.waiting.clear();
    } else if (stay) {
        barrier.waiting.push_back(me);
        if (!_setjmp(fibers[me].here)) next();
    }
}
static void __syncthreads() { meet(named[0], blockDim.x); }
static void __syncwarp() { meet(warps_of_block[me >> 5].barrier, 32); }
static void bar_sync(int id, int many) { meet(named[id], many); }
static void bar_arrive(int id, int many) { meet(named[id], many, false); }

template <class T> static const T* all_of_warp(T v)      // two halves in turn: who is late still reads the one before
{
    T* held = (T*)warps_of_block[me >> 5].held[fibers[me].turn ^= 1];
    held[me & 31] = v;
    __syncwarp();
    return held;
}
template <class T> static T __shfl_sync(unsigned, T v, int from) { return all_of_warp(v)[from & 31]; }
template <class T> static T __shfl_xor_sync(unsigned, T v, int bits) { return all_of_warp(v)[(me & 31) ^ bits]; }
static unsigned __ballot_sync(unsigned, bool v)
{
    const bool* held = all_of_warp(v);
    unsigned bits = 0;
    for (int i = 0; i < 32; i++) bits |= (unsigned)held[i] << i;
    return bits;
}
static bool __any_sync(unsigned all, bool v) { return __ballot_sync(all, v) != 0; }
static bool __all_sync(unsigned all, bool v) { return __ballot_sync(all, v) == all; }

template <class T> static T __ldg(const T* p) { return *p; }
static int atomicAdd(int* p, int v) { *p += v; return *p - v; }
static int atomicMin(int* p, int v) { const int old = *p; *p = min(old, v); return old; }
static int __ffs(unsigned v) { return __builtin_ffs((int)v); }
template <class To, class From> static To bits_as(From v) { To to; memcpy(&to, &v, sizeof to); return to; }
static float __uint_as_float(unsigned v) { return bits_as<float>(v); }
static unsigned __float_as_uint(float v) { return bits_as<unsigned>(v); }
static double __longlong_as_double(long long v) { return bits_as<double>(v); }
static long long __double_as_longlong(double v) { return bits_as<long long>(v); }
static double __hiloint2double(int high, int low) { return bits_as<double>((long long)high << 32 | (unsigned)low); }
static int __double2loint(double v) { return (int)bits_as<long long>(v); }
static unsigned __float2uint_rn(float v) { return (unsigned)llrintf(fminf(fmaxf(v, 0.f), 4294967040.f)); }
static unsigned __vabsdiffu4(unsigned a, unsigned b)
{
    unsigned d = 0;
    for (int i = 0; i < 32; i += 8) d |= (unsigned)abs((int)(a >> i & 255) - (int)(b >> i & 255)) << i;
    return d;
}
static unsigned __dp4a(unsigned a, unsigned b, unsigned sum)
{
    for (int i = 0; i < 32; i += 8) sum += (a >> i & 255) * (b >> i & 255);
    return sum;
}

template <class A> static std::string kind()
{
    using V = std::remove_cv_t<std::remove_pointer_t<A>>;
    const char letter = std::is_floating_point<V>::value ? 'f' : std::is_signed<V>::value ? 'i' : 'u';
    return std::string(std::is_pointer<A>::value ? "*" : "") + letter + std::to_string(sizeof(V)) + ' ';
}
template <class... A> static const char* takes(void (*)(A...))
{
    static const std::string all = (kind<A>() + ...);
    return all.c_str();
}
template <class... A, size_t... I> static void prepare(void (*kernel)(A...), void** args, std::index_sequence<I...>)
{
    work = [=] { kernel(*(A*)args[I]...); };
}
template <class... A> static int launch(void (*kernel)(A...), const unsigned* size, int shared, void** args)
{
    prepare(kernel, args, std::index_sequence_for<A...>());
    gridDim = {size[0], size[1], size[2]};
    blockDim = {size[3], 1, 1};
    for (making = true; made < (int)blockDim.x; made++) {
        Fiber& f = fibers[me = made];
        f.index = {(unsigned)made, 0, 0};
        getcontext(&f.first);
        f.first.uc_stack.ss_sp = malloc(f.first.uc_stack.ss_size = 128 << 10);
        makecontext(&f.first, body, 0);
        swapcontext(&maker, &f.first);
    }
    making = false;
    for (blockIdx.z = 0; blockIdx.z < gridDim.z; blockIdx.z++)
        for (blockIdx.y = 0; blockIdx.y < gridDim.y; blockIdx.y++)
            for (blockIdx.x = 0; blockIdx.x < gridDim.x; blockIdx.x++) {
                memset(dynamic_shared, 255, shared + 1024);
                finished = 0;
                for (int i = blockDim.x; i--;) ready.push_back(i);   // the first last: what it sets up is waited for, or missed
                if (!_setjmp(home)) next();
                if (finished < (int)blockDim.x) {         // the rest wait for ever: leave them and make new ones
                    for (Warp& warp : warps_of_block) warp = {};
                    for (Barrier& barrier : named) barrier = {};
                    made = 0;
                    return blockDim.x - finished;
                }
                for (int i = 0; i < 1024; i++) if (dynamic_shared[shared + i] != (char)255) return -1;
            }
    return 0;
}
"""
ENTRY = """
extern "C" int launch_{0}(const unsigned* size, int shared, void** args) {{ return launch({0}, size, shared, args); }}
extern "C" const char* takes_{0}() {{ return takes({0}); }}
"""
PLAIN = (  # what only nvcc reads, said in C++
    (r'extern "C" __global__', "static"),
    (r"extern __shared__ (?:__align__\(16\) )?(\w+) (\w+)\[\];", r"\1* \2 = (\1*)dynamic_shared;"),
    (r'asm volatile\("bar\.(\w+) %0, %1;" :: "r"\((.*?)\), "r"\((.*?)\) : "memory"\);', r"bar_\1(\2, \3);"),
    (r'asm\("ex2\.approx\.ftz\.f32 %0, %1;" : "=f"\((\w+)\) : "f"\((\w+)\)\);', r"\1 = exp2f(\2);"),
)
KERNEL = r"__global__\s+(?:__launch_bounds__\([^)]*\)\s+)?void\s+(?:__launch_bounds__\([^)]*\)\s+)?(\w+)\("


class Array(np.ndarray):
    """Memory of the card."""

    data = property(lambda self: SimpleNamespace(ptr=self.ctypes.data))  # type: ignore[assignment]

    def get(self, out: np.ndarray | None = None) -> np.ndarray:
        if out is None:
            return np.array(self)
        assert out.flags.c_contiguous
        assert (out.shape, out.dtype) == (self.shape, self.dtype)
        out[...] = self
        return out


class Function:
    """A kernel; called as (grid, block, arguments)."""

    def __init__(self, library: ctypes.CDLL, name: str):
        self.name, self.run, kinds = name, getattr(library, f"launch_{name}"), getattr(library, f"takes_{name}")
        kinds.restype = ctypes.c_char_p
        self.kinds = kinds().decode().split()
        self.max_dynamic_shared_size_bytes = 48 << 10

    def __call__(self, grid: tuple[int, ...], block: tuple[int, ...], args: tuple[Any, ...], shared_mem: int = 0) -> None:
        grid = (*grid, 1, 1)[:3]
        assert 0 < min(grid) <= max(grid[1:]) < 1 << 16, f"{self.name} is launched over {grid}"
        assert 0 < block[0] <= 1024 and block[1:] == (), f"{self.name} is launched in blocks of {block}"  # noqa: PT018
        assert shared_mem <= self.max_dynamic_shared_size_bytes <= 227 << 10, f"{self.name} asks for {shared_mem} bytes"
        assert len(args) == len(self.kinds), f"{self.name} takes {len(self.kinds)} arguments, not {len(args)}"
        values = []
        for i, (given, kind) in enumerate(zip(args, self.kinds, strict=True)):
            mine = "*" * isinstance(given, Array) + given.dtype.str[1:].replace("b1", "u1")
            nothing = mine == "u8" and given == 0 and kind[0] == "*"
            assert mine == kind or nothing, f"argument {i} of {self.name} is {mine}, not {kind}"
            assert given.flags.c_contiguous, f"argument {i} of {self.name} has gaps"
            values.append(np.uint64(given.ctypes.data) if isinstance(given, Array) else given)
        cells = [np.array(value) for value in values]
        pointers = (ctypes.c_void_p * len(cells))(*(cell.ctypes.data for cell in cells))
        stuck = self.run((ctypes.c_uint * 4)(*grid, block[0]), shared_mem, pointers)
        assert stuck >= 0, f"{self.name} writes beyond its shared memory"
        assert not stuck, f"{stuck} threads of {self.name} wait for ever"


@cache
def compiled(code: str, options: tuple[str, ...]) -> ctypes.CDLL:
    names = re.findall(KERNEL, code)
    for old, new in PLAIN:
        code = re.sub(old, new, code)
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder, "kernels.cpp"), Path(folder, "kernels.so")
        source.write_text(SHIM + code + "".join(map(ENTRY.format, names)))
        named = [option for option in options if option.startswith("-D")]
        flags = ["-std=c++17", "-O1", "-w", "-U_FORTIFY_SOURCE", "-fno-strict-aliasing", "-ffp-contract=off", "-shared", "-fPIC"]
        subprocess.run(["g++", *flags, *named, "-o", library, source], check=True)
        return ctypes.CDLL(str(library))


class RawModule:
    def __init__(self, code: str, options: tuple[str, ...]):
        self.library = compiled(code, tuple(options))

    def get_function(self, name: str) -> Function:
        return Function(self.library, name)


class Queue:
    """A stream or an event: here everything is done when it is asked for."""

    ptr = 0

    def __init__(self, **_: Any):
        pass

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: Any) -> None:
        pass

    def done(self, *_: Any) -> None:
        pass

    wait_event = record = synchronize = done


class Device(Queue):
    attributes = {"MultiProcessorCount": 132, "MaxSharedMemoryPerBlockOptin": 227 << 10}  # noqa: RUF012


class Cupy(SimpleNamespace):
    """Looks like the module; what is missing is asked of NumPy."""

    def __init__(self) -> None:
        pinned: dict[int, bytearray] = {}

        def alloc(size: int) -> bytearray:
            memory = bytearray(size)
            pinned[np.frombuffer(memory, np.uint8).ctypes.data] = memory
            return memory

        def attributes(address: int) -> Any:
            return SimpleNamespace(type=int(any(first <= address < first + len(m) for first, m in pinned.items())))

        runtime = SimpleNamespace(
            getDeviceCount=lambda: 1,
            memGetInfo=lambda: (1 << 34, 1 << 34),
            pointerGetAttributes=attributes,
            memcpyAsync=lambda to, source, size, kind, stream: ctypes.memmove(int(to), int(source), int(size)),
        )
        cuda = SimpleNamespace(runtime=runtime, Stream=Queue, Event=Queue, Device=Device, alloc_pinned_memory=alloc)
        super().__init__(cuda=cuda, RawModule=RawModule, asnumpy=np.array)

    def empty(self, shape: Any, dtype: Any = float) -> Any:
        out = np.empty(shape, dtype)
        out.view(np.uint8)[...] = 255
        return out.view(Array)

    def asarray(self, given: Any) -> Any:
        return np.array(given, order="C").view(Array)

    def __getattr__(self, name: str) -> Any:
        of_numpy = getattr(np, name)
        if isinstance(of_numpy, type):
            return of_numpy
        return lambda *args, **more: np.asanyarray(of_numpy(*args, **more)).view(Array)


@cache
def real() -> bool:
    """Whether this machine has a card, and CuPy."""
    try:
        import cupy

        return bool(cupy.cuda.runtime.getDeviceCount())
    except Exception:
        return False


@contextmanager
def card() -> Iterator[None]:
    """A card for tests: the machine's own, else this one."""
    with pytest.MonkeyPatch.context() as patch:
        if not real():
            if sys.platform != "linux" or shutil.which("g++") is None:
                pytest.skip("no CUDA device with CuPy here, and no g++ on Linux to run its code on the CPU")
            patch.setitem(sys.modules, "cupy", Cupy())  # type: ignore[arg-type]
        yield
