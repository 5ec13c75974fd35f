from workers.assembler.ptx.syntax import PtxBlock, PtxFunction, PtxInstruction, PtxLabel


def test_an_opcode_splits_into_head_and_modifiers() -> None:
    item = PtxInstruction("cp.async.bulk.shared::cta.global")
    assert item.head == "cp"
    assert item.modifiers == ("async", "bulk", "shared::cta", "global")
    assert PtxInstruction("ret").modifiers == ()


def test_a_function_lists_its_instructions_in_order() -> None:
    first, second = PtxInstruction("mov.b32"), PtxInstruction("ret")
    body = PtxBlock((PtxLabel("a"), PtxBlock((first,)), second))
    assert PtxFunction("f", body=body).instructions == (first, second)
    assert PtxFunction("f").instructions == ()
