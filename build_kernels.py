"""Compiles the kernels, functions of plain Python over numbers and arrays, to one extension.

    python build_kernels.py    compiles them in place, where a source has changed

A kernel is one of :data:`ENTRIES`, or called by one. Its arguments are typed: numbers, arrays by
their names in :mod:`iqcar.tables.arrays`, and NamedTuples of both. It allocates nothing, returns at
most one number, takes no slices, and constants that it uses are numbers. So a few words of its
source replaced make it Cython: arrays of one dimension become pointers, NamedTuples C classes, and
constants what they stand for. Arrays that a kernel writes must be contiguous; of others one that is
not is copied.
"""

from __future__ import annotations

import ast
import copy
import os
import shlex
import shutil
import sys
import sysconfig
import tempfile
import zlib
from pathlib import Path
from typing import Any

ENTRIES = {
    "causes/blame/sweep.py": ("room_needed", "sum_pairs"),
    "causes/blame/usage_sweep.py": ("places_needed", "integrate"),
    "history/change_points.py": ("divide",),
    "logs/decode/lzf.py": ("fill_block",),
    "logs/tasks/record_scanner.py": ("scan_records",),
    "model/waits/execution_memory.py": ("hand_out_memory",),
    "replay/loop/event_kernel.py": ("play",),
}
"""Files of the package with the kernels that are called from Python."""
LIBRARY = "_kernels"
"""Module of the package that they are compiled to."""
SCALARS = {"int": "longlong", "float": "double", "bool": "bint", "None": "void"}
ARRAYS = {
    "Ints": "longlong",
    "Floats": "double",
    "Flags": "uchar",
    "Bytes": "uchar",
    "Ints32": "int",
}
KINDS = {
    "Ints": ("i", 8),
    "Floats": ("f", 8),
    "Flags": ("b", 1),
    "Bytes": ("u", 1),
    "Ints32": ("i", 4),
}
"""Kind and size of the items of each, as numpy has them."""
TABLES = {
    "IntTable": "longlong[:, ::1]", "IntCube": "longlong[:, :, ::1]", "FlagTable": "uchar[:, ::1]",
    "FloatTable": "double[:, ::1]", "FloatCube": "double[:, :, ::1]",
    "ShortTable": "ushort[:, ::1]",
}  # fmt: skip
TYPES = {
    **{name: f"cython.{kind}" for name, kind in (SCALARS | TABLES).items()},
    **{name: f"cython.pointer[cython.{item}]" for name, item in ARRAYS.items()},
}
FLAGS = [] if sys.platform == "win32" else ["-O3", "-fwrapv", "-ffp-contract=off", "-g0"]
"""Without contraction: a product and a sum are rounded one after the other, as in Python."""
HEADER = """# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
# cython: cdivision=True, infer_types=True, nonecheck=False, embedsignature=False
import cython
from cython.cimports.libc.math import INFINITY, NAN

import numpy as np


def _array(values, kind, size):
    if values.dtype.kind != kind or values.dtype.itemsize != size:
        raise TypeError(f"an array of {values.dtype}, where {kind}{size} is expected")
    return np.ascontiguousarray(values)


def _table(values):
    return np.require(values.view(np.uint8) if values.dtype == bool else values, None, ["C", "W"])


@cython.cfunc
def _pointer(values) -> cython.p_void:
    address: cython.size_t = values.__array_interface__["data"][0]
    return cython.cast(cython.p_void, address)
"""


class _File:
    """One source: its functions and NamedTuples, its constants, and where what it imports is."""

    def __init__(self, package: Path, place: str, files: dict[str, _File]) -> None:
        tree = ast.parse((package / place).read_text("utf-8"))
        self.own = {
            node.name: node
            for node in tree.body
            if isinstance(node, ast.FunctionDef | ast.ClassDef)
        }
        self.imported: dict[str, _File] = {}
        self.constants: dict[str, Any] = {"inf": float("inf")}
        files[place] = self
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("iqcar."):
                of = str(node.module).removeprefix("iqcar.").replace(".", "/")
                of += "/__init__.py" if (package / of).is_dir() else ".py"
                if of == "tables/arrays.py":
                    continue
                file = files.get(of) or _File(package, of, files)
                self.imported |= {name.name: file for name in node.names}
                self.constants |= {
                    name.name: file.constants[name.name]
                    for name in node.names
                    if name.name in file.constants
                }
        for node in tree.body:
            if isinstance(node, ast.Assign):
                self._take(node.targets[0], node.value)

    def _take(self, target: ast.expr, value: ast.expr) -> None:
        """Take a constant, or several; what is no number is none."""
        names = [one.id for one in ast.walk(target) if isinstance(one, ast.Name)]
        try:
            known = {"__builtins__": {"range": range}}
            found = eval(ast.unparse(value), known, self.constants)  # noqa: S307  # our own source
            found = list(found) if isinstance(target, ast.Tuple) else [found]
        except Exception:
            return
        if all(type(one) in (int, float) for one in found):
            self.constants |= zip(names, found, strict=True)

    def find(self, name: str) -> tuple[_File, ast.FunctionDef | ast.ClassDef] | None:
        """Return what a name stands for, and the file that it is in; None for another's."""
        if name in self.own:
            return self, self.own[name]
        return self.imported[name].find(name) if name in self.imported else None


