#!/usr/bin/env python3
"""How many cycles a scheduler of an NVIDIA GPU takes for the main loop of each kernel, by its register reads.

    cargo xtask ptx --show gemm_tiles.sm_90 >g.ptx
    ptxas -arch=sm_90 g.ptx -o g.cubin && nvdisasm -c g.cubin | python3 register_reads.py

The model: two register banks, by parity, each with one read a cycle; an operand that the instruction before has marked `.reuse`
in the same place needs no read. An FFMA takes as many cycles as the bank that is read most often, any other instruction one. The
loop of a kernel is the one with the most FFMA. What the branches in it skip is counted too.

Printed for each: instructions, FFMA, cycles, FFMA a cycle; how many FFMA read three registers, and how many two of one bank; and
the shortest distances from a load from shared memory to its use, in instructions.
"""
import re
import sys


def kernels(text):
    """The instructions of each kernel, without predicates, and the labels among them."""
    name, instructions, labels = None, [], {}
    for line in text.splitlines():
        if match := re.match(r"\s*\.section\s+\.text\.(\S+?),", line):
            if name:
                yield name, instructions, labels
            name, instructions, labels = match[1], [], {}
        elif match := re.match(r"\s*(\.L\S+):", line):
            labels[match[1]] = len(instructions)
        elif match := re.match(r"\s*/\*[0-9a-f]{4,}\*/\s+(.*?)\s*;", line):
            instructions.append(re.sub(r"^@!?U?P\w+ +", "", match[1]))
    if name:
        yield name, instructions, labels


def main_loop(instructions, labels):
    loops = []
    for end, instruction in enumerate(instructions):
        if match := re.search(r"BRA.*`\((\S+)\)", instruction):
            start = labels.get(match[1], end)
            if start < end:
                loops.append(instructions[start : end + 1])
    return max(loops, key=lambda loop: sum(i.startswith("FFMA") for i in loop), default=[])


def operands(instruction):
    parts = instruction.split(None, 1)
    return [part.strip() for part in parts[1].split(",")] if len(parts) > 1 else []


def reads(loop):
    """Cycles, FFMA that read three registers, and those that read two of one bank."""
    cycles = three = conflicts = 0
    kept = {}
    for instruction in loop:
        if not instruction.startswith("FFMA"):
            cycles += 1
            kept = kept if instruction.startswith("LDS") else {}
            continue
        banks, keep = [0, 0], {}
        for place, operand in enumerate(operands(instruction)[1:]):
            if match := re.search(r"R(\d+)", operand):
                register = int(match[1])
                banks[register % 2] += kept.get(place) != register
                if "reuse" in operand:
                    keep[place] = register
        kept = keep
        cycles += max(1, *banks)
        three += sum(banks) == 3
        conflicts += banks in ([2, 0], [0, 2])
    return cycles, three, conflicts


def distances(loop):
    found = []
    for at, instruction in enumerate(loop):
        if match := re.match(r"LDS(\S*) R(\d+)", instruction):
            width = 4 if "128" in match[1] else 2 if "64" in match[1] else 1
            loaded = {int(match[2]) + i for i in range(width)}
            for distance in range(1, len(loop)):
                sources = " ".join(operands(loop[(at + distance) % len(loop)])[1:])
                if loaded & {int(r) for r in re.findall(r"\bR(\d+)", sources)}:
                    found.append(distance)
                    break
    return sorted(found)


for name, instructions, labels in kernels(sys.stdin.read()):
    loop = main_loop(instructions, labels)
    count = sum(i.startswith("FFMA") for i in loop)
    if count:
        cycles, three, conflicts = reads(loop)
        print(f"{name}: {len(loop)} instructions, {count} FFMA, {cycles} cycles, {count / cycles:.3f} FFMA a cycle;", end=" ")
        print(f"{three} read three, {conflicts} two of one bank; loads to use {distances(loop)[:8]}")
