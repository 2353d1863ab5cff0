import pytest

from tprimat.read.parsing.failures import LONGEST_REASON, FailureReasons

TRACEBACK = [
    "Traceback (most recent call last):",
    '  File "/opt/x.py", line 3, in main',
    "    raise ValueError(text)",
]
TORCHRUN = [
    "E1030 07:34:07.927000 107524 torch/elastic/api.py:880] failed (exitcode: 1) local_rank: 5",
    "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:",
    "[NODE-0(gpu-40)] [INFO] primus launcher exited with code 1",
]


def reason(*said: str) -> str | None:
    causes = FailureReasons()
    for number, line in enumerate(said, start=1):
        causes.feed(number, line)
    return causes.reason()


def test_the_first_exception_is_the_cause_and_torchruns_words_are_not():
    assert reason(*TRACEBACK, "ValueError: no data", *TORCHRUN) == "line 4: ValueError: no data"


def test_of_a_chain_the_last_link_counts():
    chain = [
        "requests.exceptions.HTTPError: 403 Client Error",
        "",
        "The above exception was the direct cause of the following exception:",
        "",
        *TRACEBACK,
        "OSError: no access.",
        "KeyError: 'of another process'",
    ]
    assert reason(*chain) == "line 8: OSError: no access."


@pytest.mark.parametrize(
    "grave",
    [
        "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 20.00 GiB.",
        "torch.AcceleratorError: CUDA error: out of memory",
        "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "RuntimeError: HIP error: hipErrorOutOfMemory",
        "Memory access fault by GPU node-4 (Agent handle: 0x55) on address 0x7f. Reason: Unknown.",
        (
            "slurmstepd: error: *** JOB 123 ON node1 CANCELLED AT 2026-05-11T02:00:00 DUE TO TIME"
            " LIMIT ***"
        ),
        (
            "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:3996,"
            " unhandled system error"
        ),
        "OSError: [Errno 28] No space left on device",
    ],
)
def test_memory_devices_and_limits_count_before_what_came_first(grave):
    assert reason("RuntimeError: something else", f"[rank3]: {grave}") == f"line 2: {grave}"


@pytest.mark.parametrize(
    "ending",
    [
        "HW Exception by GPU node-9 (Agent handle: 0x6a10) reason :GPU Hang",
        "Aborted (core dumped)",
        "Bus error",
        "Bus error (core dumped)",
        "Segmentation fault",
        "Illegal instruction (core dumped)",
        "Fatal Python error: Aborted",
        "Killed",
        "./train.sh: line 14: 40721 Killed                  torchrun --nproc-per-node 8 train.py",
        "./train.sh: line 14: 40721 Aborted                 (core dumped) torchrun train.py",
        "  what():  CUDA error: an illegal memory access was encountered",
        (
            "[rank2]:[E512 03:11:02.11 ProcessGroupNCCL.cpp:629] [Rank 2] Watchdog caught"
            " collective operation timeout: WorkNCCL(SeqNum=812, OpType=ALLREDUCE)"
        ),
        (
            "[rank2]:[E512 03:11:02.11 ProcessGroupNCCL.cpp:1484] [PG 0 Rank 2] Process group"
            " watchdog thread terminated"
        ),
        (
            "[rank2]:[F512 03:11:02.11 ProcessGroupNCCL.cpp:1557] [PG ID 0 Rank 2] Heartbeat"
            " monitor timed out! Process..."
        ),
        "[ 8121.1] NVRM: Xid (PCI:0000:1b:00): 79, pid=4711, GPU has fallen off the bus.",
        "CUDA error: uncorrectable ECC error encountered",
        "[ 8121.1] amdgpu 0000:c6:00.0: amdgpu: GPU reset begin!",
        "[ 8121.1] Out of memory: Killed process 4711 (python3) total-vm:1kB",
        (
            "slurmstepd: error: Detected 1 oom_kill event in StepId=71.0. Some of the step tasks"
            " have been OOM Killed."
        ),
        "srun: error: node7: task 3: Out Of Memory",
        "srun: error: node7: task 3: Killed",
        "srun: error: Node failure on node7",
        "mpirun noticed that process rank 3 with PID 0 on node n7 exited on signal 9 (Killed).",
        "  traceback : Signal 9 (SIGKILL) received by PID 4711",
        (
            "E1030 07:34:07.927000 107524 torch/elastic/api.py:880] failed (exitcode: -9)"
            " local_rank: 5 (pid: 4711)"
        ),
        "[rank: 3] Received SIGTERM: 15",
        "exiting program after receiving SIGTERM.",
    ],
)
def test_an_ending_that_names_no_exception(ending):
    assert reason("all is well", ending) is not None


@pytest.mark.parametrize(
    "plain",
    [
        "SLURM auto-requeueing enabled. Setting signal handlers.",
        (
            "| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr."
            " ECC |"
        ),
        "  inprocess_progress_watchdog_interval ............ 1.0",
        "  max_tokens_to_oom ............................... 12000",
        "  exit_signal_handler ............................. False",
        "        possible_oom: false",
        "Killed 3 stale processes before the start",
        "Terminated workers of the earlier run: 4",
        (
            "W1030 07:34:07.697000 107524 torch/api.py:906] Sending process 107591 closing signal"
            " SIGTERM"
        ),
        "NVIDIA driver 570.86, no Xid errors",
    ],
)
def test_words_that_only_resemble_an_ending(plain):
    assert reason(plain) is None