class Kernels:
    """The text of the extension, and the sources that it comes from."""

    def __init__(self, package: Path) -> None:
        self._files: dict[str, _File] = {}
        self.fields: dict[str, dict[str, str]] = {}
        self._classes: list[str] = []
        self._written: dict[str, ast.FunctionDef | ast.ClassDef] = {}
        self.functions: dict[str, str] = {}
        self._used: set[_File] = set()
        entries = []
        for place, names in ENTRIES.items():
            file = self._files.get(place) or _File(package, place, self._files)
            for node in (file.own[name] for name in names):
                if isinstance(node, ast.FunctionDef):
                    self._function(file, node)
                    entries.append(self._entry(node))
        sources = {
            place: zlib.crc32((package / place).read_bytes())
            for place, file in self._files.items()
            if file in self._used
        }
        parts = [*self._classes, *self.functions.values(), *entries, f"SOURCES = {sources}"]
        parts.append(f"BUILDER = {zlib.crc32(Path(__file__).read_bytes())}\n")
        self.text = "\n\n\n".join([HEADER, *parts])
        self.sources = sources

    def _type(self, file: _File, name: str) -> str:
        """Return the C type of an annotation; a NamedTuple is a class, written when first met."""
        if name in TYPES:
            return TYPES[name]
        of, found = file.find(name) or (file, None)
        if not isinstance(found, ast.ClassDef):
            raise TypeError(f"a kernel takes no {name}")
        if self._written.setdefault(name, found) is not found:
            raise TypeError(f"two classes of kernels are called {name}")
        if name not in self.fields:
            self._class(of, found)
        return name

    def _class(self, file: _File, node: ast.ClassDef) -> None:
        self._used.add(file)
        lines, init = ["    kept: list"], ["        self.kept = []"]
        fields = self.fields[node.name] = {
            ast.unparse(one.target): ast.unparse(one.annotation)
            for one in node.body
            if isinstance(one, ast.AnnAssign)
        }
        for name, kind in fields.items():
            lines.append(f"    {name}: {self._type(file, kind)}")
            given = f"given.{name}"
            if kind in ARRAYS:
                lines.append(f"    n_{name}: cython.longlong")
                init += [
                    f"        array = _array({given}, *{KINDS[kind]})",
                    "        self.kept.append(array)",
                    f"        self.n_{name} = array.size",
                ]
                given = f"cython.cast({TYPES[kind]}, _pointer(array))"
            elif kind in TABLES:
                given = f"_table({given})"
            init.append(f"        self.{name} = {given}")
        head = ["@cython.final", "@cython.cclass", f"class {node.name}:"]
        self._classes.append(
            "\n".join([*head, *lines, "", "    def __init__(self, given):", *init])
        )

    def _function(self, file: _File, node: ast.FunctionDef) -> None:
        """Write a kernel, and before it those that it calls."""
        if self._written.setdefault(node.name, node) is not node:
            raise TypeError(f"two kernels are called {node.name}")
        if node.name in self.functions:
            return
        self._used.add(file)
        types = {one.arg: _named(one.annotation) for one in node.args.args}
        of_c = {name: self._type(file, kind) for name, kind in types.items()}
        for call in ast.walk(node):
            of, called = file.find(_called(call)) or (file, None)
            if isinstance(called, ast.FunctionDef):
                self._function(of, called)
        text = copy.deepcopy(node)
        text.returns = None
        if ast.get_docstring(text):
            text.body = text.body[1:]
        local = _Locals(self, file, types, text).found
        returns = TYPES[_named(node.returns)]
        text = _Rewrite(file.constants, types | local, self.fields).visit(text)
        for one in text.args.args:
            one.annotation = ast.parse(of_c[one.arg], mode="eval").body
        text.body[:0] = [ast.parse(f"{one}: {TYPES[kind]}").body[0] for one, kind in local.items()]
        marks = "cfunc", "nogil", "exceptval(check=False)"
        head = [*(f"@cython.{mark}" for mark in marks), f"@cython.returns({returns})"]
        self.functions[node.name] = "\n".join([*head, ast.unparse(text)])

    def _entry(self, node: ast.FunctionDef) -> str:
        """Write what Python calls: it takes arrays and NamedTuples, and frees the interpreter."""
        lines, given = [], []
        for one in node.args.args:
            kind = _named(one.annotation)
            if kind in SCALARS:
                made = one.arg
            elif kind in TABLES:
                made = f"_table({one.arg})"
            elif kind in ARRAYS:
                lines.append(f"    {one.arg} = _array({one.arg}, *{KINDS[kind]})")
                made = f"cython.cast({TYPES[kind]}, _pointer({one.arg}))"
            else:
                made = f"{kind}({one.arg})"
            lines.append(f"    c_{one.arg}: {TYPES.get(kind, kind)} = {made}")
            given.append(f"c_{one.arg}")
        returns = _named(node.returns)
        call = f"{node.name}({', '.join(given)})"
        if returns == "None":
            lines += ["    with cython.nogil:", f"        {call}"]
        else:
            lines += [f"    found: {TYPES[returns]}", "    with cython.nogil:"]
            lines += [f"        found = {call}", "    return found"]
        names = ", ".join(one.arg for one in node.args.args)
        return "\n".join([f"def call_{node.name}({names}):", *lines])


