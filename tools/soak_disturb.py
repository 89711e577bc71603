"""What goes wrong during the soak, one thing at a time, so that every request has a kernel that is well."""

import asyncio
import contextlib
import json
import random
import resource
import signal
import time

import gateway_processes

# Of scripted_upstream.py; done to the kernel that serves, or to another.
MODES = [
    {"mode": "refuse"}, {"mode": "half-head"}, {"mode": "garbage"}, {"mode": "garbage-body", "rate": 0.3}, {"mode": "hang"},
    {"mode": "status", "code": 500}, {"mode": "status", "code": 503, "rate": 0.5}, {"mode": "status", "code": 429, "rate": 0.5},
    {"mode": "cut", "after": 0}, {"mode": "cut", "after": 4}, {"mode": "cut", "after": 1, "rate": 0.3}, {"mode": "stall", "after": 3},
    {"mode": "stall", "after": 0, "rate": 0.5}, {"die": 30}, {"die": 3},
]  # fmt: skip
# After these a stream may break off that had begun, or an answer be no JSON.
BREAKS = {"cut", "stall", "kill", "die"}


class Disturber:
    def __init__(self, pool, folder, gateway, kernels, audit, seed, each_s, calm_s):
        self.pool, self.folder, self.gateway, self.kernels, self.audit = pool, folder, gateway, kernels, audit
        self.drawn, self.each_s, self.calm_s = random.Random(seed), each_s, calm_s
        self.done = []  # (what, from, to), wall clock
        self.killed = set()  # kernels whose counts a kill may have left one short
        self.reloads = 0

    def all(self):
        story = [("mode", how) for how in MODES] + [("kill", None)] * 2 + [("reload", None)] * 2
        return story + [("bad-reload", None), ("full-disk", None), ("shift", None), ("kill-audit", None), ("hang-audit", None),
                        ("kill-spare", None)]  # fmt: skip

    async def run(self, until):
        """Every disturbance once in a drawn order, then again in another, as long as there is time."""
        while time.monotonic() < until:
            story = self.all()
            self.drawn.shuffle(story)
            for name, how in story:
                if time.monotonic() > until - self.each_s - self.calm_s - 3:
                    return
                began = time.time()
                await getattr(self, name.replace("-", "_"))(how)
                await asyncio.sleep(self.calm_s)
                self.done.append((name if how is None else json.dumps(how), began, time.time()))

    async def serving(self):
        status = await asyncio.to_thread(lambda: self.gateway.status)
        return status["route"]["serves"]

    async def revive(self, name):
        """A kernel that is dead comes back at its port; its counts go on."""
        self.killed.add(name)
        old = self.kernels.get(name, self.audit)
        if not old.ended:
            old.kill()
        else:
            old.process.wait()
            old.close()
        self.pool.processes.remove(old)
        new = await asyncio.to_thread(lambda: self.pool.scripted(self.folder, old.name, port=old.port, pace=2))
        if name == self.audit.name:
            self.audit = new
        else:
            self.kernels[name] = new

    async def mode(self, how):
        name = await self.serving()
        kernel = self.kernels[name]
        kernel.behave(**how, seed=self.drawn.randrange(1000))
        await asyncio.sleep(self.each_s)
        if "die" in how:
            for _ in range(100):
                if kernel.ended:
                    return await self.revive(name)
                await asyncio.sleep(0.05)
        kernel.behave()

    async def kill(self, _):
        name = await self.serving()
        self.kernels[name].process.send_signal(signal.SIGKILL)
        self.kernels[name].process.wait()
        await asyncio.sleep(self.each_s)
        await self.revive(name)

    async def kill_spare(self, _):
        serving = await self.serving()
        name = next(name for name in self.kernels if name != serving)
        self.kernels[name].process.send_signal(signal.SIGKILL)
        self.kernels[name].process.wait()
        await asyncio.sleep(self.each_s)
        await self.revive(name)

    async def kill_audit(self, _):
        self.audit.process.send_signal(signal.SIGKILL)
        self.audit.process.wait()
        await asyncio.sleep(self.each_s)
        await self.revive(self.audit.name)

    async def hang_audit(self, _):
        self.audit.process.send_signal(signal.SIGSTOP)
        await asyncio.sleep(self.each_s)
        self.audit.process.send_signal(signal.SIGCONT)

    async def shift(self, _):
        """The first kernel drifts until it is guarded; then it is well again, and comes back."""
        kernel = self.kernels["a"]
        kernel.behave(shift=-4)
        for _ in range(int(20 * (self.each_s + 20))):
            if await self.serving() != "a":
                break
            await asyncio.sleep(0.05)
        await asyncio.sleep(self.each_s)
        kernel.behave()

    async def reload(self, _):
        self.reloads += 1
        self.gateway.write(limits={"body": f"{100 + self.reloads % 50}KiB"}, times=self.gateway.spec["times"] | {"idle": f"{60 + self.reloads % 9}s"})
        self.gateway.reload()

    async def bad_reload(self, _):
        good = self.gateway.config.read_text()
        self.gateway.config.write_text(good.replace('"threads"', '"treads"'))
        self.gateway.reload()
        await asyncio.sleep(0.5)
        self.gateway.config.write_text(good)

    async def full_disk(self, _):
        size = self.gateway.log.stat().st_size if self.gateway.log else 4096
        limit = lambda soft: resource.prlimit(self.gateway.pid, resource.RLIMIT_FSIZE, (soft, resource.RLIM_INFINITY))  # noqa: E731
        limit(size)
        await asyncio.sleep(self.each_s)
        limit(resource.RLIM_INFINITY)
        await asyncio.sleep(1.5)  # until the log is tried again


class LabDisturber:
    """The same, by the faults that a server of the lab has."""

    RULES = [{"status": {"code": 503, "rate": 0.5}}, {"status": {"code": 429}}, {"cut": {"after_chunks": 2}}, {"latency_ms": 150},
             {"stall": {"after_chunks": 2, "ms": 400}}, {"cut": {"after_chunks": 1}, "burst": {"on": 1, "every": 3}}]  # fmt: skip

    def __init__(self, lab, seed, each_s):
        self.lab, self.drawn, self.each_s = lab, random.Random(seed), each_s

    async def run(self, until):
        while time.monotonic() < until - 2 * self.each_s:
            rule = self.drawn.choice(self.RULES)
            await asyncio.to_thread(lambda: self.lab.fault(name="soak", seed=self.drawn.randrange(99), **rule))
            await asyncio.sleep(self.each_s)
            with contextlib.suppress(OSError):
                await asyncio.to_thread(self.lab.heal)
            await asyncio.sleep(self.each_s / 2)


