#!/usr/bin/env python3
# SPDX-FileCopyrightText: The KokkosXent authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reads the instructions of compiled kernels, and fails if their loops are not vectorised.

An exponential is a polynomial, that is a run of fused multiply-adds. In the innermost loops of each
function, scalar ones, those of called exponentials included, must not be more than packed ones there
and outside of loops: a short loop is unrolled once it is vectorised, and only its scalar twin, for
operands that may overlap, remains a loop. But
what merges the parts of a row may be scalar. A loop that calls a function with loops is not an
innermost one. The C library's exponentials are not called at all. 16-bit logits must be widened and
made again by instructions on whole registers.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Optional

FUNCTION = re.compile(r"[0-9a-f]+ <(?P<name>.*)>:$")
INSTRUCTION = re.compile(
    r"\s+(?P<address>[0-9a-f]+):\s+(?P<operation>[a-z]\S*)\s*(?P<operands>.*)$"
)
RELOCATION = re.compile(r"\s+[0-9a-f]+:\s+R_X86_64_\w+\s+(?P<symbol>.*)$")
MULTIPLY_ADD = re.compile(r"vfn?m(?:add|sub)\d+(?P<kind>[ps])[sd]$")
EXPONENTIAL = re.compile(r"(?:^|[\s:])\w*exp(?:m1|2)?f?(?:_\w+)?(?:<\w+>)?(?:\(|[-+]0x|$)")

FEWEST_VECTORISED = 2  # functions: one that adds up exponentials, one that makes gradients of them
EXPONENTIAL_LENGTH = {"float": 10, "double": 16}  # in multiply-adds
MERGE_LENGTH = 4  # without its exponential

# Once for each part of a row, in a loop that may be unrolled
MERGES = re.compile(r"::merge\w*(?:<\d+>)?\(|MergeStates|ForwardParts|run_forward")
MOST_UNROLLED = 4

# Of 16-bit types: the instructions that widen them, and those that make them again.
PACKED_CONVERSIONS = (
    "vcvtph2ps|vpmovzxwd|vpunpck[lh]wd",
    "vcvtps2ph|vcvtneps2bf16|vpack[us]sdw|vpshufb",
)
SIXTEEN_BIT_TYPES = ("KokkosXent::float16", "KokkosXent::bfloat16")
WHOLE_REGISTER = re.compile(r"%[yz]mm")

# Class weights and label smoothing
NOT_ASKED_OF = re.compile(r"IndexTargets<\w+, true>|LaneStates<\w+, true|background")


@dataclass
class Instruction:
    address: int
    operation: str
    operands: str
    symbol: str = ""  # what the linker puts into it

    def is_jump(self) -> bool:
        return self.operation.startswith("j")

    def jumps_to(self) -> Optional[int]:
        found = re.match(r"(?:0x)?([0-9a-f]+)\b", self.operands)
        return int(found[1], 16) if found and self.is_jump() else None

    def ends_block(self) -> bool:
        return self.is_jump() or not self.continues()

    def continues(self) -> bool:
        """With the next instruction, at least sometimes."""
        return not self.operation.startswith(("jmp", "ret", "ud2"))

    def callee(self) -> str:
        if not self.operation.startswith("call"):
            return ""
        found = re.search(r"<(.*)>", self.operands)
        return re.sub(r"[-+]0x[0-9a-f]+$", "", self.symbol or (found[1] if found else ""))


def predecessors_of(successors: list[list[int]]) -> list[list[int]]:
    predecessors: list[list[int]] = [[] for _ in successors]
    for block, following in enumerate(successors):
        for each in following:
            predecessors[each].append(block)
    return predecessors


def dominators_of(predecessors: list[list[int]]) -> list[int]:
    """The blocks that every path from the first block to a block goes through, as bits."""
    everything = (1 << len(predecessors)) - 1
    dominators = [1] + [everything] * (len(predecessors) - 1)
    changed = True
    while changed:
        changed = False
        for block in range(1, len(predecessors)):
            common = everything
            for each in predecessors[block]:
                common &= dominators[each]
            common |= 1 << block
            changed |= common != dominators[block]
            dominators[block] = common
    return dominators


def reachable_from_first(successors: list[list[int]]) -> list[list[int]]:
    """Without what leads out of padding, which nothing leads to."""
    reached: set[int] = set()
    pending = [0]
    while pending:
        block = pending.pop()
        if block not in reached:
            reached.add(block)
            pending += successors[block]
    return [following if i in reached else [] for i, following in enumerate(successors)]


def natural_loops(successors: list[list[int]]) -> dict[int, set[int]]:
    """The blocks of each loop, by the block where it begins: the only way into it."""
    predecessors = predecessors_of(successors)
    dominators = dominators_of(predecessors)
    loops: dict[int, set[int]] = {}
    for last, following in enumerate(successors):
        for header in following:
            if not dominators[last] >> header & 1:
                continue
            body = loops.setdefault(header, {header})
            pending = [last]
            while pending:
                block = pending.pop()
                if block not in body:
                    body.add(block)
                    pending += predecessors[block]
    return loops