class _Rewrite(ast.NodeTransformer):
    """Makes Cython of a kernel's body."""

    def __init__(
        self, constants: dict[str, Any], types: dict[str, str], fields: dict[str, dict[str, str]]
    ) -> None:
        self._constants, self._types, self._fields = constants, types, fields

    def visit_Name(self, node: ast.Name) -> ast.AST:
        known = node.id in self._constants and node.id not in self._types
        if not known or not isinstance(node.ctx, ast.Load):
            return node
        return self.visit_Constant(ast.Constant(self._constants[node.id]))

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if type(node.value) is not int:
            return node
        # Else Cython takes a small one for 32 bits wide, and a large one for an object of Python.
        high, low = divmod(node.value, 1 << 20)
        text = f"cython.cast(cython.longlong, {low})"
        if high:
            text = f"({text} + cython.cast(cython.longlong, {high}) * {1 << 20})"
        return ast.parse(text, mode="eval").body

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        if ast.unparse(node) in ("np.inf", "np.nan"):
            return ast.Name("INFINITY" if node.attr == "inf" else "NAN")
        self.generic_visit(node)
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        if isinstance(node.value, ast.Attribute) and node.value.attr == "shape":
            return node
        self.generic_visit(node)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        name = _called(node)
        if name == "len":  # of an argument or a field of one
            of = node.args[0]
            kind = self._kind(of)
            if kind in TABLES:
                return ast.parse(f"{ast.unparse(of)}.shape[0]", mode="eval").body
            if not isinstance(of, ast.Attribute) or kind not in ARRAYS:
                raise TypeError(f"a kernel cannot tell {ast.unparse(node)}")
            return ast.parse(f"{ast.unparse(of.value)}.n_{of.attr}", mode="eval").body
        self.generic_visit(node)
        if name in ("int", "float"):
            text = f"cython.cast(cython.{SCALARS[name]}, {ast.unparse(node.args[0])})"
            return ast.parse(text, mode="eval").body
        if name == "bool":
            return node.args[0]
        if ast.unparse(node.func) == "np.isnan":
            one = ast.unparse(node.args[0])
            return ast.parse(f"({one} != {one})", mode="eval").body
        return node

    def _kind(self, of: ast.expr) -> str:
        if isinstance(of, ast.Attribute):
            fields = self._fields.get(self._types.get(ast.unparse(of.value), ""), {})
            return fields.get(of.attr, "")
        return self._types.get(ast.unparse(of), "")


