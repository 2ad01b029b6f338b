"""Functions that only compiled code calls: nothing is optimised and no machine code is made for them alone.

Numba makes a library of each compiled function, optimises it, emits it, and then does all of that again with a copy of its code
in whatever calls it, once for each level of calls.  The code of an inner function is only handed on to the caller; all is
optimised once, in the function that Python calls.  Three quarters of the time of a first call went that way.

Built on parts of Numba that are not public; where one of them is missing or different, ``PIPELINE`` is None, and inner functions
are compiled like others.
"""

from __future__ import annotations

from typing import Any

PIPELINE: Any = None
try:
    from numba import _dynfunc  # type: ignore[attr-defined]
    from numba.core.codegen import JITCodeLibrary
    from numba.core.compiler import Compiler
    from numba.core.compiler_machinery import register_pass
    from numba.core.typed_passes import NativeLowering

    class InnerLibrary(JITCodeLibrary):  # type: ignore[misc]
        """Code that waits to be linked into its callers."""

        def _optimize_functions(self, module: Any) -> None:
            module.data_layout = self._codegen._data_layout

        def finalize(self) -> None:
            self._finalize_dynamic_globals()
            self._finalized = True

        def get_pointer_to_function(self, name: str) -> int:
            return 0

    @register_pass(mutates_CFG=True, analysis_only=False)
    class InnerLowering(NativeLowering):  # type: ignore[misc]
        """To LLVM's language and no further; callers link this library and all that it calls."""

        _name = "inner_lowering"

        def run_pass(self, state: Any) -> bool:
            library = state.library = InnerLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
            state.flags.no_compile = True
            super().run_pass(state)
            lowered = state["cr"]
            made = lowered.fndesc
            name = made.qualname.split(".")[-1]
            # never called: Python goes another way (compiled.py), compiled code calls what is linked in
            handle = _dynfunc.make_function(made.lookup_module(), name, "", 0, lowered.env, (library,))
            called = dict.fromkeys(library._linking_libraries)
            state.targetctx.insert_user_function(handle, made, [library, *called])
            state["cr"] = lowered._replace(cfunc=handle)
            return True

    class InnerCompiler(Compiler):  # type: ignore[misc]
        """Numba's own pipeline with another end."""

        def define_pipelines(self) -> list[Any]:
            pipelines: list[Any] = super().define_pipelines()
            for pipeline in pipelines:
                pipeline.passes = [(InnerLowering if p is NativeLowering else p, text) for p, text in pipeline.passes]
                pipeline._finalized = False
                pipeline.finalize()
            return pipelines

    PIPELINE = InnerCompiler
except (ImportError, AttributeError):  # another Numba
    pass