@dataclass
class Function:
    name: str
    instructions: list[Instruction] = field(default_factory=list)

    def loops(self) -> list[list[Instruction]]:
        """The instructions of each loop that holds no other."""
        blocks = self._basic_blocks()
        found = natural_loops(reachable_from_first(self._successors(blocks)))
        return [
            [each for block in sorted(body) for each in blocks[block]]
            for header, body in found.items()
            if not any(other in body for other in found if other != header)
        ]

    def _basic_blocks(self) -> list[list[Instruction]]:
        targets = {each.jumps_to() for each in self.instructions}
        blocks: list[list[Instruction]] = [[]]
        for each in self.instructions:
            if blocks[-1] and (each.address in targets or blocks[-1][-1].ends_block()):
                blocks.append([])
            blocks[-1].append(each)
        return blocks

    @staticmethod
    def _successors(blocks: list[list[Instruction]]) -> list[list[int]]:
        place = {block[0].address: i for i, block in enumerate(blocks) if block}
        successors: list[list[int]] = []
        for i, block in enumerate(blocks):
            successors.append([])
            if not block:
                continue
            target = block[-1].jumps_to()
            if target is not None and target in place:
                successors[i].append(place[target])
            if block[-1].continues() and i + 1 < len(blocks):
                successors[i].append(i + 1)
        return successors

    def title(self) -> str:
        """The library's own names in it."""
        names = re.findall(r"KokkosXent::(?:Impl::)?(\w+(?:<\w+, \w+>)?)", self.name)
        return ", ".join(dict.fromkeys(names))


@dataclass(frozen=True)
class LoopCounts:
    """Of the innermost loops of a function; packed ones also outside of loops."""

    packed: int
    scalar: int
    exponentials: list[str]  # that are called

    def text(self) -> str:
        calls = f", {len(self.exponentials)} calls of exp" if self.exponentials else ""
        return f"{self.packed} packed, {self.scalar} scalar{calls}"

    def is_vectorised(self, exponential_length: int, merges: int) -> bool:
        scalar = self.scalar + exponential_length * len(self.exponentials)
        return scalar <= max(self.packed, merges * (exponential_length + MERGE_LENGTH))


class InnermostLoops:
    """Of functions that call each other."""

    def __init__(self, functions: list[Function]):
        self._by_name = {function.name: function for function in functions}

    def count(self, function: Function) -> LoopCounts:
        loops = [loop for loop in function.loops() if not self._calls_loops(loop)]
        instructions = [each for loop in loops for each in loop]
        kinds = [
            found["kind"] for each in instructions if (found := MULTIPLY_ADD.match(each.operation))
        ]
        packed = sum(
            found["kind"] == "p"
            for each in function.instructions
            if (found := MULTIPLY_ADD.match(each.operation))
        )
        exponentials = list(filter(EXPONENTIAL.search, (each.callee() for each in instructions)))
        in_loops = bool(kinds or exponentials)
        return LoopCounts(packed if in_loops else 0, kinds.count("s"), exponentials)

    def _calls_loops(self, loop: list[Instruction]) -> bool:
        pending = [each.callee() for each in loop]
        reached = set()
        while pending:
            name = pending.pop()
            callee = self._by_name.get(name)
            if name in reached or callee is None:
                continue
            if callee.loops():
                return True
            reached.add(name)
            pending += [each.callee() for each in callee.instructions]
        return False


def read_functions(objdump: str, path: Path) -> list[Function]:
    text = subprocess.run(
        [objdump, "--disassemble", "--reloc", "--demangle", "--no-show-raw-insn", str(path)],
        check=True, stdout=subprocess.PIPE, text=True,
    ).stdout  # fmt: skip
    functions: list[Function] = []
    for line in text.splitlines():
        if found := FUNCTION.match(line):
            functions.append(Function(found["name"]))
        elif found := RELOCATION.match(line):
            functions[-1].instructions[-1].symbol = found["symbol"]
        elif found := INSTRUCTION.match(line):
            functions[-1].instructions.append(
                Instruction(int(found["address"], 16), found["operation"], found["operands"])
            )
    return [function for function in functions if "KokkosXent::" in function.name]


def loop_problems(functions: list[Function], scalar_type: str) -> list[str]:
    problems = []
    vectorised = 0
    innermost_loops = InnermostLoops(functions)
    for function in functions:
        counts = innermost_loops.count(function)
        if counts == LoopCounts(0, 0, []):
            continue
        text = f"{counts.text()}: {function.title()}"
        if NOT_ASKED_OF.search(function.name):
            print(f"{text} (nothing is asked of it)")
            continue
        print(text)
        vectorised += counts.packed > counts.scalar
        merges = MOST_UNROLLED if MERGES.search(function.name) else 0
        if not counts.is_vectorised(EXPONENTIAL_LENGTH[scalar_type], merges):
            problems.append(f"is not vectorised: {text}")
    if vectorised < FEWEST_VECTORISED:
        problems.append(f"is not vectorised: all but {vectorised} functions")
    return problems


def library_problems(functions: list[Function]) -> list[str]:
    called = {each.symbol for function in functions for each in function.instructions}
    return [
        f"calls the C library's {symbol}"
        for symbol in sorted(called)
        if EXPONENTIAL.search(symbol) and "KokkosXent::" not in symbol
    ]


def conversion_problems(functions: list[Function], value_type: str) -> list[str]:
    if value_type not in SIXTEEN_BIT_TYPES:
        return []
    packed = [
        each.operation
        for function in functions
        for each in function.instructions
        if WHOLE_REGISTER.search(each.operands)
    ]
    return [
        f"no packed conversion ({pattern}) of {value_type}"
        for pattern in PACKED_CONVERSIONS
        if not any(re.match(pattern, operation) for operation in packed)
    ]


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Fails if the loops of kernels are not vectorised."
    )
    parser.add_argument("--objdump", required=True)
    parser.add_argument("--value-type", required=True, help="of the logits")
    parser.add_argument("object", type=Path)
    options = parser.parse_args()

    functions = read_functions(options.objdump, options.object)
    print("Multiply-adds of each function, scalar ones in its innermost loops:")
    scalar_type = "double" if options.value_type == "double" else "float"
    problems = loop_problems(functions, scalar_type)
    problems += library_problems(functions)
    problems += conversion_problems(functions, options.value_type)
    for problem in problems:
        print(f"FAILED: {problem}")
    if problems:
        print("docs/architecture.md says what host compilers need.")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