class _Locals:
    """Types of a kernel's variables: the widest of all that is assigned to each."""

    WIDTH = "bool", "int", "float"

    def __init__(
        self, kernels: Kernels, file: _File, types: dict[str, str], node: ast.FunctionDef
    ) -> None:
        self._kernels, self._file = kernels, file
        self._known = dict(types)
        for _ in range(3):  # what is assigned further down may widen what is read further up
            for one in ast.walk(node):
                if isinstance(one, ast.Assign):
                    for target in one.targets:
                        self._assign(target, one.value)
                elif isinstance(one, ast.AugAssign):
                    self._assign(one.target, one.value)
                elif isinstance(one, ast.For):
                    self._note(one.target, "int")
        self.found = {name: kind for name, kind in self._known.items() if name not in types}

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            for one, of in zip(target.elts, value.elts, strict=True):
                self._note(one, self.kind(of))
        else:
            self._note(target, self.kind(value))

    def _note(self, target: ast.expr, kind: str) -> None:
        if isinstance(target, ast.Name) and kind:
            self._known[target.id] = self._widest(self._known.get(target.id, ""), kind)

    def _widest(self, *kinds: str) -> str:
        known = [kind for kind in kinds if kind] or [""]
        return max(known, key=lambda kind: self.WIDTH.index(kind) if kind in self.WIDTH else 9)

    def kind(self, of: ast.expr) -> str:
        """Return the type of an expression, as a source calls it; nothing if it is not known."""
        constants = self._file.constants
        if isinstance(of, ast.Constant):
            return type(of.value).__name__
        if isinstance(of, ast.Name):
            known = self._known.get(of.id)
            return known or (type(constants[of.id]).__name__ if of.id in constants else "")
        if isinstance(of, ast.Attribute):
            if ast.unparse(of) in ("np.inf", "np.nan"):
                return "float"
            fields = self._kernels.fields.get(self._known.get(ast.unparse(of.value), ""), {})
            return fields.get(of.attr, "")
        if isinstance(of, ast.Subscript):
            return "float" if self.kind(of.value).startswith("Float") else "int"
        if isinstance(of, ast.BinOp):
            divides = isinstance(of.op, ast.Div)
            return "float" if divides else self._widest("int", *map(self.kind, (of.left, of.right)))
        if isinstance(of, ast.UnaryOp) and not isinstance(of.op, ast.Not):
            return self.kind(of.operand)
        if isinstance(of, ast.IfExp):
            return self._widest(self.kind(of.body), self.kind(of.orelse))
        if isinstance(of, ast.Call):
            name = _called(of)
            if name in ("min", "max", "abs"):
                return self._widest(*map(self.kind, of.args))
            called = self._file.find(name)
            if called and isinstance(called[1], ast.FunctionDef) and called[1].returns:
                return ast.unparse(called[1].returns)
            return {"len": "int", "int": "int", "float": "float"}.get(name, "bool")
        return "bool"


def _named(annotation: ast.expr | None) -> str:
    return ast.unparse(annotation or ast.Constant(None))


def _called(node: ast.AST) -> str:
    return node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""


def library_in(package: Path) -> Path:
    """Return where the extension of this Python is, in a package."""
    return package / f"{LIBRARY}{sysconfig.get_config_var('EXT_SUFFIX')}"


def build(package: Path, to: Path) -> Path:
    """Compile the kernels of a package into a folder; raises where that cannot be done.

    Both are given by absolute paths.
    """
    compiler = os.environ.get("CC") or sysconfig.get_config_var("CC")
    if compiler and not shutil.which(shlex.split(compiler)[0]):
        raise FileNotFoundError(f"there is no compiler {shlex.split(compiler)[0]}")
    from Cython.Build import cythonize
    from setuptools import Extension
    from setuptools.dist import Distribution

    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, f"{LIBRARY}.py")
        source.write_text(Kernels(package).text, "utf-8")
        os.chdir(folder)  # paths that are compiled in are the same in every build
        try:
            extension = Extension(f"iqcar.{LIBRARY}", [source.name], extra_compile_args=FLAGS)
            made = Distribution({"ext_modules": cythonize([extension], quiet=True)})
            command: Any = made.get_command_obj("build_ext")
            command.build_lib = command.build_temp = "."
            command.ensure_finalized()
            command.run()
        finally:
            os.chdir(before)
        library = library_in(to)
        found = Path(folder, command.get_ext_fullpath(f"iqcar.{LIBRARY}"))
        # A process may have the one before open: it is replaced, not written over.
        return Path(shutil.copy2(found, library.with_suffix(".new"))).replace(library)


def main() -> None:
    """Compile the kernels of this checkout in place, if a source has changed since."""
    analyzer = Path(__file__).resolve().parent / "analyzer"
    sys.path.insert(0, str(analyzer))
    from iqcar.base.kernels import library

    made, _ = library()
    known = getattr(made, "BUILDER", None)
    if known != zlib.crc32(Path(__file__).read_bytes()):
        build(analyzer / "iqcar", analyzer / "iqcar")


if __name__ == "__main__":
    main()
