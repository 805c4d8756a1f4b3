"""A real Slurm cluster on this machine: munge, accounting with its database, slurmctld, and two nodes.

Each node has a slurmd of its own and pretended GPUs. Slurm's commands read /etc/slurm, whatever the environment says inside a
job. So the cluster lives in a mount namespace of its own, where this folder, munge's and the database's are others. A cluster
that the machine itself belongs to is neither seen nor changed.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

NODES = ("node1", "node2")
ACCOUNT = "lab"
"""The account that may submit jobs."""
PROGRAMS = ("slurmctld", "slurmdbd", "slurmd", "mariadbd", "munged", "sbatch", "srun", "squeue", "unshare", "nsenter")
_PRIVATE = ("/etc/slurm", "/run/munge", "/run/mysqld")
"""Folders that are the cluster's own within its namespace."""

_SETTINGS = """\
ClusterName=stair
SlurmctldHost={host}
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
StateSaveLocation={folder}/state
SlurmctldLogFile={folder}/slurmctld.log
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdSpoolDir={folder}/spool-%n
SlurmdLogFile={folder}/slurmd-%n.log
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmdParameters=config_overrides
SlurmdTimeout=20
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1
JobAcctGatherParams=OverMemoryKill
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost={host}
AccountingStoragePort={accounting}
AccountingStorageEnforce=associations,limits
SchedulerType=sched/backfill
SchedulerParameters=sched_min_interval=100000,bf_interval=2,batch_sched_delay=0
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
KillWait=5
MinJobAge=300
OverTimeLimit=0
ReturnToService=2
MpiDefault=none
GresTypes=gpu
"""

_KEEPER = """\
{ read -r end_of_input
own=$(readlink /proc/$$/ns/mnt)
for round in 1 2; do
    for process in /proc/[0-9]*; do
        if [ "$process" != "/proc/$$" ] && [ "$(readlink "$process/ns/mnt")" = "$own" ]; then kill -9 "${process#/proc/}"; fi
    done
done; }
"""
"""Holds the namespace. Its input ends with the process that has started the cluster, and then all others of the namespace
are killed. A death signal (prctl) would not do: munged changes its user, which clears the signal, and jobs outlive slurmd."""

_ACCOUNTING = """\
DbdHost={host}
DbdPort={accounting}
SlurmUser=root
AuthType=auth/munge
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
LogFile={folder}/slurmdbd.log
PidFile={folder}/slurmdbd.pid
"""


def why_not() -> str | None:
    """Why no cluster can be started here, in one line; None if one can."""
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing:
        return f"{', '.join(missing)} not found; run envs/debian.sh slurm"
    if os.getuid() != 0:
        return "Slurm's daemons need root"
    done = subprocess.run(["unshare", "--mount", "true"], capture_output=True, text=True, check=False)
    if done.returncode:
        return f"no mount namespace can be made here ({done.stderr.strip()})"
    return None


