"""A module is traced as any candidate is: the judged plans pass, anything else is told."""

from dataclasses import replace

from service.evaluation.executor_client import LocalExecutor
from service.export.modules import ExportedModule, write_module
from service.export.retrace_check import retrace
from tests.service.export.pieces import KEYS, certificate, traced


async def test_only_what_was_judged_passes() -> None:
    traced()
    module = write_module(certificate(), KEYS)
    other = certificate()
    then = {"triton": "3.6.0"}
    aged = other.model_copy(update={"verdict": other.verdict.model_copy(update={"versions": then})})

    def changed(before: str, after: str) -> ExportedModule:
        assert before in module.text
        return replace(module, text=module.text.replace(before, after), certificate=aged)

    async with LocalExecutor("trace") as tracer:
        assert await retrace(module, tracer) == ""
        assert await retrace(write_module(certificate(), KEYS[1:]), tracer) == ""
        wrong = await retrace(
            changed("b3.fill_(0)\n    double_kernel[(4,", "b3.fill_(1)\n    double_kernel[(4,"), tracer
        )
        assert wrong.startswith(
            "the plan of its exported module differs from the judged one at N=1024; judged with triton 3.6.0"
        )
        slow = await retrace(changed("1024.0) / 1024.0", "512.0) / 512.0"), tracer)
        assert "differs from the judged one at N=4, N=1024" in slow
        broken = await retrace(changed("import torch\n", "import os\nimport torch\n"), tracer)
        assert "does not trace: forbidden_import" in broken
