"""Files, functions and calls stay of a size that can be read at once."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from build_kernels import Kernels

REPO = Path(__file__).resolve().parents[2]
PACKAGES = REPO / "analyzer"
MOST_LINES_OF_A_FILE = 700
MOST_LINES_OF_A_FUNCTION = 60
MOST_POSITIONAL = 5
MOST_BYTES_IN_THE_REPOSITORY = 2_000_000

KERNELS = Kernels(PACKAGES / "iqcar").functions.keys()

LONG_FUNCTIONS = {
    "task_table.py": "one table",
}
"""Files with a function that may be longer, and why."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


def sources() -> list[Path]:
    """Every file of Python in the package, its tests and its scripts."""
    return sorted(
        file
        for place in ("analyzer", "listener/src/main/resources", "tests", "scripts")
        for file in (REPO / place).rglob("*.py")
    )


def packaged() -> list[Path]:
    """Files of both packages but for simulators, whose runs are one draw after the other."""
    return [file for file in PACKAGES.rglob("*.py") if file.parent.name != "clusters"]


def parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"), str(file))


def is_kernel(function: Function) -> bool:
    """Whether it is compiled: such code cannot be cut up or called by keyword at no cost."""
    jit = any("jit" in ast.unparse(decorator) for decorator in function.decorator_list)
    return jit or function.name in KERNELS


def named(nodes: Iterator[ast.AST]) -> Iterator[Function]:
    return (node for node in nodes if isinstance(node, Function))


def length(function: Function) -> int:
    """Lines of its body, without signature and docstring."""
    body = function.body[1:] if ast.get_docstring(function) else function.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def long_functions(tree: ast.Module) -> list[str]:
    """Name and length of every function that is too long, but for those that are compiled."""
    return [
        f"{function.name}: {length(function)} lines"
        for function in named(ast.walk(tree))
        if length(function) > MOST_LINES_OF_A_FUNCTION and not is_kernel(function)
    ]


def takes_fields(trees: Iterable[ast.Module]) -> set[str]:
    """Names of functions and classes that take each argument for something else.

    Not of those that take any number of like ones (``*rows``), nor of kernels.
    """
    names, others = {"cls"}, set[str]()
    for node in (node for tree in trees for node in ast.walk(tree)):
        if isinstance(node, ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, Function):
            (others if node.args.vararg or is_kernel(node) else names).add(node.name)
    return names - others


def crowded_calls(tree: ast.Module, names: set[str]) -> list[str]:
    """Line and name of every call of these by more positional arguments than can be told apart."""
    inside_kernels = {
        id(node)
        for kernel in named(ast.walk(tree))
        if is_kernel(kernel)
        for node in ast.walk(kernel)
    }
    return [
        f"{node.lineno}: {ast.unparse(node.func)}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and len(node.args) > MOST_POSITIONAL
        and ast.unparse(node.func).split(".")[-1] in names
        and id(node) not in inside_kernels
    ]


def test_no_file_is_too_long() -> None:
    found = {
        file.relative_to(REPO).as_posix()
        for file in sources()
        if len(file.read_text(encoding="utf-8").splitlines()) > MOST_LINES_OF_A_FILE
    }
    assert found == set()


def test_nothing_large_is_in_the_repository() -> None:
    """What a tool downloads into the folder it runs in is easily committed, and stays in clones."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=REPO, capture_output=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    files = [REPO / name for name in listed.stdout.decode().split("\0") if name]
    assert files
    large = [f for f in files if f.exists() and f.stat().st_size > MOST_BYTES_IN_THE_REPOSITORY]
    assert large == []


def test_no_function_is_too_long() -> None:
    found = {file.name: long_functions(parsed(file)) for file in packaged()}
    assert {name for name, functions in found.items() if functions} == set(LONG_FUNCTIONS)


def test_no_call_has_more_positional_arguments_than_can_be_told_apart() -> None:
    trees = {file: parsed(file) for file in packaged()}
    public = {name for name in takes_fields(trees.values()) if not name.startswith("_")}
    found = {
        file.name: crowded_calls(tree, public | takes_fields([tree]))
        for file, tree in trees.items()
    }
    assert {name: calls for name, calls in found.items() if calls} == {}


def test_long_functions_and_crowded_calls_are_found() -> None:
    body = "\n".join("    x = 1" for _ in range(MOST_LINES_OF_A_FUNCTION + 1))
    tree = ast.parse(f"def long():\n{body}\ndef play():\n{body}\nlong(1, 2, 3, 4, 5, 6)")
    assert long_functions(tree) == ["long: 61 lines"]
    assert crowded_calls(tree, takes_fields([tree])) == ["125: long"]
    assert crowded_calls(ast.parse("declare(1, 2, 3, 4, 5, 6)"), {"long"}) == []