def _free_ports(count: int) -> list[int]:
    """Ports that no other cluster of this machine uses: the network is no namespace of its own."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for free in sockets:
            free.bind(("127.0.0.1", 0))
        return [free.getsockname()[1] for free in sockets]


@dataclass
class Cluster:
    """The daemons, and where they keep their files."""

    folder: Path
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    _namespace: str = ""
    """The namespace's name, once it is known to be another one than the machine's."""

    def start(self) -> None:
        """Starts everything and waits until both nodes are idle."""
        host = socket.gethostname()
        for own in (self.folder / "state", *map(self._spool, NODES)):
            own.mkdir(parents=True, exist_ok=True)
        nodes, devices = "", ""
        controller, accounting, *ports = _free_ports(2 + len(NODES))
        for number, node in enumerate(NODES):
            for gpu in range(2):
                subprocess.run(["mknod", self.folder / f"nvidia{2 * number + gpu}", "c", "1", "3"], check=True)
            nodes += (
                f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[number]} CPUs=4 RealMemory=12000 "
                "Gres=gpu:h100:2\n"
            )
            files = f"{self.folder}/nvidia[{2 * number}-{2 * number + 1}]"
            devices += f"NodeName={node} Name=gpu Type=h100 File={files}\n"
        partitions = "".join(
            f"PartitionName={name} Nodes={where} Default={default} MaxTime={minutes} State=UP\n"
            for name, where, default, minutes in (("main", ",".join(NODES), "YES", 60), ("short", NODES[0], "NO", 2))
        )
        own_folders = etc, munge, _ = [self.folder / name for name in ("etc", "munge", "mysqld")]
        for private, own in zip(_PRIVATE, own_folders, strict=True):
            own.mkdir()
            Path(private).mkdir(parents=True, exist_ok=True)  # the place of the mount
        values = {"host": host, "folder": self.folder, "port": controller, "accounting": accounting}
        (etc / "slurm.conf").write_text(_SETTINGS.format(**values) + nodes + partitions)
        (etc / "slurmdbd.conf").write_text(_ACCOUNTING.format(**values))
        (etc / "slurmdbd.conf").chmod(0o600)
        (etc / "gres.conf").write_text(devices)
        shutil.chown(munge, "munge", "munge")
        munge.chmod(0o755)
        binds = " && ".join(
            f"mount --bind '{own}' {private}" for private, own in zip(_PRIVATE, own_folders, strict=True)
        )
        self.open_namespace(binds)
        self._wait("the namespace has its folders", lambda: self.ask("cat", "/etc/slurm/gres.conf") == devices.strip())
        options = (f"--{name}-file=/run/munge/{name}" for name in ("pid", "log", "seed"))
        self._daemon("munged", "runuser", "-u", "munge", "--", "munged", "-F", "--force", *options)
        self._wait("munge answers", lambda: bool(self.ask("munge", "-n")))
        database = ("--no-defaults", "--user=root", f"--datadir={self.folder / 'database'}")
        self.ask("mariadb-install-db", *database, "--auth-root-authentication-method=normal")
        self._daemon("mariadbd", "mariadbd", *database, "--socket=/run/mysqld/mysqld.sock", "--skip-networking")
        self._wait("the database answers", (self.folder / "mysqld" / "mysqld.sock").exists)
        self.start_accounting()
        self.ask("sacctmgr", "-i", "add", "cluster", "stair")
        self.ask("sacctmgr", "-i", "add", "account", ACCOUNT)
        self.ask("sacctmgr", "-i", "add", "user", "root", f"account={ACCOUNT}")
        self._daemon("slurmctld", "slurmctld", "-D", "-c")
        for node in NODES:
            self.start_node(node)
        self._wait(
            "both nodes are idle", lambda: self.ask("sinfo", "-h", "-N", "-p", "main", "-o", "%t") == "idle\nidle"
        )

    def open_namespace(self, binds: str) -> None:
        """Makes the cluster's mount namespace. All in it die with this process, however it dies."""
        words = ("unshare", "--mount", "--propagation", "private", "sh", "-c", f"{binds} && {_KEEPER}")
        self._launch("namespace", *words, stdin=subprocess.PIPE)
        link, machine = f"/proc/{self.processes['namespace'].pid}/ns/mnt", os.readlink("/proc/self/ns/mnt")
        self._wait("the namespace is another than the machine's", lambda: os.readlink(link) != machine)
        self._namespace = os.readlink(link)

    def start_accounting(self) -> None:
        """Starts the accounting's daemon."""
        self._daemon("slurmdbd", "slurmdbd", "-D")
        self._wait("accounting answers", lambda: bool(self.ask("sacctmgr", "-n", "show", "qos")))

    def start_node(self, node: str) -> None:
        """Starts a node's daemon in the node's folder, in which Slurm's process of each job step works too."""
        self._daemon(node, "slurmd", "-D", "-N", node, folder=self._spool(node))

    def stop_node(self, node: str) -> None:
        """Takes a node down as a power cut does: its daemon and all that its jobs run end at one moment.

        Slurm's process on the node reports a killed script as a failed job, so all are halted before the first is killed.
        """
        dying = set()
        for process in self.members():
            with suppress(OSError):
                works_in, words = os.readlink(process / "cwd"), (process / "environ").read_bytes().split(b"\0")
                if works_in == str(self._spool(node)) or f"SLURMD_NODENAME={node}".encode() in words:
                    dying.add(int(process.name))
        for end in (signal.SIGSTOP, signal.SIGKILL):
            for number in dying:
                with suppress(ProcessLookupError):
                    os.kill(number, end)
        self.processes.pop(node).wait()

    def members(self) -> list[Path]:
        """The processes of the cluster's namespace, and no others: their folders in /proc."""
        found: list[Path] = []
        if not self._namespace:  # it has not come into being: processes would be the machine's
            return found
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if os.readlink(process / "ns" / "mnt") == self._namespace:
                    found.append(process)
        return found

    def stop(self) -> None:
        """Stops everything: every process of the namespace."""
        if "namespace" not in self.processes:
            return
        deadline = time.monotonic() + 5
        for process in self.members():
            if int(process.name) != self.processes["namespace"].pid:
                with suppress(ProcessLookupError):
                    os.kill(int(process.name), signal.SIGTERM)
        while len(self.members()) > 1 and time.monotonic() < deadline:
            time.sleep(0.1)
            for child in self.processes.values():
                child.poll()
        for process in self.members():
            with suppress(ProcessLookupError):
                os.kill(int(process.name), signal.SIGKILL)
        for child in self.processes.values():
            child.wait(10)

    def inside(self, *words: str, folder: Path | None = None) -> list[str]:
        """A command of the cluster's namespace in a folder, by default the current one."""
        enter = ["nsenter", f"--mount=/proc/{self.processes['namespace'].pid}/ns/mnt", "--", "sh", "-c"]
        return [*enter, 'cd "$1" && shift && exec "$@"', "sh", str(folder or Path.cwd()), *words]

    def ask(self, *words: str, check: bool = True) -> str:
        """The output of one of Slurm's commands."""
        done = subprocess.run(self.inside(*words), capture_output=True, text=True, timeout=30, check=False)
        assert done.returncode == 0 or not check, f"{' '.join(words)}: {done.stderr}"
        return done.stdout.strip()

    def _spool(self, node: str) -> Path:
        return self.folder / f"spool-{node}"

    def _daemon(self, name: str, *words: str, folder: Path | None = None) -> None:
        self._launch(name, *self.inside(*words, folder=folder))

    def _launch(self, name: str, *words: str, stdin: int = subprocess.DEVNULL) -> None:
        with open(self.folder / f"{name}.out", "ab") as output:
            self.processes[name] = subprocess.Popen(words, stdout=output, stderr=output, stdin=stdin)

    def _wait(self, what: str, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 40
        while True:
            with suppress(AssertionError):
                if holds():
                    return
            if time.monotonic() > deadline:
                logs = "\n".join(f"{p}: {p.read_text(errors='replace')[-600:]}" for p in self.folder.glob("*.[lo]*"))
                raise AssertionError(f"in 40 s it did not happen that {what}\n{logs}")
            time.sleep(0.2)