@pytest.mark.parametrize(
    "ending",
    [
        "  | ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)",
        "    | RuntimeError: boom",
        "BaseExceptionGroup: several (2 sub-exceptions)",
        "F0511 02:10:00.000000    1234 all_reduce.cc:456] Check failed: status.ok()",
        "*** SIGABRT received by PID 12 (TID 12) on cpu 3 from PID 12; stack trace: ***",
        "docker: Error response from daemon: OCI runtime create failed: unable to start",
        "OCI runtime exec failed: exec failed: unable to start container process",
        "HIP error: the operation cannot be performed in the present state",
        "CUDA error: an illegal memory access was encountered",
        "make: *** [train] Error 1",
        "make[2]: *** [Makefile:12: train] Error 137",
        "+ exit 1",
        "++ exit 137",
        '{"level":"error","msg":"training process exited","exit_code":1}',
        '{"exitCode": 137}',
        "Fatal Python error: Segmentation fault",
    ],
)
def test_e1_further_endings_that_are_failures(ending):
    causes = FailureReasons()
    for number, line in enumerate(("all is well", ending, ""), start=1):
        causes.feed(number, line)
    cause = causes.cause()
    assert (cause.kind, cause.line) == ("failed", 2)


@pytest.mark.parametrize(
    "plain",
    [
        "| ExceptionGroup support | yes |",
        "I0511 02:10:00.000000 1234 health.cc:4] Health Check failed over to node 7",
        "make: Nothing to be done for 'train'.",
        "make: *** [train] Error 0",
        "+ exit 0",
        "+ exit_code=1",
        '{"level":"info","msg":"done","exit_code":0}',
        '{"expected_exit_code": 1}',
        "  exit_codes ...................................... [1]",
        "OCI runtime: crun 1.14",
        "checks for CUDA error: on",
    ],
)
def test_e1_words_that_only_resemble_a_failure(plain):
    assert reason(plain) is None


def test_codes_of_srun_and_kubectl():
    assert (
        reason("srun: error: node7: tasks 0-7: Exited with exit code 9")
        == "line 1: the launcher exited with code 9"
    )
    assert (
        reason("command terminated with exit code 137")
        == "line 1: the launcher exited with code 137"
    )


def test_a_message_of_two_lines_is_joined():
    said = reason(
        "OSError: it is gated.", "Make sure to have access to it at https://huggingface.co/x.", ""
    )
    assert (
        said == "line 1: OSError: it is gated. Make sure to have access to it at"
        " https://huggingface.co/x."
    )


def test_a_signal_from_outside_is_the_cause():
    lines = [
        (
            "W0511 03:22:23.562000 41337 torch/distributed/elastic/agent/server/api.py:739]"
            " Received 15 death signal"
        ),
        "W0511 03:22:23.563000 41337 torch/x.py:1010] Sending process 41405 closing signal SIGTERM",
        '    raise SignalException(f"Process {os.getpid()} got signal: {sigval}", sigval=sigval)',
        (
            "torch.distributed.elastic.multiprocessing.api.SignalException: Process 41337 got"
            " signal: 15"
        ),
        "RuntimeError: a consequence",
    ]
    assert reason(*lines).endswith("SignalException: Process 41337 got signal: 15")


def test_without_a_cause_the_exit_code_is_all_that_is_known():
    assert reason(*TORCHRUN) == "line 3: the launcher exited with code 1"
    assert reason("all is well", "[NODE-0(h)] [INFO] torchrun exited with code 0") is None


def test_a_logged_error_is_better_than_nothing():
    assert (
        reason("[20260511 02:17:24][rank-0/8][ERROR] [---x.py:1] : bad config")
        == "line 1: bad config"
    )


def test_a_reason_is_not_endless():
    assert len(reason("ValueError: " + "x" * 10_000)) < LONGEST_REASON + 20


@pytest.mark.parametrize(
    "prefix", ["2026-06-01T10:00:33.1Z ", "7: ", "[rank3]: ", "primus-1  | ", "[pod/x-0/y] "]
)
def test_a_launchers_prefix_is_no_part_of_a_message(prefix):
    said = ("OSError: it is gated.", "Make sure to have access.", "")
    assert (
        reason(*(prefix + each for each in said))
        == "line 1: OSError: it is gated. Make sure to have access."
    )
    assert reason(prefix + said[0], prefix, prefix + "later") == "line 1: OSError: it is gated."


def test_a_loggers_prefix_is_another_speaker():
    other = "[20260511 02:17:24][rank-0/8][INFO] [---x.py:1] : saving"
    assert reason("OSError: it is gated.", other) == "line 1: OSError: it is gated."
    assert reason("7: OSError: it is gated.", f"7: {other}") == "line 1: OSError: it is gated."
