"""A preflight as a document."""

from __future__ import annotations

from pathlib import Path

from tprimat import units
from tprimat.catalog import gpus
from tprimat.report.blocks import Document, Headline, Paragraph, Table, notes
from tprimat.results.preflight import PRODUCTS, PreflightFile, unit_of
from tprimat.results.run import GpuInfo
from tprimat.text import counted, join_names, plain

MOST_FINDINGS = 2
WIDTH = 80


def document(file: PreflightFile, path: Path) -> Document:
    """Return a preflight: a table, what was found, and where it is; then each device and size."""
    unknown = dict.fromkeys(
        f"{name}: {why}" for device in file.devices for name, why in device.unknown.items()
    )
    texts = [
        *(finding.text for finding in file.findings),
        *(f"not measured: {text}" for text in unknown),
    ]
    most = MOST_FINDINGS if len(texts) <= MOST_FINDINGS else MOST_FINDINGS - 1
    screen = [
        Headline(_verdict(file), _head(file)),
        _rates(file),
        *map(Paragraph, _others(file)),
        *notes(texts, marks="!", most=most),
    ]
    sizes = []
    for each in file.all_reduce:
        sizes.append(
            [_size(each.bytes), f"{each.seconds * 1e6:,.0f} µs", _figure(each.bus_gb_per_s)]
        )
    messages = [Table(["all-reduce", "time", "bus GB/s"], sizes)] if sizes else []
    return Document([*screen, Paragraph(f"Preflight: {path}", "path")], [_devices(file), *messages])


def _verdict(file: PreflightFile) -> str:
    if file.slow_devices:
        verb = "is" if len(file.slow_devices) == 1 else "are"
        return f"Not ready: {join_names(file.slow_devices)} {verb} slower than the others"
    if not file.is_ready:
        return "Not ready: an all-reduce returned a wrong sum"
    if file.findings:
        return f"Usable: {counted(len(file.findings), 'finding')} may slow a benchmark"
    return "Ready: nothing was found that slows a benchmark"


def _head(file: PreflightFile) -> str:
    names = list(dict.fromkeys(device.name or "unknown device" for device in file.devices))
    hosts = list(dict.fromkeys(device.host for device in file.devices))
    where = hosts[0] if len(hosts) == 1 else counted(len(hosts), "machine")
    what = f"{len(file.devices)} × {names[0]}" if file.platform != "cpu" else names[0]
    if file.platform == "cpu":
        what += f" ({counted(len(file.devices), 'process')})"
    kind = ", quick" if file.quick else ""
    return plain(f"{what} on {where}{kind}, {units.duration(file.seconds)}", WIDTH)


def _rates(file: PreflightFile) -> Table:
    several = len(file.devices) > 1
    heads = ["median", "mean", "best", "drift", *(["slowest"] if several else [])]
    if file.devices[0].name:
        gpu = gpus.match(GpuInfo(device_name=file.devices[0].name)).gpu
    else:
        gpu = None
    peaks = {
        name: gpu.peak_tflops(name) if gpu and name in PRODUCTS else None
        for name in file.operations
    }
    has_peak = any(peaks.values())
    rows = []
    for name in file.operations:
        if name in PRODUCTS:
            title = f"{name} matmul, {unit_of(name)}"
        else:
            title = f"{name}, {unit_of(name)}"
        values = [
            _figure(file.typical(name)),
            _figure(file.typical(name, lambda rate: rate.mean)),
            _figure(file.typical(name, lambda rate: rate.best)),
            _change(file.typical(name, lambda rate: rate.drop)),
        ]
        if several:
            _, slowest = min(
                (
                    (device.rates[name].median, device)
                    for device in file.devices
                    if name in device.rates
                ),
                key=lambda each: each[0],
            )
            named = file.label(slowest).split(" on ")[0]
            values.append(f"{_figure(slowest.rates[name].median)} {named}")
        peak = peaks[name]
        if has_peak:
            values.append(f"{(file.typical(name) or 0.0) / peak:.0%}" if peak else "")
        rows.append([title, *values])
    return Table(["", *heads, *(["of peak"] if has_peak else [])], rows)


def _others(file: PreflightFile) -> list[str]:
    shown = []
    best = file.best_all_reduce
    disk = file.disk
    if best is not None:
        count = f"{len(file.devices)} devices, {file.all_reduce_backend}"
        shown.append(
            f"all-reduce: {_figure(best.bus_gb_per_s)} GB/s bus bandwidth, {_size(best.bytes)}"
            f" ({count})"
        )
    if disk is not None and disk.write_gb_per_s is not None:
        if disk.read_gb_per_s is not None:
            read = f"read {_figure(disk.read_gb_per_s)} GB/s"
        else:
            read = "read not measured"
        shown.append(
            f"disk: write {_figure(disk.write_gb_per_s)} GB/s, {read} ({_size(disk.bytes)})"
        )
    return shown


def _devices(file: PreflightFile) -> Table:
    rows = []
    for device in file.devices:
        for name, rate in device.rates.items():
            values = [
                _figure(rate.median),
                _figure(rate.mean),
                _figure(rate.best),
                _change(rate.drop),
            ]
            rows.append([file.label(device), name, *values, rate.shape or ""])
    return Table(["device", "operation", "median", "mean", "best", "drift", "shape"], rows)


def _figure(value: float | None) -> str:
    if value is None:
        return units.UNKNOWN
    digits = 0 if value >= 1000 else 1 if value >= 100 else 2 if value >= 1 else 4
    return f"{value:,.{digits}f}"


def _change(drop: float | None) -> str:
    if drop is None:
        return units.UNKNOWN
    return f"{0.0 - drop:+.1%}"


def _size(size: int) -> str:
    for unit, factor in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if size >= factor:
            return f"{size / factor:g} {unit}"
    return f"{size} B"
