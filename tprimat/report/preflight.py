"""A preflight as a document."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tprimat import units
from tprimat.catalog import gpus
from tprimat.report.blocks import Distinct, Document, Headline, Paragraph, Table, notes
from tprimat.results.preflight import PRODUCTS, PreflightFile, unit_of
from tprimat.results.run import GpuInfo
from tprimat.text import counted, join_names, plain

MOST_FINDINGS = 2
WIDTH = 80


def document(file: PreflightFile, path: Path) -> Document:
    """Return a preflight: a table, the findings, and the path of its file; then each device and
    size.
    """
    unknown: Distinct = {}
    for device in file.devices:
        for name, why in device.unknown.items():
            unknown[f"not measured: {name}: {why}"] = None
    texts = [*(finding.text for finding in file.findings), *unknown]
    most = MOST_FINDINGS if len(texts) <= MOST_FINDINGS else MOST_FINDINGS - 1
    screen = [
        Headline(_verdict(file), _head(file)),
        _rates(file),
        *map(Paragraph, _others(file)),
        *notes(texts, marks="!", most=most),
        Paragraph(f"Preflight: {path}", "path"),
    ]
    details = [_devices(file)]
    sizes = []
    for result in file.all_reduce:
        time = f"{result.seconds * 1e6:,.0f} µs"
        sizes.append([_size(result.bytes), time, _figure(result.bus_gb_per_s)])
    if sizes:
        details.append(Table(["all-reduce", "time", "bus GB/s"], sizes))
    return Document(screen, details)


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
    count = len(file.devices)
    name = file.devices[0].name or "unknown device"
    what = f"{count} × {name}"
    if file.platform == "cpu":
        what = f"{name} ({counted(count, 'process')})"
    where = file.devices[0].host
    hosts = {device.host for device in file.devices}
    if len(hosts) > 1:
        where = counted(len(hosts), "machine")
    if file.quick:
        where += ", quick"
    return plain(f"{what} on {where}, {units.duration(file.seconds)}", WIDTH)


def _rates(file: PreflightFile) -> Table:
    header = ["", "median", "mean", "best", "drift"]
    if len(file.devices) > 1:
        header.append("slowest")
    peaks = _peaks(file)
    if peaks:
        header.append("of peak")
    rows = []
    for name in file.operations:
        kind = " matmul" if name in PRODUCTS else ""
        median = file.typical(name)
        row = [
            f"{name}{kind}, {unit_of(name)}",
            _figure(median),
            _figure(file.typical(name, lambda rate: rate.mean)),
            _figure(file.typical(name, lambda rate: rate.best)),
            _change(file.typical(name, lambda rate: rate.drop)),
        ]
        if len(file.devices) > 1:
            row.append(_slowest(file, name))
        if name in peaks:
            row.append(f"{(median or 0.0) / peaks[name]:.0%}")
        elif peaks:
            row.append("")
        rows.append(row)
    return Table(header, rows)


def _peaks(file: PreflightFile) -> dict[str, float]:
    """Return the GPU's known peaks of matrix products by precision, TFLOP/s."""
    peaks: dict[str, float] = {}
    if not file.devices[0].name:
        return peaks
    gpu = gpus.match(GpuInfo(device_name=file.devices[0].name)).gpu
    for name in file.operations:
        peak = gpu.peak_tflops(name) if gpu and name in PRODUCTS else None
        if peak:
            peaks[name] = peak
    return peaks


def _slowest(file: PreflightFile, name: str) -> str:
    """Return the lowest rate of an operation, with the device."""
    devices = [device for device in file.devices if name in device.rates]
    slowest = min(devices, key=lambda device: device.rates[name].median)
    return f"{_figure(slowest.rates[name].median)} {file.label(slowest).split(' on ')[0]}"


def _others(file: PreflightFile) -> Iterator[str]:
    best = file.best_all_reduce
    if best is not None:
        count = f"{len(file.devices)} devices, {file.all_reduce_backend}"
        yield (
            f"all-reduce: {_figure(best.bus_gb_per_s)} GB/s bus bandwidth, {_size(best.bytes)}"
            f" ({count})"
        )
    disk = file.disk
    if disk is not None and disk.write_gb_per_s is not None:
        read = "read not measured"
        if disk.read_gb_per_s is not None:
            read = f"read {_figure(disk.read_gb_per_s)} GB/s"
        yield f"disk: write {_figure(disk.write_gb_per_s)} GB/s, {read} ({_size(disk.bytes)})"


def _devices(file: PreflightFile) -> Table:
    rows = []
    for device in file.devices:
        for name, rate in device.rates.items():
            texts = [*map(_figure, (rate.median, rate.mean, rate.best)), _change(rate.drop)]
            rows.append([file.label(device), name, *texts, rate.shape or ""])
    return Table(["device", "operation", "median", "mean", "best", "drift", "shape"], rows)


def _figure(value: float | None) -> str:
    if value is None:
        return units.UNKNOWN
    if value >= 1000:
        return f"{value:,.0f}"
    if value >= 100:
        return f"{value:.1f}"
    if value >= 1:
        return f"{value:.2f}"
    return f"{value:.4f}"


def _change(drop: float | None) -> str:
    if drop is None:
        return units.UNKNOWN
    return f"{0.0 - drop:+.1%}"


def _size(size: int) -> str:
    for unit, factor in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if size >= factor:
            return f"{size / factor:g} {unit}"
    return f"{size} B"
