"""A stand-in for the NVIDIA driver's library, compiled by the tests: three GPUs, one of them divided (MIG)."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

SOURCE = r"""
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
/* Devices: 1, 2, 3 are GPUs, 2 is divided into 21 and 22. GPU 3 lets this user see little.
   STUB_CALLS: a folder in which each process counts its polls. STUB_LOST: a file; once it is there GPU 1 is lost.
   STUB_FAILS: a file; once it is there nothing works. STUB_HANGS: a file; while it is there no poll comes back. */
enum { UNSUPPORTED = 3, FORBIDDEN = 4, NOT_FOUND = 6, LOST = 15, UNKNOWN = 999 };
typedef struct { unsigned int gpu, memory; } utilization_t;
typedef struct { unsigned long long total, free, used; } memory_t;
static int id(void *device) { return (int)(unsigned long)device; }
static int there(const char *name) { const char *path = getenv(name); return path && !access(path, F_OK); }
static int gone(void *device) {
    while (there("STUB_HANGS")) usleep(10000);
    if (there("STUB_FAILS")) return UNKNOWN;
    return id(device) == 1 && there("STUB_LOST") ? LOST : 0;
}
static void count(void) {
    const char *folder = getenv("STUB_CALLS");
    char path[4096];
    int file;
    if (!folder) return;
    snprintf(path, sizeof path, "%s/%d", folder, (int)getpid());
    file = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (write(file, ".", 1) < 0) abort();
    close(file);
}
int nvmlInitWithFlags(unsigned flags) { return 0; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned *out) { *out = 3; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) {
    *device = (void *)(unsigned long)(index + 1); return 0;
}
int nvmlDeviceGetMigMode(void *device, unsigned *current, unsigned *pending) {
    if (id(device) == 3) return UNSUPPORTED;
    *current = *pending = id(device) == 2; return 0;
}
int nvmlDeviceGetMaxMigDeviceCount(void *device, unsigned *out) { *out = 7; return 0; }
int nvmlDeviceGetMigDeviceHandleByIndex(void *device, unsigned index, void **part) {
    if (index != 1 && index != 4) return NOT_FOUND;
    *part = (void *)(unsigned long)(index == 1 ? 21 : 22); return 0;
}
int nvmlDeviceGetUUID(void *device, char *out, unsigned size) {
    snprintf(out, size, "%s-uuid-%d", id(device) > 9 ? "MIG" : "GPU", id(device)); return 0;
}
int nvmlDeviceGetName(void *device, char *out, unsigned size) {
    snprintf(out, size, id(device) > 9 ? "Stub H100 MIG 3g.40gb" : "Stub H100"); return 0;
}
int nvmlDeviceGetUtilizationRates(void *device, utilization_t *out) {
    if (gone(device)) return gone(device);
    if (id(device) == 1) count();
    if (id(device) > 9) return UNSUPPORTED;
    out->gpu = id(device) == 2 ? 0 : 63; out->memory = 20; return 0;
}
int nvmlDeviceGetMemoryInfo(void *device, memory_t *out) {
    unsigned long long whole = (id(device) > 9 ? 40ull : 80ull) << 30;
    if (gone(device)) return gone(device);
    out->total = whole; out->used = whole / 4; out->free = whole / 4 * 3; return 0;
}
int nvmlDeviceGetPowerUsage(void *device, unsigned *out) {
    if (gone(device)) return gone(device);
    if (id(device) > 9) return UNSUPPORTED;
    if (id(device) == 3) return FORBIDDEN;
    *out = 412500; return 0;
}
int nvmlDeviceGetEnforcedPowerLimit(void *device, unsigned *out) {
    if (gone(device)) return gone(device);
    if (id(device) > 9) return 2; /* NVML_ERROR_INVALID_ARGUMENT */
    *out = 700000; return 0;
}
int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *out) {
    if (gone(device)) return gone(device);
    if (id(device) > 9) return UNSUPPORTED;
    *out = 71; return 0;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *out) {
    if (gone(device)) return gone(device);
    if (id(device) > 9) return UNSUPPORTED;
    *out = id(device) == 1 ? 0x44 : 0x1; return 0;
}
int nvmlDeviceGetTotalEccErrors(void *device, int kind, int counter, unsigned long long *out) {
    if (gone(device)) return gone(device);
    if (id(device) != 1) return id(device) == 3 ? FORBIDDEN : UNSUPPORTED;
    *out = kind == 1 && counter == 0 ? 2 : 12345; return 0;
}
const char *nvmlErrorString(int code) { return "stub error"; }
"""


def compile_stub(folder: Path) -> Path:
    """`folder`, with the library in it. Skips the test where there is no compiler."""
    (folder / "nvml.c").write_text(SOURCE)
    command = ["gcc", "-shared", "-fPIC", "-o", str(folder / "libnvidia-ml.so.1"), str(folder / "nvml.c")]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("needs gcc to make a stand-in for the NVIDIA driver's library")
    return folder


def polls(folder: Path) -> dict[int, int]:
    """Polls of the driver by process id, from the folder that `STUB_CALLS` names."""
    return {int(file.name): file.stat().st_size for file in folder.iterdir()}
